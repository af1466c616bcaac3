"""Which results share memory with an argument, and how results lie in memory: what PyTorch did with the same calls."""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import wengert as wg
import wengert.torch as torch

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))
from torch_sharing import LAYOUTS, TEXTS, laid, seen

DATA = Path(__file__).parent / "data" / "sharing.json.gz"
RECORDED: dict[str, Any] = json.loads(gzip.decompress(DATA.read_bytes()))
# Every so manieth call is asked every time, and all are where tests are slow.
STEP = 6

# Conjugates of complex numbers are computed here, and are marks on the same memory there.
COPIED = {"conj", "adjoint", "z.H"}
# What gives the argument itself here, and another name of it there.
ITSELF = {"dropout3d"}
# How these results lie in memory is told by PyTorch's kernels and libraries: LAPACK's matrices lie column by column,
# and so do the places that are not 0; its pools, norms and transforms have orders of their own. What takes long to
# compute stays here as it is made.
OTHER_ORDER = {
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_max_pool1d", "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d", "adaptive_max_pool2d_with_indices", "airy_ai", "angle", "argwhere", "avg_pool1d",
    "avg_pool2d", "avg_pool3d", "batch_norm", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "byte", "ceil",
    "char", "cholesky", "cholesky_ex", "cholesky_inverse", "cholesky_solve", "conv2d", "dropout1d", "dropout2d",
    "dropout3d", "eig", "eigh", "fft", "fft2", "fftn", "fill", "fix", "floor", "geqrf", "group_norm", "hfft",
    "hfft2", "hfftn", "histogram", "ifft", "ifft2", "ifftn", "ihfft", "ihfft2", "ihfftn", "index_fill",
    "instance_norm", "int", "inv", "inv_ex", "inverse", "irfft", "irfft2", "irfftn", "isreal", "kron", "layer_norm",
    "local_response_norm", "logcumsumexp", "logsigmoid", "long", "lp_pool2d", "lp_pool3d", "lstsq", "lu",
    "lu_factor", "lu_factor_ex", "matrix_norm", "max_pool1d", "max_pool1d_with_indices", "max_pool2d",
    "max_pool2d_with_indices", "max_pool3d", "max_pool3d_with_indices", "modified_bessel_k0", "modified_bessel_k1",
    "multigammaln", "mvlgamma", "nonzero", "normalize", "pad", "pca_lowrank", "qr", "renorm", "rfft", "rfft2",
    "rfftn", "rot90", "round", "rrelu", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "short",
    "slice_scatter", "solve", "solve_ex", "svd", "svd_lowrank", "tensorinv", "threshold", "triangular_solve",
    "trunc", "x[:, k]", "x[k]", "x[[0]]", "einsum",
}  # fmt: skip


def name_of(text: str) -> str:
    found = re.search(r"\.(\w+)\(", text)
    return found[1] if found else text


def differences(texts: Any) -> list[str]:
    found = []
    for text in texts:
        name = name_of(text)
        for layout, told in zip(LAYOUTS, RECORDED[text]):
            try:
                got = seen(torch, text, layout)
            except (wg.WengertError, TypeError, ValueError):  # what is refused is not shared; others' tests tell of it
                continue
            if len(got) != len(told):
                continue
            for (kind, strides), (their_kind, their_strides) in zip(got, told):
                kinds = {kind, their_kind}
                if (
                    kind != their_kind
                    and not (name in COPIED and kind == "own")
                    and not (name in ITSELF and kinds == {"same", "view"})
                ):
                    found.append(f"{text}, {layout}: {kind}, in PyTorch {their_kind}")
                elif kind == their_kind and strides != their_strides and name not in OTHER_ORDER:
                    found.append(f"{text}, {layout}: strides {strides}, in PyTorch {their_strides}")
    return found


@pytest.mark.filterwarnings("ignore")
def test_results_share_and_lie_as_in_pytorch() -> None:
    assert not differences([t for t in TEXTS if t in RECORDED])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("start", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in range(1, STEP))])
