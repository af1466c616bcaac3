"""The way operations are shown and spoken of, by the op table.

A declaration says sign, formula, local derivatives and a sentence for the ops that people write down with signs (see
:class:`wengert.core.ops.facets.Form`). Everything else follows from the op table: the pattern of the backward step from
an op's declared facts (the patterns are those of :func:`wengert.explain.flow`), a sentence from the pattern, and the
name is the symbol.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from ...core.ops.facets import Binds, Form
from ...core.ops.op import Joint, Linear, Op, Partial, Route, Vjp, find_op

Pattern = Literal["distribute", "swap", "route", "accumulate", "scale", "custom", "none"]

# The binding strength of formulas, as the page counts it: all that is looser than a sum is bracketed alike.
_BINDS: Mapping[Binds, int] = {"sum": 1, "product": 2, "sign": 3, "power": 4, "atom": 9}


def form_of(op: Op) -> Form:
    """Return the way a learner reads an op: as declared, or by its name."""
    return op.facets.get("form", Form(_word(op.name)))


_SAID: Mapping[Pattern, str] = {
    "distribute": "{} hands what arrives to each input.",
    "swap": "{} hands each input what arrives times the *other* one's values.",
    "route": "{} sends what arrives back to where the values came from.",
    "accumulate": "{} used values several times: what arrives adds up.",
    "scale": "{} scales what arrives by its slope.",
    "custom": "A rule of the program's own says what goes back through {}.",
    "none": "{} has no slope: nothing goes back through it.",
}


def pattern(op: Op, operands: int, numbers: frozenset[int] = frozenset()) -> Pattern:
    """Return what happens to gradients at an op of so many operands, of which `numbers`, by position, are plain.

    Of ops that move elements only the op is asked, not the values: an index may pick one twice.
    """
    if find_op(op.name) is not op:
        return "custom"
    if op.kind == "leaf":
        return "none"
    if isinstance(op.joint, Joint):
        return "scale"
    facts = {i: op.fact(i) for i in range(operands) if op.fact(i).differentiable}
    if not facts and op.body is not None:
        return "scale"  # by what is inside it
    followed = [f for i, f in facts.items() if i not in numbers]
    if not followed:
        return "none" if op.name != "output" else "route"
    if any(isinstance(f, Route) for f in followed) or _picks(op, followed):
        return "route"
    if all(isinstance(f, Linear) and f.selects for f in followed):
        # Coefficients are 0 and 1: several elements become one, or one becomes several. Most ops move them.
        return op.facets.get("pattern", "route")
    if (len(facts) < 2 and not op.variadic) or not all(
        isinstance(f, (Linear, Partial)) and not f.needs_out for f in facts.values()
    ):
        return "scale"
    if not any(f.needs for f in facts.values()):
        return "distribute"
    others = all(i not in f.needs or op.variadic for i, f in facts.items())
    return "swap" if others and operands - len(numbers) > 1 else "scale"


def _picks(op: Op, facts: Sequence[Any]) -> bool:
    """Return whether a general rule hands everything on, to the elements that were picked: a maximum, not a norm."""
    picks = op.facets.get("pattern") == "route"
    return picks and len(facts) == 1 and isinstance(facts[0], Vjp) and facts[0].present is not None


_SUPERSCRIPT = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


@dataclass(frozen=True)
class Shown:
    """An op as shown, with the numbers among its operands written in."""

    symbol: str
    pattern: Pattern
    form: str
    precedence: int
    local: tuple[str, ...]
    say: str


def shown(op: Op, operands: int, literals: Mapping[int, Any] | None = None) -> Shown:
    """Return how an op with so many operands is shown; `literals` are those that are plain numbers, by position."""
    literals = literals or {}
    form = form_of(op)
    text, local, symbol = form.form, form.local.split("|") if form.local else [], form.symbol
    found = pattern(op, operands, frozenset(literals))
    said = form.say or _of_formulas(op) or _SAID[found].format(_word(op.name))
    if op.name == "pow" and 1 in literals:
        text, local, symbol, said = _power(literals[1])
    elif op.name == "multiply" and literals:
        said = "It scales what arrives by a *fixed number*."
    local = [_filled(part, literals) for part in local]
    local += [""] * (operands - len(local))
    return Shown(symbol, found, _filled(text, literals), _BINDS.get(form.binds, 0), tuple(local[:operands]), said)


def _of_formulas(op: Op) -> str:
    """Return a sentence on an op that is declared by a formula."""
    if not op.formulas:
        return ""
    whole = f"a {op.combine} of elements: of one it is" if op.combine else "" if len(op.formulas) > 1 else "short for"
    texts = " and ".join(formula.text for formula in op.formulas)
    return " ".join(f"{_word(op.name)} is {whole} {texts}; its slope is by the chain rule of these.".split())


def _power(exponent: Any) -> tuple[str, list[str], str, str]:
    """Return the form of a power with a number for exponent: {0}², slope 2 · {0}."""
    less = number(exponent - 1)
    raised = _raised("{0}", exponent - 1)
    slope = {"1": "1", "0": "0"}.get(number(exponent)) or (f"{number(exponent)} · {raised}" if less != "0" else "1")
    said = f"A power scales what arrives by its slope, {slope.format('v')}."
    return _raised("{0}", exponent), [slope, ""], _raised("v", exponent), said


def _raised(base: str, exponent: Any) -> str:
    text = number(exponent).replace("−", "-")
    if text == "1":
        return base
    small = text.lstrip("-").isdigit()
    return base + (text.translate(_SUPERSCRIPT) if small else f"^({number(exponent)})")


def number(value: Any) -> str:
    """Return a number as formulas have it: 2, 0.5, −1, 1e−05."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    text = str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else f"{value:.6g}"
    return text.replace("-", "−")


def _filled(template: str, literals: Mapping[int, Any]) -> str:
    """Return a template with the numbers among the operands written in; other holes stay."""
    for index, value in literals.items():
        text = number(value)
        hole = "{" + str(index) + "}"
        if text.startswith("−") and not template.startswith(hole):
            text = f"({text})"
        template = template.replace(hole, text)
    return template


@cache
def _word(name: str) -> str:
    return name.replace("_", " ")


def holes(template: str) -> set[str]:
    """Return the names of the holes in a template."""
    return {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}
