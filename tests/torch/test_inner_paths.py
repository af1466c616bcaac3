"""Paths and names inside PyTorch that public programs import from."""

import importlib

import pytest

import wengert.torch as torch
from wengert.core.errors import GraphError


@pytest.mark.parametrize(
    "path",
    [
        "_utils._flatten_dense_tensors",
        "nn.attention.SDPBackend",
        "nn.modules.linear.NonDynamicallyQuantizableLinear",
        "nn.modules.pixelshuffle.PixelShuffle",
        "nn.modules.transformer._get_activation_fn",
        "nn.modules.utils._single",
        "nn.parallel.DistributedDataParallel",
        "nn.parallel.data_parallel.DataParallel",
        "profiler.ProfilerActivity",
        "profiler.record_function",
        "utils._pytree.tree_map",
        "utils.cpp_extension.load",
        "utils.model_zoo.load_url",
    ],
)
def test_a_program_can_import_it(path):
    module, _, name = path.rpartition(".")
    assert getattr(importlib.import_module(f"wengert.torch.{module}"), name) is not None


def test_trees():
    tree = importlib.import_module("wengert.torch.utils._pytree")
    leaves, spec = tree.tree_flatten({"b": (1, None), "a": [torch.ones(1)]})
    assert leaves[:2] == [1, None]
    assert len(leaves) == 3
    assert tree.tree_unflatten(leaves, spec)["b"] == (1, None)
    assert tree.tree_map(lambda x, y: x + y, [1, (2,)], [10, (20,)]) == [11, (22,)]


def test_tensors_joined_and_taken_apart():
    inner = importlib.import_module("wengert.torch._utils")
    parts = [torch.ones(2, 3, requires_grad=True), torch.tensor(4.0)]
    flat = inner._flatten_dense_tensors(parts)
    assert flat.shape == (7,)
    assert [tuple(t.shape) for t in inner._unflatten_dense_tensors(flat, parts)] == [(2, 3), ()]
    flat.sum().backward()
    assert parts[0].grad.sum().item() == 6.0


def test_choices_of_kernels_change_nothing():
    q = torch.ones(1, 2, 3, 4)
    with torch.nn.attention.sdpa_kernel([torch.nn.attention.SDPBackend.MATH]):
        found = torch.nn.functional.scaled_dot_product_attention(q, q, q)
    assert torch.equal(found, torch.nn.functional.scaled_dot_product_attention(q, q, q))


def test_assertions_and_detached_values():
    torch._assert(True, "never")
    with pytest.raises(AssertionError, match="why"):
        torch._assert(torch.tensor(False), "why")
    x = torch.ones(2, requires_grad=True)
    assert not torch.detach(x * 2).requires_grad


def test_nothing_is_built_or_profiled():
    with pytest.raises(GraphError, match="not built"):
        importlib.import_module("wengert.torch.utils.cpp_extension").load(name="kernel", sources=[])
    with pytest.raises(GraphError, match="profiler is not there"):
        importlib.import_module("wengert.torch.profiler").profile(activities=[])


def test_the_inner_module() -> None:
    inner = torch._C
    assert inner.TensorBase is torch.Tensor
    inner._debug_only_display_vmap_fallback_warnings(True)
    assert inner._debug_only_are_vmap_fallback_warnings_enabled()
    inner._debug_only_display_vmap_fallback_warnings(False)
    assert inner._get_privateuse1_backend_name() == "privateuseone"
    assert inner._get_tracing_state() is None
    assert inner._log_api_usage_once("a program") is None
    assert inner._autograd._saved_tensors_hooks_is_enabled()
    x = torch.ones(1)
    reference = inner._WeakTensorRef(x)
    assert reference() is x
    del x
    assert reference.expired()
    assert "device" in dir(inner)


def test_the_backward_pass_that_runs() -> None:
    inner, seen = torch._C, []
    a, b = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
    y, z = a * 2, b * 3

    def look(g: object) -> None:
        here = inner._current_graph_task_id() != -1
        seen.append((here, *(inner._will_engine_execute_node(t.grad_fn) for t in (y, z))))

    a.register_hook(look)
    (y + z).backward(inputs=[a])
    assert seen == [(True, True, False)]
    assert inner._current_graph_task_id() == -1
