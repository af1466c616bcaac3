"""Calls of one expression each, on the same inputs, by family."""

from __future__ import annotations

from typing import Any


def inputs(torch: Any) -> dict[str, Any]:
    """Return the tensors that the calls name, in either library."""
    x = torch.tensor([[0.5, -1.25, 2.0, 3.5], [1.0, 0.25, -0.5, 2.0], [4.0, 1.5, 2.0, -3.0]], dtype=torch.float64)
    return {
        "x": x.requires_grad_(),
        "y": torch.arange(24, dtype=torch.float64).reshape(2, 3, 4) / 7,
        "n": torch.arange(12).reshape(3, 4),
        "b": torch.tensor([[True, False, True, False], [False, True, True, False], [True, True, False, False]]),
        "c": torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex128),
        "s": torch.tensor(2.5, dtype=torch.float64),
        "e": torch.zeros(0, 3, dtype=torch.float64),
        "i": torch.tensor([[0, 2, 1, 2], [1, 1, 0, 0]]),
        "j": torch.tensor([2, 0, 2]),
        "nan": torch.tensor([1.0, float("nan"), -2.0, float("inf")], dtype=torch.float64),
    }


def derivatives(torch: Any, out: Any, x: Any) -> Any:
    """Return the first derivative of a sum of the results' squares, and that of the squares of its elements."""
    parts = [o for o in (out if isinstance(out, (tuple, list)) else (out,)) if getattr(o, "requires_grad", False)]
    if not parts:
        return None
    total = sum((o**2 * (1 + torch.arange(o.numel(), dtype=torch.float64).reshape(o.shape))).sum() for o in parts)
    (first,) = torch.autograd.grad(total, x, create_graph=True)
    if not first.requires_grad:
        return first, torch.zeros_like(first)
    (second,) = torch.autograd.grad((first**2).sum(), x, allow_unused=True)
    return first.detach(), torch.zeros_like(first) if second is None else second