def test_all_functions_share_and_lie_as_in_pytorch(start: int) -> None:
    assert not differences(list(RECORDED)[start::STEP])


def test_what_is_left_out_was_recorded() -> None:
    names = {name_of(text) for text in RECORDED} | set(RECORDED)
    assert names >= OTHER_ORDER | COPIED | ITSELF


# -- what is told of memory


def test_strides_offsets_and_addresses() -> None:
    x = torch.arange(24.0).reshape(2, 3, 4)
    assert (x.stride(), x.stride(1), x.storage_offset(), x.is_contiguous()) == ((12, 4, 1), 4, 0, True)
    y = x[1, :, 1::2]
    assert (y.stride(), y.storage_offset(), y.is_contiguous()) == ((4, 2), 13, False)
    assert y.data_ptr() == x.data_ptr() + 13 * 4
    assert x.permute(2, 0, 1).stride() == (1, 12, 4)
    assert x[None].stride() == (24, 12, 4, 1)
    assert x[..., None].stride() == (12, 4, 1, 1)
    assert x[:, :1].expand(2, 5, 4).stride() == (12, 0, 1)
    assert torch.empty(0).data_ptr() == 0
    assert x.clone().data_ptr() != x.data_ptr()
    before = x.data_ptr()
    x.add_(1.0)
    assert x.data_ptr() == before


def test_sharing_formats() -> None:
    x = torch.arange(48.0).reshape(2, 3, 2, 4)
    last = x.contiguous(memory_format=torch.channels_last)
    assert last.stride() == (24, 1, 12, 3)
    assert last.is_contiguous(memory_format=torch.channels_last)
    assert not last.is_contiguous()
    assert not x.is_contiguous(memory_format=torch.channels_last)
    assert last.contiguous(memory_format=torch.channels_last) is last
    assert torch.equal(last, x)
    assert (last * 2 + 1).stride() == last.stride()
    assert torch.empty(2, 3, 2, 4, memory_format=torch.channels_last).stride() == last.stride()
    assert last.contiguous().stride() == x.stride()
    with pytest.raises(wg.ShapeError, match="order of 4 axes"):
        x[0].contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("layout", LAYOUTS[:3])
def test_writes_in_place_leave_the_layout(layout: str) -> None:
    x = laid(torch.arange(12.0).reshape(3, 4), layout)
    strides = x.stride()
    for write in (lambda: x.add_(1), lambda: x.copy_(torch.ones(3, 4)), lambda: x.exp_(), lambda: x.zero_()):
        write()
        assert x.stride() == strides


def test_is_set_to() -> None:
    x = torch.arange(4.0)
    assert x.is_set_to(x)
    assert x.is_set_to(x[:])
    assert x.is_set_to(x.detach())
    assert not x.is_set_to(x[:2])
    assert not x.is_set_to(x.clone())
    assert not x.view(2, 2).is_set_to(x)


# -- windows into memory


def test_as_strided_goes_by_the_memory() -> None:
    x = torch.arange(12.0).reshape(3, 4)
    for view in (x.t(), x[1:, ::2], x[2], x[0].expand(2, 4)):
        y = view.as_strided((2, 2), (4, 1), 1)
        assert y.tolist() == [[1, 2], [5, 6]]
    own_offset = x[1:].t().as_strided((2,), (1,))
    assert own_offset.tolist() == [4, 5]
    own_offset.fill_(-1.0)
    assert x[1].tolist() == [-1, -1, 6, 7]
    with pytest.raises(wg.RangeError, match="beyond its elements"):
        x[0].as_strided((3, 4), (4, 2))
    with pytest.raises(wg.ShapeError, match="None may be negative"):
        x.t().as_strided((2,), (-1,), 3)


def test_as_strided_in_place() -> None:
    x = torch.arange(6.0)
    y = x[:4]
    assert y.as_strided_((2, 2), (1, 2), 1) is y
    assert y.tolist() == [[1, 3], [2, 4]]
    y.zero_()
    assert x.tolist() == [0, 0, 0, 0, 0, 5]
    x.as_strided_((2,), (5,))
    assert x.tolist() == [0, 5]
    y.fill_(7.0)
    assert x.tolist() == [0, 5]
    x.fill_(1.0)
    assert x.storage().tolist() == [1, 7, 7, 7, 7, 1]


