"""Where the program of a call runs: on the device of the tensors that it is given, and finds outside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...core.devices import CPU
from ...core.elsewhere import Elsewhere
from ...core.errors import GraphError, fail
from ...core.standins import WeakTensor
from ...core.state.cells import ArrayCell, Cell, TensorCell
from ...core.tensor import Tensor, place_of
from .capture.captured import Captures
from .signature import Call
from .tracing import Itself, Taken, Traced, class_of, output_of


def place_of_program(name: str, traced: Traced, call: Call, captures: Captures) -> tuple[str, str]:
    """Return the device that a program runs on, and the name of a tensor there: "cpu" where all are the processor's.

    What a module's optimiser keeps beside its parameters follows them, and numbers come from the host. Raises
    GraphError for tensors on several devices.
    """
    found: dict[str, str] = {}
    for what, x in _tensors(traced, call, captures):
        place = place_of(x)
        if place != CPU or (x.shape and x._data is not None and not isinstance(x._data, Elsewhere)):
            found.setdefault(place, what)
    places = [p for p in found if p != CPU]
    if len(found) > 1 and places:
        first, second = (places[0], places[1]) if len(places) > 1 else (places[0], CPU)
        fail(
            GraphError,
            f"{name} computes with tensors on two devices, {found[first]} on {first} and {found[second]} on {second}",
            f"A program runs on one: bring them together, x.to({first!r}), module.to({first!r}).",
        )
    return (places[0], found[places[0]]) if places else (CPU, "")


def _tensors(traced: Traced, call: Call, captures: Captures) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors that a program reads, and those on other devices that it writes, each with its name."""
    inputs = zip(traced.graph.inputs, traced.sources, strict=True)
    for node, (kind, i) in sorted(inputs, key=lambda source: source[1].kind):  # arguments first
        owner: Any = None
        if kind == "argument":
            owner = call.leaves[call.positions[i]]
        elif kind == "cell":
            owner = getattr(captures.cells[i], "tensor", None)
        if isinstance(owner, Tensor):
            yield str(node.attrs.get("name") or traced.graph.names[node]), owner
    for w in traced.cell_writes:
        cell = captures.cells[w.number]
        if isinstance(cell, TensorCell) and place_of(cell.tensor) != CPU:
            yield captures.names[cell.key], cell.tensor
    for w in traced.argument_writes:
        leaf = call.leaves[call.positions[w.number]]
        if isinstance(leaf, Tensor) and place_of(leaf) != CPU:
            yield f"argument {w.number}", leaf


def kept_here(traced: Traced, call: Call, captures: Captures) -> frozenset[int]:
    """Return the outputs of a program on a device that the host keeps: decisions, numbers, tensors that are there."""
    found = {g.output for g in traced.guards}
    for w in traced.cell_writes:
        if _is_here(captures.cells[w.number]):
            found.add(w.output)
    for w in traced.argument_writes:
        leaf = call.leaves[call.positions[w.number]]
        if not isinstance(leaf, Tensor) or place_of(leaf) == CPU:
            found.add(w.output)
    for kind, grads in (("cell", traced.cell_grads), ("argument", traced.argument_grads)):
        for i, k, _ in grads:
            owner = captures.cells[i].tensor if kind == "cell" else call.leaves[call.positions[i]]  # type: ignore[attr-defined]
            if k is not None and place_of(owner) == CPU:
                found.add(k)
    for r in (*traced.results, *(r for w in traced.place_writes for r in w.leaves)):
        k = output_of(r)
        while type(r) in (Itself, Taken):
            r = r.value
        if k is not None and class_of(r) is WeakTensor:
            found.add(k)
    return frozenset(found)


def _is_here(cell: Cell) -> bool:
    """Return whether a cell's value stays the host's: an optimiser's buffers go where its parameters are."""
    if isinstance(cell, TensorCell):
        return place_of(cell.tensor) == CPU
    return not isinstance(cell, ArrayCell) or not cell.spec.shape
