"""Origins of operations: the line that the user wrote, and the derivative of which an operation is a part."""

from __future__ import annotations

from types import CodeType

from ...core.errors import is_internal
from ...core.mode import RULE, Scope
from ...core.ops.op import Op, find_op
from ...core.source import Source, resolve


def _is_control(name: str) -> bool:
    """Return whether an op is a loop or a branch, whose derivative runs and differentiates what is inside it."""
    op = find_op(name)
    return op is not None and op.kind == "control"


def place(code: CodeType | Source | None, offset: int) -> Source | None:
    """Return a place in the user's program; None for one inside Wengert."""
    if code is None or isinstance(code, Source):
        return code
    return None if is_internal(code.co_filename) else resolve(code, offset)


def origin(op: Op, code: CodeType | Source | None, offset: int, scope: Scope | None) -> tuple[str, Source | None]:
    """Return the op that the user wrote, and its place: of a part of a derivative, those of what is differentiated."""
    name, found, inner = op.name, place(code, offset), False
    while scope is not None:
        if scope.kind == "gradient" and not (inner and _is_control(scope.name)):
            name, found = scope.name or name, place(scope.code, scope.offset) or found
            inner = inner or not _is_control(scope.name)
        elif found is None:
            found = place(scope.code, scope.offset)
        scope = scope.parent
    return name, found


def gradient_depth(scope: Scope | None) -> int:
    """Return the order of the derivative in which something ran; a gradient of what is in a loop has order 1."""
    depth, control = 0, False
    while scope is not None:
        if scope.kind == "gradient":
            control = control or _is_control(scope.name)
            if not _is_control(scope.name):
                depth = depth + 1 if scope.name != RULE else 1
        scope = scope.parent
    return max(depth, int(control))
