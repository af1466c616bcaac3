"""Which results of PyTorch's functions share memory with an argument, and how they lie in memory.

A call is a text, which PyTorch and `wengert.torch` both evaluate: see `tests/torch/record_sharing.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

# Ways in which arguments lie in memory: in C order, with the axes the other way round, with gaps, repeated.
LAYOUTS = ("plain", "turned", "parts", "expanded")

# Calls of a function or method called `{f}`, and what they are given.
METHODS = (
    "x.{f}()", "p.{f}()", "g.{f}()", "row.{f}()", "s.{f}()", "one.{f}()", "z.{f}()", "i.{f}()", "b.{f}()", "h.{f}()",
    "x.{f}(0)", "x.{f}(1)", "x.{f}(-1)", "p.{f}(1)", "z.{f}(1)", "i.{f}(1)", "one.{f}(0)", "x.{f}(0, 1)", "x.{f}(1, 0)",
    "one.{f}(0, 1)", "p.{f}(0, 0)", "p.{f}(0, 0, 1)", "p.{f}(1, 0, 4)", "p.{f}(0, 1, 2)", "p.{f}(q)", "p.{f}(p)",
    "p.{f}(row)", "g.{f}(g)", "p.{f}(2.0)", "i.{f}(2)", "i.{f}(i)", "b.{f}(b)", "z.{f}(z)", "p.{f}(b)", "p.{f}(b, 2.0)",
    "p.{f}(b, q)", "p.{f}(0, k, 1)", "p.{f}(0, k)", "p.{f}(k, 0)", "x.{f}((2, 3, 4))", "x.{f}((1, 2, 0))",
    "x.{f}(0, (1, 2))", "x.{f}((0, 1))", "x.{f}(2, 1, 1)", "x.{f}(torch.float64)", "x.{f}(torch.float32)",
    "p.{f}(0.1, 0.9)", "p.{f}(q, 0.5)", "p.{f}(q, q)", "p.{f}(1, j)", "p.{f}(1, j, q)", "row.{f}(row)",
)  # fmt: skip
FUNCTIONS = (
    "{m}.{f}(x)", "{m}.{f}(p)", "{m}.{f}(g)", "{m}.{f}(row)", "{m}.{f}(one)", "{m}.{f}(z)", "{m}.{f}(i)", "{m}.{f}(b)",
    "{m}.{f}(h)", "{m}.{f}(x, 1)", "{m}.{f}(g, 1)", "{m}.{f}(p, 0, 1)", "{m}.{f}(one, 0)", "{m}.{f}(p, q)",
    "{m}.{f}(p, 2.0)", "{m}.{f}(i, 2)", "{m}.{f}(i, i)", "{m}.{f}(g, g)", "{m}.{f}([p])", "{m}.{f}([p, q])",
    "{m}.{f}((p, q), 1)", "{m}.{f}(p, row)", "{m}.{f}(b, p, q)", "{m}.{f}(b, p, 0.0)", "{m}.{f}(p, q, p)",
    "{m}.{f}(p, 1, j)", "{m}.{f}(p, q, 0.5)", "{m}.{f}(p, row, row)", "{m}.{f}(p, (1, 1))", "{m}.{f}(p, (0, 0))",
    "{m}.{f}(p, (2, 3, 2))", "{m}.{f}(p, (0, 1))", "{m}.{f}(h, 1)", "{m}.{f}(h, 2)", "{m}.{f}(h, (1, 1))",
    "{m}.{f}(h, (2, 2))", "{m}.{f}(h, (0, 0, 0, 0))", "{m}.{f}(h, (0, 0), 'circular')",
    "{m}.{f}(x, (0, 0), mode='circular')", "{m}.{f}(x, (0, 0), mode='reflect')", "{m}.{f}(x, (0, 0), mode='replicate')",
    "{m}.{f}(x, p.T)", "{m}.{f}(h, kernel)", "{m}.{f}(h, 2, 2)", "{m}.{f}(p, 0.0)", "{m}.{f}(p, 0.5, False)",
)  # fmt: skip
EINSUMS = ("abc->abc", "abc->acb", "abc->cba", "abc", "abc->ab", "aab->ab", "...->...", "abc->bca")
TEXTS = (
    *(f"torch.einsum('{e}', x)" for e in EINSUMS),
    "torch.einsum('aa->a', g)", "torch.einsum('aa', g)", "torch.einsum('ab->ba', p)",
    "torch.einsum('ab,ab->ab', p, q)", "torch.einsum('ij,jk->ik', p, p.T)", "torch.einsum('...->...', x)",
    "torch.einsum('a...->...a', x)", "+x", "-x", "x.real", "z.real", "z.imag", "z.T", "z.H", "p.T", "p.mT", "p.H",
    "x.data", "x[0]", "x[...]", "x[:]", "x[None]", "x[0, 1:]", "x[k]", "x[[0]]", "x[b3]", "x[..., None]", "x[:, k]",
    "p[k, 1]", "p[1]", "p[p > 0]", "abs(x)", "~b", "x * 1", "1 - x", "x + row", "row + x", "p.T + q.T",
    "p + q.T.contiguous().T", "p.T + q.contiguous().T", "x @ p.T", "p.matmul(p.T)", "torch.matrix_power(g, 1)",
    "torch.matrix_power(g, 0)", "torch.matrix_power(g, 2)", "torch.linalg.matrix_power(g, 1)",
    "torch.pixel_shuffle(h, 1)", "torch.pixel_unshuffle(h, 1)", "torch.channel_shuffle(h, 1)",
    "torch.channel_shuffle(h, 2)", "x.to(torch.float64)", "x.to(torch.float32)", "x.to(x)", "x.to(p, copy=True)",
    "x.to('cpu')", "x.double()", "x.float()", "z.cfloat()", "z.cdouble()", "x.type(x.dtype)", "x.contiguous()",
    "x.contiguous().contiguous()", "x.clone()", "x.detach()", "x.view_as(x)", "x.expand_as(x)", "one.squeeze()",
    "one.expand(2, 4, 2, 3)", "row.expand(3, 4)", "x.repeat(1, 1, 1)", "x.tile(1)", "x.chunk(1)", "x.split(2)",
    "x.unbind(1)", "x.narrow(1, 0, 2)", "x.unfold(1, 2, 1)", "x.flatten()", "x.flatten(1)", "x.ravel()",
    "x.reshape(-1)", "x.reshape(6, 4)", "x.reshape(2, 3, 4)", "x.unflatten(1, (3, 1))", "x.view(torch.int64)",
    "x.sum_to_size(2, 3, 4)", "x.sum_to_size(3, 4)", "x.broadcast_to(2, 3, 4)", "torch.broadcast_tensors(x, row)",
    "torch.meshgrid(row, row)", "torch.meshgrid(row, row, indexing='xy')", "torch.cat([p])", "torch.cat([p, q])",
    "torch.cat([x.transpose(1, 2), x.transpose(1, 2)])", "torch.stack([p])", "torch.block_diag(p)",
    "torch.atleast_3d(p)", "torch.tensor_split(x, 1)", "torch.combinations(row, 1)", "torch.cartesian_prod(row)",
    "x.index_select(0, k)", "torch.nan_to_num(x)", "torch.nan_to_num(i)", "torch.conj(x)", "torch.conj(z)",
    "torch.real(x)", "torch.real(z)", "torch.positive(x)", "torch.ceil(i)", "torch.round(i)", "torch.trunc(i)",
    "torch.floor(i)", "torch.abs(w)", "torch.zeros_like(x)", "torch.ones_like(x)", "torch.empty_like(x)",
    "torch.rand_like(x)", "torch.full_like(x, 2.0)", "torch.zeros_like(x, dtype=torch.int64)", "x.new_zeros(2, 3)",
    "x.new_tensor([1.0])", "torch.as_tensor(x)", "torch.asarray(x)", "torch.tensor(x)",
    "torch.zeros_like(x, memory_format=torch.contiguous_format)", "x.clone(memory_format=torch.contiguous_format)",
    "h.contiguous(memory_format=torch.channels_last)", "h.clone(memory_format=torch.channels_last)",
    "h.to(memory_format=torch.channels_last)", "torch.empty_like(h, memory_format=torch.channels_last)",
    "h.float(memory_format=torch.channels_last)", "h.contiguous(memory_format=torch.channels_last) * 2", "x.sort(1)",
    "x.sort(0, descending=True)", "x.topk(1)", "x.argsort()", "x.cumsum(0)", "x.max(1)", "x.sum(1)",
    "x.sum(0, keepdim=True)", "x.mean((0, 2))", "x.softmax(1)", "x.flip(0)", "x.roll(1, 0)", "p.rot90(0)",
    "p.rot90(1)", "p.rot90(2)", "p.tril()", "p.fill_diagonal_(1.0)", "x.masked_fill(x > 0, 1.0)",
    "torch.where(x > 0, x, 0.0)", "torch.where(x > 0, x, x)", "x.gather(1, j3)", "x.scatter(1, j3, 1.0)",
    "x.index_fill(1, k, 0.0)", "x.index_add(0, k, x)", "x.index_copy(0, k, x)", "torch.nn.functional.dropout(x, 0.0)",
    "torch.nn.functional.dropout(x, 0.5, False)", "torch.nn.Identity()(x)", "torch.nn.Dropout(0.5).eval()(x)",
    "torch.nn.Flatten()(x)", "torch.nn.ReLU()(x)", "torch.nn.functional.linear(x, p)",
    "torch.nn.functional.one_hot(k, 5)", "torch.nn.functional.normalize(x)", "torch.nn.functional.unfold(h, 1)",
    "torch.nn.functional.interpolate(h, scale_factor=1)", "torch.nn.functional.interpolate(h, size=(4, 3))",
    "torch.nn.functional.max_pool2d(h, 1)", "torch.nn.functional.avg_pool2d(h, 1)",
    "torch.nn.functional.adaptive_avg_pool2d(h, (4, 3))", "torch.nn.functional.pad(x, ())",
    "torch.nn.functional.pad(x, (0, 0))", "torch.nn.functional.pad(x, (1, 0))",
    "torch.nn.functional.layer_norm(x, (4,))", "torch.nn.functional.batch_norm(h, kr, kr.abs(), training=False)",
    "torch.nn.functional.embedding(k, p)", "torch.nn.functional.softmax(x, 1)", "torch.nn.functional.glu(x)",
    "torch.nn.functional.conv2d(h, kernel)", "torch.linalg.inv(g)", "torch.linalg.qr(g)", "torch.linalg.svd(p)",
    "torch.linalg.cholesky(g @ g.T + 9 * torch.eye(3))", "torch.linalg.solve(g, g)",
    "torch.linalg.multi_dot([p, p.T])", "torch.linalg.diagonal(g)", "torch.view_as_real(z)",
    "torch.view_as_complex(torch.view_as_real(z))", "torch.complex(p, q)", "torch.fft.fft(z)",
    "torch.fft.fftshift(x)",
)  # fmt: skip


def _values() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    return {
        "x": rng.uniform(0.1, 0.9, size=(2, 3, 4)),
        "p": rng.uniform(0.1, 0.9, size=(3, 4)),
        "q": rng.uniform(0.1, 0.9, size=(3, 4)),
        "g": rng.uniform(0.1, 0.9, size=(3, 3)) + np.eye(3),
        "row": rng.uniform(0.1, 0.9, size=4),
        "kr": rng.uniform(0.1, 0.9, size=4),
        "s": np.array(0.5),
        "one": rng.uniform(0.1, 0.9, size=(1, 4, 1, 3)),
        "h": rng.uniform(0.1, 0.9, size=(2, 4, 4, 3)),
        "kernel": rng.uniform(0.1, 0.9, size=(2, 4, 2, 2)),
        "z": rng.uniform(0.1, 0.9, size=(3, 4)) + 1j,
        "i": rng.integers(1, 4, size=(3, 4)),
        "j": rng.integers(0, 3, size=(3, 4)),
        "j3": rng.integers(0, 2, size=(2, 3, 4)),
        "w": rng.integers(0, 9, size=(3, 4)).astype(np.uint8),
        "k": np.array([0, 1]),
        "b": rng.random((3, 4)) < 0.5,
        "b3": rng.random((2, 3, 4)) < 0.5,
    }


VALUES = _values()


def inputs(lib: Any, layout: str, text: str) -> dict[str, Any]:
    """The tensors that a text names, which lie in memory in one of the ways."""
    names = set(re.findall(r"(?<![.\w'])[a-z]\w*", text)) & set(VALUES)
    return {name: laid(lib.tensor(VALUES[name]), layout) for name in sorted(names)}


def laid(x: Any, layout: str) -> Any:
    """A tensor that lies in memory in one of the ways."""
    axes = tuple(reversed(range(x.ndim)))
    if layout == "turned" and x.ndim > 1:
        return x.permute(axes).contiguous().permute(axes)
    if layout == "parts" and x.ndim:
        return x.repeat_interleave(2, -1)[..., ::2]
    if layout == "expanded" and x.ndim > 1:
        return x[:1].expand(x.shape)
    return x


def leaves(out: Any) -> Iterator[Any]:
    """The tensors in a result."""
    if isinstance(out, (tuple, list)):
        for part in out:
            yield from leaves(part)
    elif hasattr(out, "untyped_storage"):
        yield out


def memory_of(x: Any) -> int:
    """A number for the memory that a tensor lies in; 0 where it has none."""
    return int(x.untyped_storage().data_ptr()) if x.numel() else 0


def seen(lib: Any, text: str, layout: str) -> list[list[Any]]:
    """Of each tensor in a call's result: whether it is an argument, or shares memory with one; and its strides.

    Strides along axes of size 1 mean nothing, nor do those of nothing.
    """
    given = inputs(lib, layout, text)
    found = list(leaves(eval(text, {"torch": lib, **given})))
    tensors = list(given.values())
    places = {memory_of(t) for t in tensors} - {0}
    told: list[list[Any]] = []
    for out in found:
        kind = "same" if any(out is t for t in tensors) else "view" if memory_of(out) in places else "own"
        strides = [s if n > 1 else 0 for n, s in zip(out.shape, out.stride())] if out.numel() else []
        told.append([kind, strides])
    return told
