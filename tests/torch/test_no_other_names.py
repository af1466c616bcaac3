"""No name of Wengert's own stands in PyTorch's namespaces, and PyTorch's that are missing refuse when they are used."""

import abc
import importlib
import multiprocessing

import pytest

import wengert as wg
import wengert.torch as torch
from wengert.core.errors import GradientError, GraphError
from wengert.torch.absent import Absent, recorded

# The namespaces that show their names, below `torch`.
SPACES = (
    *("", "accelerator", "amp", "autograd", "autograd.functional", "compiler", "cuda", "distributed", "distributions"),
    *("distributions.constraints", "distributions.transforms", "fft", "func", "fx", "hub", "jit", "library", "linalg"),
    *("multiprocessing", "nested", "nn", "nn.attention", "nn.functional", "nn.init", "nn.parallel", "nn.utils"),
    *("nn.utils.parametrize", "nn.utils.prune", "nn.utils.rnn", "onnx", "optim", "optim.lr_scheduler"),
    *("optim.swa_utils", "profiler", "quasirandom", "random", "serialization", "signal", "sparse", "special"),
    *("storage", "testing", "utils", "utils.checkpoint", "utils.data", "xpu"),
)
# What PyTorch's modules have from elsewhere, which its record leaves out.
FOREIGN = {"jit": {"Final"}, "multiprocessing": {*multiprocessing.__all__}}


def space_of(path):
    return importlib.import_module(f"wengert.torch.{path}".rstrip("."))


@pytest.mark.parametrize("path", SPACES)
def test_every_name_is_one_of_pytorchs(path):
    shown = {name for name in dir(space_of(path)) if not name.startswith("_") and name.isidentifier()}
    there = {*recorded(path), *(p.removeprefix(f"{path}.").partition(".")[0] for p in paths_below(path))}
    assert shown - there - FOREIGN.get(path, set()) == set()


def paths_below(path):
    from wengert.torch.absent import _recorded

    return [p for p in _recorded() if not path or p.startswith(f"{path}.")]


def test_wengerts_names_are_not_found_in_torch():
    assert [
        name for name in wg.__all__ if name not in recorded("") and name != "__version__" and hasattr(torch, name)
    ] == []
    assert torch.ops is not wg.ops
    for name in ("vjp", "value_and_grad", "graph", "explain", "expand_dims", "astype"):
        with pytest.raises(AttributeError, match="PyTorch has no such name"):
            getattr(torch, name)


def test_what_is_shared_is_as_it_is():
    assert torch.einsum is not None
    assert {"sin", "matmul", "no_grad"} <= set(dir(torch))
    with pytest.raises(AttributeError, match="no attribute 'add_'"):
        torch.add_


def test_an_absent_name_can_be_named():
    fsdp = importlib.import_module("wengert.torch.distributed.fsdp")
    sharded = fsdp.FullyShardedDataParallel
    assert type(sharded) is Absent
    assert not isinstance(torch.nn.Linear(1, 1), (sharded, torch.SymInt))
    assert (sharded | None) == (None | sharded)
    assert sharded[int] is sharded
    assert fsdp.FullyShardedDataParallel is sharded
    assert type(fsdp.ShardingStrategy.FULL_SHARD) is Absent
    assert not hasattr(fsdp, "no_such_name")
    assert not hasattr(sharded, "_inner")

    class Mine(sharded, abc.ABC, option=1):
        word = 3

    assert Mine.word == 3
    assert not hasattr(Mine, "other")


@pytest.mark.parametrize(
    ("path", "kind", "says"),
    [
        (
            "distributed.fsdp.FullyShardedDataParallel",
            GraphError,
            r"fsdp.FullyShardedDataParallel\(\)",
        ),
        ("distributed.tensor.DTensor", GraphError, "wg.distribute"),
        ("export.export", GraphError, "onnx"),
        ("fx.Interpreter", GraphError, "wengert.graph"),
        ("cuda.Stream", GradientError, "no GPU"),
        ("utils._python_dispatch.TorchDispatchMode", GraphError, "nothing stands for it"),
    ],
)
def test_an_absent_name_says_why_when_it_is_used(path, kind, says):
    module, _, name = path.rpartition(".")
    made = getattr(space_of(module), name)
    with pytest.raises(kind, match=says):
        made()
    derived = type("Mine", (made,), {})
    with pytest.raises(kind, match=says):
        derived(1, a=2)


def test_exceptions_are_caught():
    errors = space_of("distributed.elastic.multiprocessing.errors")
    assert issubclass(errors.ChildFailedError, Exception)
    with pytest.raises(errors.ChildFailedError):
        raise errors.ChildFailedError("a child")


def test_inner_paths_have_the_same_objects():
    assert space_of("distributions.multivariate_normal").Distribution is torch.distributions.Distribution
    assert space_of("optim.adam").Adam is torch.optim.Adam
    assert space_of("nn.modules.conv").Conv2d is torch.nn.Conv2d
    assert space_of("distributed.distributed_c10d").all_reduce is torch.distributed.all_reduce
    with pytest.raises(ModuleNotFoundError):
        space_of("no_such_module")
    with pytest.raises(AttributeError):
        torch.distributed.no_such_name


def test_what_is_told_while_a_library_is_imported_is_taken():
    def f():
        return 1

    assert space_of("onnx.symbolic_helper").parse_args("v", "i")(f) is f
    assert torch.onnx.register_custom_op_symbolic("a::b", f, 11) is None


def test_dtypes_and_layouts_that_no_tensor_has():
    x = torch.ones(2)
    assert isinstance(torch.complex32, torch.dtype)
    assert x.dtype != torch.complex32
    assert torch.complex32 == torch.chalf
    assert (torch.quint8.itemsize, torch.uint4.is_signed, torch.int4.is_signed) == (1, False, True)
    assert x.layout != torch.sparse_csr
    assert repr(torch.sparse_csr) == "torch.sparse_csr"
    for use in (lambda: torch.zeros(2, dtype=torch.complex32), lambda: x.to(torch.int4)):
        with pytest.raises(TypeError, match="does not exist here"):
            use()
