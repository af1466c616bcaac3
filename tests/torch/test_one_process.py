"""Groups of one process, modules spread over one device, and what is there only to be mentioned."""

import pytest

import wengert.torch as torch
import wengert.torch.distributed as dist
import wengert.torch.multiprocessing as mp
from wengert.core.errors import GraphError, ShapeError, WriteError
from wengert.torch.nn.parallel import DataParallel, DistributedDataParallel


@pytest.fixture
def alone():
    dist.init_process_group("gloo", init_method="env://", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_collectives_of_one_process(alone):
    x = torch.tensor([1.0, 2.0])
    assert dist.is_initialized()
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "gloo")
    assert dist.all_reduce(x, op=dist.ReduceOp.SUM) is None
    assert dist.all_reduce(x, async_op=True).wait()
    gathered = [torch.zeros(2)]
    dist.all_gather(gathered, x)
    whole = torch.zeros(1, 2)
    dist.all_gather_into_tensor(whole, x)
    assert x.tolist() == gathered[0].tolist() == whole[0].tolist() == [1.0, 2.0]
    objects = [None]
    dist.all_gather_object(objects, {"a": 1})
    assert objects == [{"a": 1}]
    assert dist.new_group([0]).size() == 1
    with pytest.raises(ShapeError, match="list of 2 for 1 process"):
        dist.all_gather([torch.zeros(2)] * 2, x)
    with pytest.raises(GraphError, match="no other process"):
        dist.send(x, 1)
    with pytest.raises(GraphError, match="group already"):
        dist.init_process_group("gloo")


def test_a_group_is_asked_for_before_it_is_used():
    assert dist.is_available()
    assert not dist.is_initialized()
    with pytest.raises(GraphError, match="no process group"):
        dist.get_rank()
    with pytest.raises(GraphError, match="no process group"):
        DistributedDataParallel(torch.nn.Linear(1, 1))
    with pytest.raises(GraphError, match="4 processes"):
        dist.init_process_group("nccl", rank=0, world_size=4)


def test_a_module_of_a_group(alone):
    torch.manual_seed(0)
    inner = torch.nn.Linear(2, 1)
    model = DistributedDataParallel(inner, device_ids=None)
    with model.no_sync():
        model(torch.ones(3, 2)).sum().backward()
    assert inner.weight.grad.tolist() == [[3.0, 3.0]]
    assert list(model.state_dict()) == ["module.weight", "module.bias"] == list(DataParallel(inner).state_dict())
    assert model.module is inner


def test_memory_is_not_shared():
    with pytest.raises(WriteError, match="not see what is written"):
        torch.nn.Linear(2, 1).share_memory()
    assert mp.get_sharing_strategy() in mp.get_all_sharing_strategies()
    assert mp.get_context("spawn").Process is not None
    assert mp.Queue is not None


def _note(i, folder):
    (folder / str(i)).write_text("here")
    if i == 2:
        raise SystemExit(3)


@pytest.mark.skipif("fork" not in mp.get_all_start_methods(), reason="processes cannot be forked")
def test_processes_are_started_and_their_failure_is_raised(tmp_path):
    mp.spawn(_note, (tmp_path,), nprocs=2, start_method="fork")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["0", "1"]
    with pytest.raises(mp.ProcessExitedException, match="exit code 3") as e:
        mp.spawn(_note, (tmp_path,), nprocs=3, start_method="fork")
    assert e.value.error_index == 2
    assert e.value.exit_code == 3


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.onnx.export(torch.nn.ReLU(), torch.ones(1), "model.onnx"),
        lambda: torch.fx.symbolic_trace(torch.nn.ReLU()),
        lambda: torch.hub.load("owner/repository", "model"),
        lambda: torch.jit.load("model.pt"),
    ],
)
def test_what_is_mentioned_is_refused_when_called(call):
    with pytest.raises(GraphError, match=r"torch\.\w+\.\w+\(\): "):
        call()


def test_functions_that_other_tools_look_at_stay_what_they_are():
    def f(x):
        return x

    assert torch.fx.wrap(f) is f
    assert torch.fx.wrap("len") == "len"
    assert torch.jit._overload_method(f) is f
    assert not torch.onnx.is_in_onnx_export()


