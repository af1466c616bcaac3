"""Sequences of different lengths in one tensor: padded to one length, or packed step by step.

Lengths decide shapes, so they are known numbers: in a traced function they come from outside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import wengert as wg

from ...core.errors import ShapeError, fail
from ...core.state.refusals import refuse
from ...core.tensor import Tensor, asarray, like, wrap

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


class _Packed(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Packed):
    """Sequences of different lengths, one step of all of them after the other: what recurrent layers take.

    Parameters
    ----------
    data: the elements, those of the first step first.
    batch_sizes: how many sequences have a first step, a second, and so on.
    sorted_indices: which sequence is the longest, which the next; None where they came in that order.
    unsorted_indices: the way back.
    """

    # The batch sizes as numbers, where they were: a compiled function knows the tensor's values only when it runs.
    sizes: list[int] | None

    def __new__(
        cls, data: Any, batch_sizes: Any = None, sorted_indices: Any = None, unsorted_indices: Any = None
    ) -> PackedSequence:
        if batch_sizes is None:
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        made = super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)
        made.sizes = None
        return made

    def steps(self) -> list[int]:
        """Return how many sequences have a first step, a second, and so on. Raises TraceError for those of a trace."""
        return _known(self.batch_sizes, "a packed sequence") if self.sizes is None else self.sizes

    @property
    def is_cuda(self) -> bool:
        """Return False: tensors live on the processor."""
        return False

    def is_pinned(self) -> bool:
        """Return False: there is no other device to copy to."""
        return False

    def pin_memory(self) -> PackedSequence:
        """Return the sequences themselves."""
        return self

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Return the sequences with their elements in another dtype; see :meth:`wengert.Tensor.to`."""
        data = self.data.to(*args, **kwargs)
        return self if data is self.data else self.holding(data)

    def holding(self, data: Any) -> PackedSequence:
        """Return other elements, packed as these are."""
        made = type(self)(data, *self[1:])
        made.sizes = self.sizes
        return made

    def cpu(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Return the sequences themselves: they are on the processor."""
        return self.to("cpu", *args, **kwargs)

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Raise DTypeError: tensors live on the processor."""
        return self.to("cuda")


def _casts(name: str, dtype: str) -> None:
    def cast(self: PackedSequence) -> PackedSequence:
        return self.to(np.dtype(dtype))

    cast.__name__ = cast.__qualname__ = name
    cast.__doc__ = f"Return the sequences with elements of {dtype}."
    setattr(PackedSequence, name, cast)


for _name, _dtype in {
    "double": "float64",
    "float": "float32",
    "half": "float16",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "char": "int8",
    "byte": "uint8",
}.items():
    _casts(_name, _dtype)


def _known(lengths: Any, what: str) -> list[int]:
    """Return lengths as numbers. Raises TraceError for those of a trace."""
    if isinstance(lengths, Tensor):
        if lengths.is_abstract:
            refuse(f"{what}: lengths {lengths.spec} of a trace", "Shapes depend on them: close over them.", lengths)
        lengths = lengths.detach().numpy()
    return [int(n) for n in lengths]


def invert_permutation(permutation: Any) -> Any:
    """Return the permutation that undoes another; None for None."""
    return None if permutation is None else wg.argsort(permutation)


def pack_padded_sequence(
    input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Return padded sequences packed.

    Parameters
    ----------
    input: (T, N, ...), with `batch_first` (N, T, ...).
    lengths: how long each is, at least 1.
    batch_first: whether the sequences stand along the first axis.
    enforce_sorted: refuse sequences that do not come in the order of their lengths, the longest first.

    Raises ShapeError, GraphError.

    >>> import wengert as wg
    >>> x = wg.tensor([[1, 2, 3], [4, 5, 0]])
    >>> packed = wg.nn.utils.rnn.pack_padded_sequence(x, [3, 2], batch_first=True)
    >>> packed.data, packed.batch_sizes
    (tensor([1, 4, 2, 5, 3]), tensor([2, 2, 1]))
    """
    x, sizes = asarray(input), _known(lengths, "pack_padded_sequence")
    if x.ndim < 2 or not sizes or len(sizes) != x.shape[0 if batch_first else 1]:
        fail(ShapeError, f"pack_padded_sequence: {len(sizes)} lengths for a tensor of shape {tuple(x.shape)}")
    steps = x.shape[1 if batch_first else 0]
    if min(sizes) < 1 or max(sizes) > steps:
        fail(ShapeError, f"pack_padded_sequence: lengths {sizes} of sequences of {steps} steps", "At least 1 each.")
    order = np.argsort(-np.asarray(sizes), kind="stable")
    if enforce_sorted:
        if any(a < b for a, b in zip(sizes, sizes[1:])):
            fail(
                ShapeError,
                f"pack_padded_sequence: lengths {sizes} are not in decreasing order",
                "Sort the sequences, or give enforce_sorted=False.",
            )
        order = np.arange(len(sizes))
    sizes = [sizes[i] for i in order]
    batch_sizes = [sum(n > t for n in sizes) for t in range(sizes[0])]
    step, sequence = (1, steps) if batch_first else (len(sizes), 1)
    places = [order[:m] * sequence + t * step for t, m in enumerate(batch_sizes)]
    data = wg.take(x.reshape((x.shape[0] * x.shape[1], *x.shape[2:])), np.concatenate(places), 0)
    indices = None if enforce_sorted else like(x, wrap(order))
    made = PackedSequence(data, like(x, wrap(np.asarray(batch_sizes))), indices)
    made.sizes = batch_sizes
    return made


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """Return packed sequences padded to the length of the longest, or to `total_length`; and their lengths.

    Raises ShapeError for a `total_length` below the longest.
    """
    sizes = np.asarray(sequence.steps())
    steps, n = len(sizes), int(sizes[0])
    if total_length is not None and total_length < steps:
        fail(ShapeError, f"pad_packed_sequence: total_length={total_length} for sequences of {steps} steps")
    length = steps if total_length is None else total_length
    sizes = np.concatenate([sizes, np.zeros(length - steps, np.int64)])
    held = np.arange(n) < sizes[:, None]
    places = np.where(held, (np.cumsum(sizes) - sizes)[:, None] + np.arange(n), 0)
    order = sequence.unsorted_indices
    found = np.arange(n) if order is None else np.asarray(_known(order, "pad_packed_sequence"))
    held, places = held[:, found], places[:, found]
    if batch_first:
        held, places = held.T, places.T
    data: Any = sequence.data
    padded: Any = wg.take(data, places, 0)
    if not held.all():
        beside = asarray(held.reshape(held.shape + (1,) * (data.ndim - 1)))
        padded = wg.where(beside, padded, asarray(padding_value, dtype=data.dtype))
    lengths = held.sum(1 if batch_first else 0)
    return padded, like(data, wrap(lengths.astype(np.int64)))


def pad_sequence(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Return sequences (T, ...) of different lengths stacked, padded to the length of the longest.

    Returns (T, N, ...), with `batch_first` (N, T, ...). Raises ShapeError.

    >>> import wengert as wg
    >>> wg.nn.utils.rnn.pad_sequence([wg.tensor([1, 2]), wg.tensor([3])], batch_first=True)
    tensor([[1, 2],
            [3, 0]])
    """
    given = [asarray(s) for s in sequences]
    if not given or padding_side not in ("right", "left"):
        fail(ShapeError, f"pad_sequence of {len(given)} sequences on the side {padding_side!r}")
    longest = max(s.shape[0] for s in given)
    padded = []
    for s in given:
        missing = longest - s.shape[0]
        if missing:
            rows = wg.full((missing, *s.shape[1:]), padding_value, dtype=s.dtype)
            s = wg.concat([s, rows] if padding_side == "right" else [rows, s])
        padded.append(s)
    return wg.stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Any, lengths: Any, batch_first: bool = False) -> list[Tensor]:
    """Return padded sequences (T, N, ...), with `batch_first` (N, T, ...), as a list without their padding."""
    x = asarray(padded_sequences)
    rows: Sequence[Any] = wg.unstack(x, 0 if batch_first else 1)
    return [row[:n] for row, n in zip(rows, _known(lengths, "unpad_sequence"), strict=True)]


def pack_sequence(sequences: Sequence[Any], enforce_sorted: bool = True) -> PackedSequence:
    """Return sequences (T, ...) of different lengths packed; see :func:`pack_padded_sequence`."""
    lengths = [len(s) for s in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Return packed sequences as a list."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