_LINES = {
    "reshape": """
x.reshape(2, 6)
x.reshape((4, -1))
torch.reshape(x, (-1,))
x.view(6, -1)
x.view(torch.Size([2, 6]))
x.view(size=(12,))
n.view(torch.float64)
x.detach().view(torch.int64)
n.view(torch.int32)
c.view(torch.float64)
x.t().reshape(2, 6)
x.view_as(torch.zeros(4, 3))
x.flatten()
torch.flatten(y, 1, 2)
torch.flatten(s)
y.ravel()
y.unflatten(2, (2, -1))
torch.unflatten(y, -1, (2, 2))
e.reshape(3, 0)
x.t().contiguous()
x.clone()
torch.clone(x)
torch.view_as_real(c)
torch.view_as_complex(x.detach().reshape(6, 2))
x.resolve_conj()
""",
    "axes": """
x.unsqueeze(1).squeeze(1)
torch.squeeze(x[None], 0)
x.squeeze(0)
y[:1].squeeze((0, 1))
y[:1, :, :1].squeeze(dim=(0, 2))
s.squeeze(0)
torch.unsqueeze(x, -1)
s.unsqueeze(-1)
x.permute(1, 0)
torch.permute(y, (2, 0, 1))
y.permute(dims=(1, 2, 0))
x.transpose(0, 1)
torch.transpose(y, -1, 0)
s.transpose(0, -1)
y.swapaxes(0, 2)
torch.swapdims(y, 0, 1)
torch.movedim(y, 0, -1)
torch.moveaxis(y, (0, 1), (1, 2))
x.t()
torch.t(s)
x.T
y.mT
x.H
torch.adjoint(c[None])
c[None].mH
torch.flip(x, (0, 1))
x.flip(0, 1)
x.flip(-1)
torch.flip(y, dims=[2])
x.fliplr()
torch.flipud(y)
torch.roll(x, 1)
torch.roll(x, (1, -2), (0, 1))
x.roll(shifts=2, dims=1)
torch.rot90(x)
torch.rot90(x, -1, [1, 0])
x.rot90(2)
torch.atleast_1d(s)
torch.atleast_2d(s, x)
torch.atleast_3d((s, n, x))
x.expand(2, 3, 4)
x[:, :1].expand(-1, 4)
x[:1].expand_as(x)
torch.broadcast_to(x, (2, 3, 4))
torch.broadcast_tensors(x, s, y)
torch.broadcast_shapes((3, 1), (4,))
x.sum_to_size(3, 1)
x.sum_to_size(4)
torch.tile(x, (2,))
x.tile(2, 1, 2)
x.repeat(2, 1)
x.repeat((1, 2, 1))
torch.repeat_interleave(x, 2)
x.repeat_interleave(torch.tensor([1, 0, 2]), dim=0)
torch.repeat_interleave(j)
torch.repeat_interleave(x, repeats=3, dim=1, output_size=12)
torch.squeeze_copy(x)
torch.permute_copy(x, (1, 0))
torch.t_copy(x)
torch.expand_copy(x, (2, 3, 4))
""",
    "joins": """
torch.cat([x, x * 2])
torch.cat((x, x), dim=1)
torch.cat([x, x], axis=-1)
torch.cat([torch.zeros(0), x])
torch.concat([n, x])
torch.concatenate([n, n], -1)
torch.stack([x, -x], 1)
torch.stack((s, s))
torch.hstack([s, s])
torch.hstack((x, x))
torch.vstack([x[0], x])
torch.dstack([x, x])
torch.column_stack([x[:, 0], x])
torch.row_stack([x[0], x[1]])
x.split(2)
torch.split(x, [1, 3], dim=1)
torch.split(e, 2)
x.chunk(2, 1)
torch.chunk(x, 5)
x.tensor_split(2, 1)
torch.tensor_split(x, (1, 3), dim=-1)
torch.tensor_split(x, torch.tensor([1, 2]))
torch.hsplit(x, 2)
y.vsplit([1])
y.dsplit(2)
x.unbind()
torch.unbind(x, dim=1)
torch.block_diag(x, s, x[0])
torch.meshgrid(x[0], x[1])
torch.meshgrid(j, j, indexing="xy")
torch.cartesian_prod(x[0], x[1])
torch.combinations(x[0])
torch.combinations(j, r=2, with_replacement=True)
torch.kron(x, torch.ones(2, 1, dtype=torch.float64))
torch.diag(x)
torch.diag(x[0], 1)
x.diag(diagonal=-1)
torch.diag_embed(x)
x.diag_embed(1, 0, 2)
torch.diagflat(x, -1)
torch.diagonal(y, 1, 0, 2)
x.diagonal(offset=-1)
torch.tril(x, -1)
y.triu(diagonal=1)
torch.tril_indices(3, 4, -1)
torch.triu_indices(3, 4, 1, dtype=torch.int32)
""",
    "gathers": """
torch.gather(x, 1, i)
x.gather(dim=0, index=i[:, :2] % 3)
torch.gather(s, 0, torch.tensor(0))
torch.gather(x, 0, torch.zeros(0, 4, dtype=torch.int64))
torch.take_along_dim(x, i[:1], 1)
torch.take_along_dim(x, i)
torch.take(x, i)
x.take(torch.tensor([-1, 0]))
torch.index_select(x, 0, j)
x.index_select(dim=1, index=torch.tensor(2))
s.index_select(0, torch.tensor([0]))
torch.narrow(x, 1, 1, 2)
x.narrow(-1, -3, 2)
x.narrow(0, torch.tensor(1), 1)
torch.select(x, 1, -1)
torch.masked_select(x, b)
x.masked_select(b[0])
torch.nonzero(b)
torch.nonzero(s)
b.nonzero(as_tuple=True)
torch.nonzero(s, as_tuple=True)
torch.argwhere(n > 5)
torch.nonzero_static(b, size=8)
torch.nonzero_static(b, size=3, fill_value=7)
torch.unravel_index(i, (2, 2))
torch.searchsorted(torch.tensor([1.0, 2.0, 2.0, 4.0]), torch.tensor([[2.0, 5.0], [0.0, 3.0]]))
torch.searchsorted(torch.tensor([1.0, 2.0, 2.0, 4.0]), 2.0, right=True)
torch.searchsorted(n, n[:, :2] + 1, side="right", out_int32=True)
torch.searchsorted(torch.tensor([3, 1, 2]), torch.tensor([2, 3]), sorter=torch.tensor([1, 2, 0]))
torch.bucketize(x, torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64))
torch.bucketize(2.0, torch.tensor([0.0, 1.0, 2.0]), right=True)
torch.isin(n, torch.tensor([2, 5, 40]))
torch.isin(n, 5, invert=True)
torch.isin(4, j)
torch.isin(nan, nan)
torch.as_strided(x, (2, 2), (4, 1), 1)
x.unfold(1, 2, 1)
x.unfold(0, 2, 2)
s.unfold(0, 1, 1)
""",
    "scatters": """
torch.scatter(x, 0, torch.tensor([[0, 1, 2, 0]]), x[:1] * 3)
x.scatter(1, torch.tensor([[0], [2], [1]]), 5.0)
x.scatter(1, torch.tensor([[0], [2], [1]]), value=5.0)
torch.scatter(x, 1, torch.tensor([[0, 0], [2, 2]]), x * 2, reduce="add")
torch.scatter(n, 1, torch.tensor([[0, 0], [2, 2]]), 3, reduce="multiply")
torch.scatter_add(x, 1, i, x[:2] * 2)
torch.scatter_add(s, 0, torch.tensor(0), s)
torch.scatter_reduce(x, 1, i, x * 2, "sum", include_self=False)
torch.scatter_reduce(x, 1, i, x * 2, "prod")
torch.scatter_reduce(x, 0, i, x * 2, "prod", include_self=False)
torch.scatter_reduce(x, 1, i, x * 2, "mean")
torch.scatter_reduce(x, 0, i, x * 2, reduce="mean", include_self=False)
x.scatter_reduce(1, i, x * 2, "amax")
x.scatter_reduce(0, i, x, "amin", include_self=False)
torch.scatter_reduce(n, 1, i, n * 3, "amin")
torch.scatter_reduce(n, 1, i, n * 3 - 5, "mean")
torch.scatter_reduce(nan, 0, torch.tensor([0, 0, 2, 2]), nan, "amax")
torch.scatter_reduce(torch.zeros(3, dtype=torch.float64), 0, j, x[0, :3], "amax", include_self=False)
torch.index_add(x, 0, j, x, alpha=-2)
x.index_add(1, torch.tensor([3, 3]), x[:, :2])
torch.index_copy(x, 0, torch.tensor([2, 0]), x[:2] * 2)
torch.index_fill(x, 1, torch.tensor([0, 3]), 1.5)
x.index_fill(0, torch.tensor([1]), s)
torch.index_reduce(x, 0, j, x * 2, "prod")
torch.index_reduce(x, 0, j, x * 2, "amax", include_self=False)
x.index_reduce(1, torch.tensor([1, 1]), x[:, 2:], "mean")
torch.index_reduce(x, 0, j, x * 2, "amin")
torch.index_put(x, (torch.tensor([0, 2]), torch.tensor([1, 1])), x[0, :2])
x.index_put((torch.tensor([0, 0]),), s, accumulate=True)
torch.index_put(x, [b], torch.tensor(7.0, dtype=torch.float64))
x.put(torch.tensor([0, 5, 5]), x[1, :3], accumulate=True)
x.put(torch.tensor([0, -1]), x[1, :2])
torch.masked_fill(x, b, -1.0)
x.masked_fill(b[:, :1], s)
torch.masked_scatter(x, b, y)
x.masked_scatter(b, x * 3)
torch.select_scatter(x, x[0, :3], 1, 2)
torch.slice_scatter(x, x[:, :2], 1, 0, 4, 2)
torch.slice_scatter(x, x[:1], start=-1)
torch.diagonal_scatter(x, x[0, :3])
torch.diagonal_scatter(x, x[0, :2], -1)
torch.fill(x, 3)
torch.as_strided_scatter(x.detach(), s.reshape(1), (1,), (1,), 2)
""",
    "indices": """
x[0]
x[-1, 1:3]
x[..., 0]
x[None, :, ::2]
x[j]
x[[0, 2]]
x[[0, 1], [1, 2]]
x[[[0, 1], [1, 2]]]
x[0, [1, 2]]
y[0, :, [1, 2]]
y[:, 0, [1, 2]]
y[[0, 1], :, [1, 2]]
y[[0, 1], None, [1, 2]]
y[torch.tensor(0), :, [1, 2]]
y[1, [0, 2], 1:]
y[[0, 1], :, 2]
x[b]
x[b[:, 0]]
x[:, torch.tensor([True, False, True, True])]
y[0, b[:, 0], 1]
x[torch.tensor([1, 0, 1], dtype=torch.uint8)]
x[torch.tensor([1, 0], dtype=torch.int32)]
x[torch.tensor(1)]
x[range(2)]
x[True]
x[False]
x[()]
x[[]]
x[[True, False, True]]
x[(slice(None), 1)]
x[[slice(0, 2), 1]]
x[1:1]
x[torch.tensor(1):]
n[n > 3]
x[i]
x[i[:, :2], 1]
e[:, 0]
""",
    "dtypes": """
n.float()
x.long()
x.int()
n.double()
x.detach().abs().char()
x.short()
n.half()
n.bool()
n.cfloat()
x.cdouble()
c.cfloat()
n.type_as(x)
x.to(n)
n.tolist()
s.item()
""",
    "in_place": """
x.clone().scatter_(1, i, 2.0)
x.clone().scatter_add_(1, i, x[:2])
x.clone().scatter_reduce_(1, i, x[:2], "amax")
x.clone().index_add_(0, j, x)
x.clone().index_copy_(0, j[:2], x[:2])
x.clone().index_fill_(1, j, 4.0)
x.clone().index_put_((j, j), s)
x.clone().index_reduce_(0, j, x, "mean")
x.clone().masked_fill_(b, 0.0)
x.clone().masked_scatter_(b, y)
x.clone().put_(torch.tensor([2, 0, 5]), x[0, :3])
x.clone().fill_diagonal_(9.0)
torch.zeros(7, 3).fill_diagonal_(1.0, wrap=True)
torch.zeros(3, 3, 3).fill_diagonal_(2.0)
x.clone().tril_()
x.clone().squeeze_()
x.clone().unsqueeze_(1)
x.clone().transpose_(0, 1)
x.clone().t_()
n.clone().resize_(2, 3)
n.clone().resize_as_(j)
torch.cat([n, n], out=torch.zeros(6, 4, dtype=torch.int64))
torch.gather(n, 1, i, out=torch.zeros(2, 4, dtype=torch.int64))
""",
}
CALLS = {family: lines.strip().split("\n") for family, lines in _LINES.items()}