def test_collectives_that_give_new_tensors(alone):
    from wengert.torch.distributed import nn

    x = torch.tensor([1.0, 2.0], requires_grad=True)

    def total(x):
        found = [nn.all_reduce(x), nn.broadcast(x, 0), nn.reduce(x, 0), *nn.all_gather(x), *nn.gather(x)]
        found += [nn.scatter([x]), nn.reduce_scatter(torch.zeros(2), [x]), *nn.all_to_all([torch.zeros(2)], [x])]
        return sum(t * (i + 1) for i, t in enumerate(found)).sum()

    total(x).backward()
    assert x.grad.tolist() == [36.0, 36.0]
    compiled = torch.compile(total)
    assert [compiled(x).item() for _ in range(6)] == [108.0] * 6
    nn.all_reduce(x).detach().add_(1)
    assert x.tolist() == [1.0, 2.0]
    with pytest.raises(ShapeError, match="list of 2 for 1 process"):
        nn.scatter([x, x])


def test_collectives_need_a_group():
    from wengert.torch.distributed import nn

    with pytest.raises(GraphError, match="no process group"):
        nn.all_reduce(torch.ones(2))


def test_names_of_backends():
    assert dist.Backend("NCCL") == dist.Backend.NCCL == "nccl"
    assert dist.Backend.GLOO == "gloo"
    with pytest.raises(ValueError, match="of a int"):
        dist.Backend(3)


def test_paths_at_which_functions_are_defined():
    import wengert.torch.functional as F
    from wengert.torch._ops import ops

    assert F.einsum is torch.einsum
    assert torch.functional.norm is torch.norm
    assert all(getattr(F, name) is getattr(torch, name) for name in F.__all__)
    with pytest.raises(GraphError, match=r"torch\.ops\.quantized\.embedding_bag_byte_prepack\(\)"):
        ops.quantized.embedding_bag_byte_prepack(torch.ones(2, 2))


def test_replicas_on_one_device():
    from wengert.torch.nn.parallel.parallel_apply import parallel_apply
    from wengert.torch.nn.parallel.replicate import replicate
    from wengert.torch.nn.parallel.scatter_gather import gather, scatter

    model, x = torch.nn.Linear(2, 1), torch.ones(3, 2)
    replicas = replicate(model, [0])
    out = gather(parallel_apply(replicas, scatter(x, [0])), 0)
    assert out.tolist() == model(x).tolist()
    assert type(out) is torch.Tensor
    joined = gather([{"a": (torch.ones(1), torch.tensor(2.0), None)}] * 2, 0)["a"]
    assert [None if t is None else t.tolist() for t in joined] == [[1.0, 1.0], [2.0, 2.0], None]
    for call in (lambda: replicate(model, [0, 1]), lambda: scatter(x, [0, 1])):
        with pytest.raises(ShapeError, match="over 2 devices"):
            call()


def test_optimisers_over_processes_are_refused():
    from wengert.torch.distributed.optim import ZeroRedundancyOptimizer

    with pytest.raises(GraphError, match="in a group of one process"):
        ZeroRedundancyOptimizer([torch.ones(1)], torch.optim.SGD, lr=0.1)


def test_names_for_annotations():
    from wengert.torch.types import Device, Number, _size

    assert isinstance(2.0, Number)
    assert not isinstance("2", Number)
    assert isinstance(torch.device("cpu"), Device)
    assert isinstance(torch.ones(2).size(), _size.__args__[0])


@pytest.mark.parametrize("variable", ["WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"])
def test_no_group_of_one_is_made_in_a_job_of_several(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    """Each process would train a model of its own."""
    monkeypatch.setenv(variable, "2")
    for arguments in ({}, {"world_size": 1, "rank": 0}) if variable != "WORLD_SIZE" else ({},):
        with pytest.raises(GraphError, match=r"init_process_group\(\) of 2 processes(.|\n)*wg\.distribute"):
            dist.init_process_group("gloo", **arguments)