def test_set() -> None:
    x, y = torch.zeros(2), torch.arange(6.0)
    kept = x[:1]
    assert x.set_(y) is x
    x[0] = 9.0
    assert y[0] == 9.0
    assert kept.tolist() == [0.0]
    x.set_(y.untyped_storage(), 1, (2, 2), (1, 2))
    assert x.tolist() == [[1, 3], [2, 4]]
    x.set_(y.storage(), 4)
    assert x.tolist() == [4, 5]
    x.set_(y, 0, (2,))
    assert x.is_set_to(y[:2])
    assert x.set_().tolist() == []
    with pytest.raises(wg.DTypeError, match="one dtype"):
        x.set_(torch.arange(2))
    with pytest.raises(wg.GradientError):
        torch.ones(2, requires_grad=True).set_(y)
    with pytest.raises(wg.RangeError):
        x.set_(y.storage(), 4, (3,))


def test_resize_stays_in_the_memory() -> None:
    x = torch.arange(6.0)
    y = x[1:3]
    y.resize_(2, 2)
    assert y.tolist() == [[1, 2], [3, 4]]
    y.zero_()
    assert x.tolist() == [0, 0, 0, 0, 0, 5]
    with pytest.raises(wg.WriteError, match="memory that others share"):
        y.resize_(10)
    z = torch.ones(2)
    assert z.resize_(3).tolist() == [1, 1, 0]


def test_empty_strided() -> None:
    x = torch.empty_strided((2, 3), (1, 4), dtype=torch.int64)
    assert (x.stride(), x.dtype, tuple(x.shape)) == ((1, 4), torch.int64, (2, 3))
    assert x.storage().size() == 10
    with pytest.raises(wg.ShapeError):
        torch.empty_strided((2,), (-1,))


def test_views_as_other_numbers_keep_the_memory_whatever_the_strides() -> None:
    z = torch.complex(torch.ones(2, 3), torch.zeros(2, 3))
    torch.view_as_real(z.t()).zero_()
    assert not z.any()
    pairs = torch.ones(2, 3, 2)
    torch.view_as_complex(pairs.transpose(0, 1)).zero_()
    assert not pairs.any()
    bits = torch.ones(2, 3).t()
    bits.view(torch.int32).zero_()
    assert not bits.any()


# -- modules, state and optimisers with views that live


def test_views_of_parameters_follow_steps_and_state_dicts() -> None:
    for rule in ("SGD", "Adam"):
        torch.manual_seed(0)
        model, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
        w = model.weight
        data, detached, flat = w.data[:1], w.detach()[1:], w.detach().view(-1)
        optimizer = getattr(torch.optim, rule)(model.parameters(), lr=0.5)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(2)).sum().backward()
            optimizer.step()
            assert torch.equal(data, w.detach()[:1])
            assert torch.equal(detached, w.detach()[1:])
        model.load_state_dict(other.state_dict())
        assert torch.equal(flat, other.weight.detach().view(-1))
        flat.zero_()
        assert not w.any()
        assert other.weight.any()
        model.load_state_dict(model.state_dict())
        assert not w.any()
        moments = [s["exp_avg"] for s in optimizer.state.values() if "exp_avg" in s]
        parts = [m[:1] for m in moments]
        model(torch.ones(2)).sum().backward()
        optimizer.step()
        for m, part in zip(moments, parts):
            assert torch.equal(part, m[:1])
            assert part.data_ptr() == m.data_ptr()


def test_an_orthogonal_weight_stays_as_it_is() -> None:
    layer = torch.nn.Linear(3, 3, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.eye(3))
    torch.nn.utils.parametrizations.orthogonal(layer)
    assert torch.allclose(layer.weight, torch.eye(3), atol=1e-6)
