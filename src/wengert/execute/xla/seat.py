"""A seat at a program of XLA's, for calls that take and give its arrays themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple


class DeviceSeat(NamedTuple):
    """A program on a device whose memory the host sees, as a call has to know it.

    `program` takes JAX's arrays, and ndarrays where they are not there, inside of a new `block`; it gives a tuple of
    the outputs, in this `order`, and of whether something is wrong, if it `is_checked`. The outputs in `replaced` stand
    where the inputs that it names stood, once `in_place` says 1, by input. Integers are in the bounds of `known`; in
    `moved`, by input, stands whether it was copied. `run` takes all arrays and gives a tuple of the list of outputs;
    `decide` does where something is wrong. `bring` returns a copy of an array on the device; `lost` takes the arrays of
    a call that raised, and returns whether it has cost any of them; else it may be done by `run`.
    """

    program: Callable[..., Any]
    block: Callable[[], Any]
    where: Any
    order: Sequence[int]
    replaced: Mapping[int, int]
    in_place: Any
    known: Sequence[Any]
    is_checked: bool
    moved: Any
    run: Callable[..., tuple[list[Any]]]
    decide: Callable[..., tuple[list[Any]]]
    bring: Callable[[Any], Any]
    lost: Callable[..., bool]
