"""Layers that look up rows of tables."""

from __future__ import annotations

from typing import Any

from ... import empty
from ...core.errors import RangeError, ShapeError, fail
from ...core.mode import no_grad
from ...core.tensor import Tensor, asarray
from .. import functional as F
from .. import init
from ..checks import size
from ..module import Module


class _Table(Module):
    """The base of layers that hold a table."""

    weight: Any

    def _make(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None,
        weight: Any,
        device: Any,
        dtype: Any,
        learned: bool = True,
    ) -> None:
        self.num_embeddings = size("num_embeddings", num_embeddings)
        self.embedding_dim = size("embedding_dim", embedding_dim, 0)
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                fail(RangeError, f"padding_idx {padding_idx} in a table of {num_embeddings} rows")
            padding_idx %= num_embeddings
        self.padding_idx = padding_idx
        if weight is None:
            self.weight = self._parameter_class(empty((num_embeddings, embedding_dim), dtype=dtype, device=device))
            self.reset_parameters()
            return
        if tuple(weight.shape) != (num_embeddings, embedding_dim):
            fail(ShapeError, f"a table of shape {tuple(weight.shape)}, not {(num_embeddings, embedding_dim)}")
        self.weight = self._parameter_class(weight, learned)

    def reset_parameters(self) -> None:
        """Draw new initial values: normal ones, and zeros for the padding."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                values = self.weight.detach().numpy().copy()
                values[self.padding_idx] = 0
                self.weight.assign_(values)

    def _shown(self) -> list[str]:
        found = [f"{self.num_embeddings}, {self.embedding_dim}"]
        usual = {"padding_idx": None, "max_norm": None, "norm_type": 2, "scale_grad_by_freq": False, "sparse": False}
        found += [f"{name}={getattr(self, name)}" for name, value in usual.items() if getattr(self, name) != value]
        return found


class Embedding(_Table):
    """A table of `num_embeddings` vectors, looked up by ids.

    Parameters
    ----------
    num_embeddings, embedding_dim: the table's shape.
    padding_idx: a row that starts at zeros and gets no gradient.
    max_norm: rows that are named and longer are given this length.
    norm_type: which norm that is.
    scale_grad_by_freq: divide a row's gradient by how often it is named.
    sparse: taken; gradients are dense all the same.
    device: where the table is, as in :func:`wengert.zeros`.
    dtype: of the table; the default float where left out.

    Raises RangeError, ShapeError.

    >>> import wengert as wg
    >>> wg.nn.Embedding(10, 3)(wg.tensor([[1, 2], [4, 5]])).shape
    (2, 2, 3)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Any = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        self._make(num_embeddings, embedding_dim, padding_idx, _weight, device, dtype, not _freeze)
        if _freeze:
            self.weight.requires_grad_(False)

    def forward(self, input: Any) -> Tensor:
        """Map ids of any shape s to s + (embedding_dim,)."""
        options = self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        return F.embedding(input, self.weight, *options)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Any,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """Return the layer of a given table, which stays as it is in training unless `freeze=False`."""
        embeddings = asarray(embeddings)
        if embeddings.ndim != 2:
            fail(ShapeError, f"a table of shape {tuple(embeddings.shape)}", "It has two dimensions: (rows, features).")
        rows, width = embeddings.shape
        options = padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse
        return cls(rows, width, *options, _weight=embeddings, _freeze=freeze)

    def extra_repr(self) -> str:
        """Return the sizes for `repr`, and options that are not the defaults."""
        return ", ".join(self._shown())


class EmbeddingBag(_Table):
    """A table of vectors of which sums, means or maxima over bags of ids are taken.

    Parameters are those of :class:`Embedding`, and the `mode`: "sum", "mean" or "max". With `include_last_offset` the
    last of the offsets is where the last bag ends.

    >>> import wengert as wg
    >>> bag = wg.nn.EmbeddingBag(10, 3, mode="sum")
    >>> bag(wg.tensor([1, 2, 4, 5, 4]), wg.tensor([0, 2])).shape
    (2, 3)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Any = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset
        self._make(num_embeddings, embedding_dim, padding_idx, _weight, device, dtype)

    def forward(self, input: Any, offsets: Any = None, per_sample_weights: Any = None) -> Tensor:
        """Map bags of ids to (bags, embedding_dim); see :func:`wengert.nn.functional.embedding_bag`."""
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Any,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """Return the layer of a given table, which stays as it is in training unless `freeze=False`."""
        embeddings = asarray(embeddings)
        if embeddings.ndim != 2:
            fail(ShapeError, f"a table of shape {tuple(embeddings.shape)}", "It has two dimensions: (rows, features).")
        rows, width = embeddings.shape
        norm = max_norm, norm_type, scale_grad_by_freq
        made = cls(rows, width, *norm, mode, sparse, embeddings, include_last_offset, padding_idx)
        made.weight.requires_grad_(not freeze)
        return made

    def extra_repr(self) -> str:
        """Return the sizes for `repr`, the mode, and options that are not the defaults."""
        sizes, *more = self._shown()
        padding = [m for m in more if m.startswith("padding_idx")]
        norm = [m for m in more if not m.startswith(("padding_idx", "sparse"))]
        return ", ".join([sizes, *norm, f"mode={self.mode!r}", *padding])
