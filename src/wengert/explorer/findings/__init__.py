"""Findings: rules about a recorded run that tell its author what deserves attention.

Each rule is a function from :class:`Facts` to findings. Errors make training wrong, warnings make it slow or weak,
notes are worth a look; `wengert explore --check` fails on the first two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..recording.recording import Recording
from .cuts import missing
from .depth import depth, exploding, vanishing_chain
from .facts import Facts
from .finding import Finding, Severity, Spread
from .gradients import great_state, great_steps, left_over, still, unused
from .programs import dead_units, spread_difference, squashed_twice, unread, unstable
from .values import born_backward, born_forward
from .weights import stored_copies, stored_dead, stored_nonfinite

__all__ = ["RULES", "Facts", "Finding", "Severity", "Spread", "findings"]

RULES: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    born_forward,
    born_backward,
    missing,
    left_over,
    spread_difference,
    squashed_twice,
    unstable,
    dead_units,
    depth,
    vanishing_chain,
    exploding,
    great_steps,
    unused,
    still,
    unread,
    great_state,
    stored_nonfinite,
    stored_dead,
    stored_copies,
)
_ORDER = {"error": 0, "warning": 1, "note": 2}


def findings(recording: Recording) -> list[Finding]:
    """Return all that the rules find, the worst first, else in the order of the rules."""
    facts = Facts(recording)
    found = [finding for rule in RULES for finding in rule(facts)]
    return sorted(found, key=lambda finding: _ORDER[finding.severity])
