"""The two forms of an op that draws random numbers: key and position as attributes, or as inputs.

Every op that draws has two forms. `random_uniform(; key, counter, shape, dtype)` names both as
attributes: a graph in which it stands gives the same numbers at every run.
`random_uniform_at(key, counter; shape, dtype)` takes them as its last two inputs, a uint64 tensor of
two words and a 0-d uint64 tensor, after the arguments that the other form has: a compiled function that
is fed the state of a generator gives other numbers at every call. For equal keys and positions both give
the same bits; :func:`draw_with` binds whichever fits what it is given.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.errors import DTypeError, fail
from ...core.mode import get_mode
from ...core.ops.declare import op
from ...core.ops.op import TABLE, Call, Missing, Op
from ...core.ops.record import bind_abstract
from ...core.spec import Spec, category, spec_of, uint64
from ...core.tensor import Tensor, of_class, result_class, wrap
from .philox import Key, words64

# A key and the number of a block: numbers, or tensors of a trace.
Position = tuple[Key | Tensor, int | Tensor]

_KEY_SPEC = spec_of((2,), uint64)


def key_words(key: Array) -> Key:
    """Return a key's array as the two numbers that the cipher takes."""
    low, high = key.tolist()
    return low, high


def at(drawing: Op) -> Op:
    """Declare the form of an op whose key and position are its last two inputs."""

    def forward(*args: Any, **attrs: Any) -> Any:
        *rest, key, counter = args
        return drawing.forward(*rest, key=key_words(key), counter=int(counter), **attrs)

    def infer(*specs: Any, **attrs: Any) -> Any:
        *rest, key, counter = specs
        check_position(drawing.name, key, counter)
        return drawing.infer(*rest, key=(0, 0), counter=0, **attrs)

    def samples(rng: Any) -> list[Call]:
        return [_fed(call) for call in drawing.samples(rng)]  # type: ignore[misc]

    attrs = [f"{name}: {kind}" for name, kind in drawing.kinds.items() if name not in ("key", "counter")]
    return op(
        f"{drawing.name}_at({', '.join([*drawing.params, 'key', 'counter'])}; {', '.join(attrs)})",
        forward,
        infer=infer,
        facts={p: copy.copy(f) for p, f in zip(drawing.params, drawing.facts, strict=True) if f.differentiable},
        accepts=drawing.accepts,
        doc=f"{drawing.doc} The key and the position are inputs.",
        source=drawing.source,
        samples=samples,
        reference=forward if drawing.reference is None else _unfed(drawing),
        onnx=drawing.onnx,
        **drawing.facets,
    )


def _fed(call: Call) -> Call:
    attrs = dict(call.attrs)
    position = np.array(attrs.pop("key"), np.uint64), np.array(attrs.pop("counter"), np.uint64)
    return Call((*call.args, *position), attrs, order=call.order)


def _unfed(drawing: Op) -> Any:
    def reference(*args: Any, **attrs: Any) -> Any:
        *rest, key, counter = args
        return drawing.reference(*rest, key=key_words(key), counter=int(counter), **attrs)  # type: ignore[operator, misc]

    return reference


def check_position(name: str, key: Any, counter: Any) -> None:
    """Raise DTypeError for what is not a key and a position."""
    if key is not _KEY_SPEC or not isinstance(counter, Spec) or counter.shape != () or category(counter.dtype) != 1:
        fail(
            DTypeError,
            f"{name}: {key} and {counter} are not a key and a position",
            "A key is u64[2], a position a 0-d integer.",
        )


def takes_position(drawing: Op) -> bool:
    """Return whether an op draws from the key and the position that its last two inputs are."""
    return "counter" in drawing.params


def draw_with(drawing: Op, args: Sequence[Any], position: Position, attrs: Mapping[str, Any]) -> Any:
    """Run a drawing op, in the form that takes such a position."""
    key, counter = position
    if args and get_mode().tracing and not any(isinstance(a, Tensor) and a.is_abstract for a in args):
        # What is drawn in a trace has no value, even with arguments that have: each run and each example may draw anew.
        named = {**attrs, "key": key, "counter": counter}
        if isinstance(key, Tensor) or isinstance(counter, Tensor):
            drawing, args, named = TABLE[f"{drawing.name}_at"], (*args, as_key(key), as_counter(counter)), dict(attrs)
        return of_class(result_class(args), bind_abstract(drawing, args, named))
    if isinstance(key, Tensor) or isinstance(counter, Tensor):
        return TABLE[f"{drawing.name}_at"].front(*args, as_key(key), as_counter(counter), **attrs)
    return drawing.front(*args, key=key, counter=counter, **attrs)


def draw_of(drawing: Op, args: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Op, list[Any], Any, dict[str, Any]]:
    """Return a call of either form as `draw_with` takes it: the op, its arguments, key and position, its attributes."""
    named = dict(attrs)
    if "counter" in drawing.attr_names:
        return drawing, list(args), (named.pop("key"), named.pop("counter")), named
    *rest, key, counter = args
    return TABLE[drawing.name.removesuffix("_at")], rest, (key, counter), named


def as_key(key: Key | Tensor) -> Tensor:
    """Return a key as a tensor."""
    return key if isinstance(key, Tensor) else wrap(np.array(key, np.uint64))


def as_counter(counter: int | Tensor) -> Tensor:
    """Return a position as a tensor."""
    return counter if isinstance(counter, Tensor) else wrap(np.array(counter, np.uint64))


# -- keys made of keys


def _derived(key: Array, position: Array, *, domain: int) -> Array:
    # Two's complement, as `fold_in` has it for a negative number.
    return words64(key_words(key), int(position) & ((1 << 128) - 1), 2, domain=domain)


def _infer_derived(key: Any, position: Any, domain: int) -> Spec:
    check_position("random_key", key, position)
    return _KEY_SPEC


random_key = op(
    "random_key(key, position; domain)",
    _derived,
    infer=_infer_derived,
    doc="A key made of a key and an integer: the first two words of the cipher of (position, 0, 0, domain).",
    source="Salmon, Moraes, Dror & Shaw 2011, Parallel random numbers: as easy as 1, 2, 3",
    samples=lambda rng: [
        Call((np.array([3, 5], np.uint64), np.array(i)), {"domain": domain}) for i in (0, 7, -1) for domain in (2, 4)
    ],
    reference=lambda key, position, domain: np.random.Philox(
        key=key, counter=((int(position) & ((1 << 128) - 1)) | domain << 192) - 1
    ).random_raw(2),
    onnx=Missing("ONNX has no keys of random numbers"),
    cost=30,
    batching="alone",
)


def derived_key(key: Key | Tensor, position: int | Tensor, domain: int) -> Key | Tensor:
    """Return the key that belongs to a key and an integer."""
    if isinstance(key, Tensor) or isinstance(position, Tensor):
        if not isinstance(position, Tensor):
            position = wrap(np.array(position, np.int64 if position < 0 else np.uint64))
        made: Tensor = random_key.front(as_key(key), position, domain=domain)
        return made
    low, high = words64(key, position, 2, domain=domain).tolist()
    return low, high
