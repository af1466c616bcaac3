"""Reductions of `wengert.torch`, against values recorded from PyTorch 2.13."""

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch
from torch_calls import inputs, recorded
from torch_comparing import check, compiled

CALLS = [
    # sums, means, products
    "torch.sum(x)",
    "x.sum(1)",
    "x.sum(dim=(0, 2), keepdim=True)",
    "torch.sum(input=x, dim=[1])",
    "x.sum(axis=1, keepdims=True)",
    "torch.sum(x, ())",
    "torch.sum(i, dtype=torch.float32)",
    "w.sum()",
    "b.sum(0)",
    "s.sum(0)",
    "s.sum(-1, keepdim=True)",
    "empty.sum(0)",
    "torch.mean(x, 2)",
    "x.mean((0, 1), True)",
    "torch.mean(f)",
    "torch.mean(i, 0, dtype=torch.float64)",
    "s.mean(0)",
    "torch.prod(p)",
    "torch.prod(p, 1, keepdim=True)",
    "torch.prod(i, 0)",
    "torch.nansum(holes)",
    "torch.nansum(holes, 2, True)",
    "torch.nanmean(holes, dim=1)",
    "torch.nanmean(holes)",
    # variances
    "torch.var(x)",
    "x.var(1)",
    "x.var(False)",
    "x.var(1, False, True)",
    "torch.var(x, dim=(0, 1), correction=0)",
    "torch.std(x, 1, correction=2, keepdim=True)",
    "x.std(unbiased=False)",
    "x.std(0, True)",
    "torch.std(f)",
    "torch.var_mean(x, 1)",
    "torch.std_mean(x, unbiased=False)",
    "torch.std_mean(x, 2, correction=0, keepdim=True)",
    # extremes
    "torch.max(x)",
    "x.max(1)",
    "x.max(dim=-1, keepdim=True)",
    "torch.max(x, y)",
    "torch.max(x, other=y)",
    "torch.min(x)",
    "torch.min(x, 0)",
    "x.min(y)",
    "s.max(0)",
    "holes.max(2)",
    "holes.min(1).values",
    "torch.max(holes)",
    "torch.max(j)",
    "x.amax((0, 2))",
    "torch.amin(x, dim=1, keepdim=True)",
    "x.amax()",
    "torch.amax(torch.relu(x), 1)",
    "torch.aminmax(x)",
    "torch.aminmax(x, dim=0, keepdim=True)",
    "x.argmax()",
    "x.argmin(1, keepdim=True)",
    "holes.argmax(2)",
    "s.argmax(0)",
    # running
    "torch.cumsum(x, 1)",
    "i.cumsum(dim=0)",
    "b.cumsum(0)",
    "torch.cumsum(i, 0, dtype=torch.float64)",
    "torch.cumprod(p, -1)",
    "s.cumprod(0)",
    "torch.cummax(x, 2)",
    "torch.cummin(x, dim=0)",
    "torch.cummax(holes, 2)[1]",
    "torch.cummax(i, 1)",
    "torch.cummin(i, 0).indices",
    "torch.logcumsumexp(x, 1)",
    "torch.logsumexp(x, 1)",
    "x.logsumexp((0, 2), keepdim=True)",
    "torch.softmax(x, 1)",
    "f.softmax(dim=-1, dtype=torch.float64)",
    "torch.log_softmax(x, 0)",
    # truth
    "torch.any(b)",
    "b.any(1)",
    "b.all(dim=0, keepdim=True)",
    "torch.all(i)",
    "w.all(1)",
    "torch.any(empty, 0)",
    "torch.count_nonzero(i)",
    "i.count_nonzero(dim=(0,))",
    "torch.equal(x, x), torch.equal(x, y), torch.equal(x, p)",
    "torch.isclose(x, x + 1e-7)",
    "torch.allclose(x, x + 1e-9), torch.allclose(holes, holes), torch.allclose(holes, holes, equal_nan=True)",
    # norms
    "torch.norm(x)",
    "x.norm(dim=1)",
    "x.norm(p=1, dim=(0, 2))",
    "torch.norm(x, inf, 1, True)",
    "torch.norm(x, 3)",
    "torch.norm(p, 'nuc')",
    "torch.norm(f, dtype=torch.float64)",
    "torch.norm(c)",
    "torch.dist(x, y)",
    "torch.dist(x, y, 1)",
    "torch.renorm(x, 2, 1, 1.5)",
    # order
    "torch.sort(x, 1)",
    "x.sort(descending=True)",
    "torch.sort(i, stable=True)",
    "torch.sort(holes, dim=2).indices",
    "s.sort()",
    "torch.argsort(x, 0, True)",
    "torch.argsort(i, dim=1, stable=True)",
    "torch.msort(x)",
    "torch.topk(x, 2)",
    "x.topk(k=2, dim=1, largest=False)",
    "torch.kthvalue(x, 2)",
    "x.kthvalue(3, 1, True)",
    "torch.median(x)",
    "x.median(2)",
    "torch.median(x, dim=1, keepdim=True)",
    "holes.median()",
    "torch.nanmedian(holes)",
    "torch.nanmedian(holes, 2).values",
    "i.median()",
    "torch.mode(i)",
    "torch.mode(j, 0, keepdim=True)",
    "torch.quantile(x, 0.3)",
    "x.quantile(torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64), dim=1)",
    "torch.quantile(x, 0.4, dim=2, keepdim=True, interpolation='lower')",
    "torch.quantile(x, 0.4, dim=2, interpolation='higher')",
    "torch.quantile(x, 0.4, dim=2, interpolation='midpoint')",
    "torch.quantile(x, 0.4, dim=0, interpolation='nearest')",
    "torch.quantile(holes, 0.5, dim=2)",
    "torch.nanquantile(holes, 0.3, dim=2)",
    "torch.nanquantile(holes, torch.tensor([0.0, 0.6], dtype=torch.float64), keepdim=True)",
    # counts
    "torch.histc(f, 5, -1, 1)",
    "torch.histc(f, bins=4)",
    "torch.histogram(f, 4)",
    "torch.histogram(f, torch.tensor([-1.0, 0.0, 0.5, 2.0]), density=True)",
    "torch.histogram(f, 3, range=(-1.0, 1.0), weight=f.abs())",
    "torch.histogramdd(f, bins=[2, 3, 1, 2])",
    "torch.histogramdd(f, bins=2, weight=f[:, 0].abs(), density=True)",
    "torch.histogramdd(f[:, :2].contiguous(), bins=[2, 2], range=[-1.0, 1.0, -2.0, 2.0])",
    "torch.bincount(k)",
    "torch.bincount(k, k * 0.5, minlength=12)",
    "torch.unique(i)",
    "torch.unique(i, return_inverse=True, return_counts=True)",
    "torch.unique(torch.tensor([[3, 1], [1, 2], [3, 1], [0, 9]]), dim=0, return_inverse=True, return_counts=True)",
    "torch.unique(torch.tensor([[3, 1, 3], [1, 2, 1]]), dim=1)",
    "torch.unique_consecutive(torch.tensor([1, 1, 2, 2, 3, 1, 1]), return_inverse=True, return_counts=True)",
    "torch.unique_consecutive(torch.tensor([[1, 2], [1, 2], [0, 2]]), dim=0)",
    # differences and integrals
    "torch.diff(x)",
    "torch.diff(x, 2, 1)",
    "x.diff(dim=0, prepend=y, append=y)",
    "torch.trapezoid(x)",
    "torch.trapz(x, row, dim=-1)",
    "torch.trapezoid(x, dx=0.5, dim=1)",
    "torch.cumulative_trapezoid(x, row)",
    # results given, in place
    "torch.sum(x.detach(), 1, out=torch.empty(2, 4, dtype=torch.float64))",
    "x.clone().cumsum_(1)",
    "x.clone().renorm_(2, 0, 1.0)",
]
RECORDED = recorded("reductions")


