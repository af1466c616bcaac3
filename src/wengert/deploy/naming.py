"""Names: what a function finds outside by the names of modules and optimisers, and names as C takes them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..core.state.cells import Cell, TensorCell
from ..execute.jit.capture.captured import Captures
from ..ops.random.generator import default_generator
from ..transforms.tracing.trace import free_variables

# Words of C and C++ that may name nothing else.
_WORDS = """
auto break case char const continue default do double else enum extern float for goto if inline int long register
restrict return short signed sizeof static struct switch typedef union unsigned void volatile while alignas alignof bool
nullptr true false and or not xor class delete new private public template this throw try using namespace operator
export
"""
_C_WORDS = frozenset(_WORDS.split())


def identifier(name: str, taken: Iterable[str] = ()) -> str:
    """Return a name as an identifier of C, another than those that are `taken`, in capitals too.

    >>> identifier("layers.0.bias"), identifier("3"), identifier("float"), identifier("x", ["x"])
    ('layers_0_bias', 'x3', 'float_', 'x_2')
    """
    made = re.sub(r"\W|[^\x00-\x7f]", "_", name) or "x"
    made = f"x{made}" if made[0].isdigit() else f"{made}_" if made in _C_WORDS else made
    return _free(made, {name.lower() for name in taken}, "_")


def _free(name: str, taken: set[str], mark: str) -> str:
    found, number = name, 1
    while found.lower() in taken:
        number += 1
        found = f"{name}{mark}{number}"
    return found


def names_of(cells: Sequence[Cell], captures: Captures, fn: Callable[..., Any]) -> list[str]:
    """Return a name for each cell, no two alike: that of a module's parameter or of an optimiser's buffer."""
    owners = _owners(fn)
    tensors: dict[int, str] = {}
    for name, owner in owners:
        for kind in ("named_parameters", "named_buffers"):
            for path, tensor in getattr(owner, kind, lambda: ())():
                tensors.setdefault(id(tensor), f"{name}.{path}" if name else path)
    holders: dict[int, str] = {}
    for name, owner in owners:
        for number, group in enumerate(getattr(owner, "param_groups", None) or ()):
            holders[id(group)] = name if number == 0 else f"{name}.group_{number}"
            for p in group["params"]:
                state = owner.state.get(p)
                if state is not None:
                    holders[id(state)] = f"{name}.{tensors.get(id(p), 'parameter')}"
    found: list[str] = []
    for cell in cells:
        found.append(_free(_name(cell, captures, tensors, holders), {name.lower() for name in found}, "."))
    return found


def _name(cell: Cell, captures: Captures, tensors: dict[int, str], holders: dict[int, str]) -> str:
    known = captures.names[cell.key]
    if isinstance(cell, TensorCell):
        return tensors.get(id(cell.tensor), known)
    generator = getattr(cell, "generator", None)
    if generator is not None:
        return "generator" if generator is default_generator else known
    held = cell.items_held
    if not held:
        return known
    items, item = held[0]
    number = getattr(cell, "index", None)
    item = item if number is None else f"{item}.{number}"
    # A count that several parameters share is the optimiser's.
    holder = known if cell.spec.shape and cell.numbers else holders.get(id(items), known)
    return holder if holder.endswith(item) else f"{holder}.{item}"


def _owners(fn: Callable[..., Any]) -> list[tuple[str, Any]]:
    """Return the modules and optimisers that a function names, with their names; "" for the function itself."""
    inner: Any = inspect.unwrap(fn)
    found = [("", fn), ("", inner), ("", getattr(inner, "__self__", None))]
    if callable(inner):
        found += list(free_variables(inner))
    return [(n, x) for n, x in found if hasattr(type(x), "named_parameters") or hasattr(x, "param_groups")]
