"""Controls of the playground: numbers, choices, switches and texts, with their bounds, which are checked here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ...core.errors import DataError, fail

Value = float | int | bool | str


@dataclass(frozen=True, slots=True)
class Control:
    """A control: one thing that can be set.

    `restarts` says whether a change begins a new run; others take effect at the next step, and are part of what going
    back in time restores. A number's slider is `logarithmic` or even; `whole` numbers are counted.
    """

    name: str
    label: str
    default: Value
    kind: Literal["number", "choice", "switch", "text"] = "number"
    low: float = 0.0
    high: float = 0.0
    whole: bool = False
    logarithmic: bool = False
    choices: tuple[str, ...] = ()
    restarts: bool = True
    # Characters of a text.
    longest: int = 0
    # Shown only while another control has this value.
    shown_with: tuple[str, str] | None = None
    # Switches of one group stand together.
    group: str = ""

    def checked(self, value: object) -> Value:
        """Return the value as it is used. Raises DataError for what is not allowed."""
        if self.kind == "switch":
            if not isinstance(value, bool):
                fail(DataError, f"{self.label} is on or off, not {_short(value)}")
            return value
        if self.kind == "choice":
            if not isinstance(value, str) or value not in self.choices:
                fail(DataError, f"{self.label} is one of {', '.join(self.choices)}, not {_short(value)}")
            return value
        if self.kind == "text":
            if not isinstance(value, str) or len(value) > self.longest:
                fail(DataError, f"{self.label} is a text of at most {self.longest} characters")
            return value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            fail(DataError, f"{self.label} is a number, not {_short(value)}")
        # NaN is in no range.
        if not self.low <= value <= self.high:
            fail(DataError, f"{self.label} is {self.low:g} to {self.high:g}, not {_short(value)}")
        if self.whole:
            if value != int(value):
                fail(DataError, f"{self.label} is a whole number, not {value:g}")
            return int(value)
        return float(value)

    def described(self) -> dict[str, Any]:
        """Return what the page needs to draw it."""
        found: dict[str, Any] = {
            "name": self.name,
            "label": self.label,
            "kind": self.kind,
            "default": self.default,
            "restarts": self.restarts,
        }
        if self.kind == "number":
            found |= {"low": self.low, "high": self.high, "whole": self.whole, "logarithmic": self.logarithmic}
        elif self.kind == "choice":
            found["choices"] = list(self.choices)
        elif self.kind == "text":
            found["longest"] = self.longest
        if self.group:
            found["group"] = self.group
        if self.shown_with is not None:
            found["shown_with"] = list(self.shown_with)
        return found


def settings(controls: Sequence[Control], given: Mapping[str, object]) -> dict[str, Value]:
    """Return a value for every control: those given, checked, and the defaults. Raises DataError."""
    known = {control.name for control in controls}
    unknown = [name for name in given if name not in known]
    if unknown:
        fail(DataError, f"there is nothing called {_short(unknown[0])} to set here")
    return {c.name: c.checked(given[c.name]) if c.name in given else c.default for c in controls}


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


SEED = Control("seed", "Seed", 1, low=0, high=999, whole=True)


def step_size(default: float) -> Control:
    """Return the control of the step size, over the range in which runs creep, settle and diverge."""
    return Control("rate", "Step size", default, low=1e-3, high=3.0, logarithmic=True, restarts=False)


METHODS = ("plain", "momentum", "Adam")


def method(default: str = "plain") -> Control:
    """Return the control of the optimiser."""
    return Control("method", "Method", default, "choice", choices=METHODS, restarts=False)