@pytest.mark.parametrize("text", CALLS)
def test_numbers_and_derivatives_are_pytorchs(text):
    check(text, RECORDED[text])


@pytest.mark.parametrize("text", [t for t in CALLS[::7] if "unique" not in t and "bincount" not in t])
def test_compiled_calls_give_the_same(text):
    compiled(text, RECORDED[text])


def test_results_of_several_have_pytorchs_names():
    x = torch.tensor([[1.0, 4.0], [3.0, 2.0]])
    values, indices = x.max(dim=1)
    assert (values.tolist(), indices.tolist()) == ([4.0, 3.0], [1, 0])
    assert type(x.sort().values) is torch.Tensor
    assert repr(x.min(0)).startswith("torch.return_types.min(\nvalues=tensor([1., 2.])")
    out = torch.empty(2), torch.empty(2, dtype=torch.int64)
    torch.max(x, 1, out=out)
    assert [o.tolist() for o in out] == [[4.0, 3.0], [1, 0]]
    assert wg.jit(lambda x: torch.aminmax(x))(x).max.item() == 4.0


def test_functions_are_mapped_over_examples():
    x = inputs(torch)["x"].detach()
    for fn in (lambda v: v.max(0).values, lambda v: v.median(), lambda v: v.std(), lambda v: torch.cummax(v, 1).values,
               lambda v: torch.quantile(v, 0.3, dim=1), lambda v: torch.histc(v, 3, -1, 1)):  # fmt: skip
        mapped = wg.vmap(fn)(x)
        np.testing.assert_allclose(mapped.numpy(), np.stack([fn(v).numpy() for v in x]), rtol=1e-14)
        assert type(mapped) is torch.Tensor


def test_axes_may_be_called_as_in_numpy():
    x = torch.ones(2, 3)
    assert tuple(x.sum(axis=0, keepdims=True).shape) == (1, 3)
    assert tuple(x.sum(axis=()).shape) == (2, 3)  # as NumPy and Wengert mean it
    assert x.sum(dim=()).item() == 6.0
    assert np.ptp(torch.tensor([1.0, 4.0])).item() == 3.0
    with pytest.raises(TypeError, match="dim"):
        torch.cumsum(x)


def test_what_cannot_be_right_is_refused():
    x = torch.ones(2, 3)
    with pytest.raises(IndexError):
        x.kthvalue(4)
    with pytest.raises(ValueError, match="interpolation"):
        torch.quantile(x, 0.5, interpolation="other")
    with pytest.raises(IndexError):
        torch.quantile(x, 1.5)
    with pytest.raises(TypeError):
        torch.quantile(torch.arange(3), 0.5)
    with pytest.raises(TypeError):
        x.var(0, unbiased=True, correction=1)
    with pytest.raises(wg.TraceError):
        wg.jit(torch.unique)(x)
    with pytest.raises(TypeError):
        torch.bincount(x)
