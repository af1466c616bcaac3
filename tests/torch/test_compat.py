"""The names around tensors of `wengert.torch`: dtypes, modes, random state, settings, what is compiled and refused."""

import copy
import warnings
from pathlib import Path

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch
import wengert.torch.backends.cudnn as cudnn
from torch_calls import recorded
from torch_comparing import check
from wengert.core.arrays import PRINTING

_DTYPES = "(torch.bool, torch.uint8, torch.int8, torch.short, torch.int, torch.long, torch.half, torch.float, torch.double, torch.cfloat, torch.cdouble)"  # noqa: E501
CALLS = [
    f"[torch.can_cast(v, w) for v in {_DTYPES} for w in {_DTYPES}]",
    f"[torch.zeros(1, dtype=torch.promote_types(v, w)).element_size() for v in {_DTYPES} for w in {_DTYPES}]",
    "[getattr(torch.finfo(v), w) for v in (torch.half, torch.float, torch.double, torch.cfloat) for w in ('eps', 'max', 'min', 'tiny', 'smallest_normal', 'bits', 'resolution', 'dtype')]",  # noqa: E501
    "[getattr(torch.finfo(torch.bfloat16), w) for w in ('eps', 'max', 'tiny', 'bits', 'resolution', 'dtype')]",
    "[getattr(torch.iinfo(v), w) for v in (torch.uint8, torch.int8, torch.int32, torch.long) for w in ('max', 'min', 'bits', 'dtype')]",  # noqa: E501
    "repr(torch.strided), repr(torch.channels_last), isinstance(torch.strided, torch.layout), torch.typename(torch.ones(2))",  # noqa: E501
    "isinstance(torch.preserve_format, torch.memory_format), torch.is_storage(3), torch.typename(3), torch.pi",
    "torch.cuda.is_available(), torch.cuda.device_count(), torch.cuda.memory_allocated(), torch.backends.mps.is_available()",  # noqa: E501
    "torch.cond(torch.tensor(True), lambda v: v + 1, lambda v: v - 1, (torch.ones(1),))",
    "torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.jit.is_scripting(), torch.is_autocast_enabled()",
    "torch.jit.script(torch.nn.Linear(2, 3))(torch.zeros(1, 2)).shape[1], torch.__version__ >= '2.2'",
]
RECORDED = recorded("compat")


@pytest.mark.parametrize("text", CALLS)
def test_values_are_pytorchs(text):
    check(text, RECORDED[text])


def test_the_state_of_random_numbers():
    generator = torch.manual_seed(5)
    assert generator.initial_seed() == torch.initial_seed() == 5
    state = torch.get_rng_state()
    first = torch.rand(3)
    torch.set_rng_state(state.cpu().byte())
    assert torch.equal(torch.rand(3), first)
    torch.set_rng_state(state)
    with torch.random.fork_rng():
        torch.rand(7)
    assert torch.equal(torch.rand(3), first)
    own = torch.Generator(device="cpu").manual_seed(5)
    kept = own.get_state()
    drawn = torch.rand(3, generator=own)
    assert torch.equal(torch.rand(3, generator=own.set_state(kept)), drawn)
    assert (own.initial_seed(), str(own.device)) == (5, "cpu")
    assert torch.Generator().initial_seed() == 67280421310721
    with pytest.raises(TypeError):
        torch.Generator("cuda")


def test_defaults():
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.zeros(1).dtype == torch.get_default_dtype() == torch.float64
        torch.set_default_tensor_type("torch.FloatTensor")
        assert torch.tensor(1.0).dtype == torch.float32
        torch.set_default_tensor_type(torch.DoubleTensor)
        assert torch.tensor(1.0).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    torch.set_default_device("cpu")
    assert str(torch.get_default_device()) == "cpu"
    with pytest.raises(TypeError):
        torch.set_default_device("cuda")


def test_how_tensors_are_shown():
    x = torch.tensor([1.23456, 1e-7])
    shown, before = str(x), dict(PRINTING)
    try:
        torch.set_printoptions(precision=2, sci_mode=True)
        assert str(x) == "tensor([1.23e+00, 1.00e-07])"
        torch.set_printoptions(sci_mode=False, profile="short")
        assert "e" not in str(x).partition("(")[2]
        torch.set_printoptions(threshold=2, edgeitems=1)
        assert "..." in str(torch.arange(9))
        torch.set_printoptions(profile="default")
        assert str(x) == shown
    finally:
        PRINTING.clear()
        PRINTING.update(before)


def test_contexts_are_decorators_with_and_without_a_call():
    x = torch.ones(1, requires_grad=True)

    def double(v):
        return v * 2

    for quiet in (torch.no_grad, torch.inference_mode):
        assert not quiet()(double)(x).requires_grad
        assert not quiet(double)(x).requires_grad
    with torch.no_grad():
        assert torch.enable_grad()(double)(x).requires_grad
        assert torch.enable_grad(double)(x).requires_grad
    with torch.inference_mode():
        assert torch.is_inference_mode_enabled()
        with torch.inference_mode(False):
            assert torch.is_grad_enabled()
            assert not torch.is_inference_mode_enabled()
    assert torch.is_grad_enabled()
    with torch.set_grad_enabled(mode=False):
        assert not torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    assert not torch.is_grad_enabled()
    torch.set_grad_enabled(True)


def test_settings_are_taken_and_kept():
    torch.use_deterministic_algorithms(True, warn_only=True)
    assert torch.are_deterministic_algorithms_enabled()
    assert torch.get_deterministic_debug_mode() == 1
    torch.set_deterministic_debug_mode("default")
    assert not torch.are_deterministic_algorithms_enabled()
    torch.set_float32_matmul_precision("high")
    assert torch.get_float32_matmul_precision() == "high"
    torch.set_float32_matmul_precision("highest")
    with pytest.raises(TypeError):
        torch.set_float32_matmul_precision("best")
    cudnn.benchmark = True
    assert torch.backends.cudnn.benchmark
    with torch.backends.cudnn.flags(enabled=False, benchmark=False):
        assert not cudnn.enabled
    assert cudnn.enabled
    assert cudnn.benchmark
    cudnn.benchmark = False
    torch.backends.cuda.matmul.allow_tf32 = False
    assert not torch.set_flush_denormal(True)
    torch.set_num_interop_threads(2)
    assert torch.get_num_interop_threads() == 2


def test_versions_compare_by_numbers():
    version = torch.version.TorchVersion("2.13.0+wengert")
    assert version > "2.9"
    assert version >= "2.13"
    assert version < (3,)
    assert version != "2.13.0"
    assert version == "2.13.0+wengert"
    assert version.split(".")[0] == "2"


def test_without_a_gpu_mixed_precision_is_off():
    x = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([x], lr=0.1)
    with pytest.warns(UserWarning, match="not available"):
        scaler = torch.cuda.amp.GradScaler()
    with pytest.warns(UserWarning, match="not available"), torch.autocast("cuda", dtype=torch.float16):
        loss = (x * x).sum()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    np.testing.assert_allclose(x.detach().numpy(), [0.8, 0.8], rtol=1e-6)
    assert (scaler.get_scale(), scaler.is_enabled(), scaler.state_dict()) == (1.0, False, {})
    with torch.autocast("cpu", enabled=False), torch.cuda.amp.autocast(enabled=False):
        pass
    assert torch.cuda.amp.custom_fwd(cast_inputs=torch.float32)(len) is len
    assert torch.amp.custom_bwd(len) is len


def test_tensors_are_on_no_other_device():
    x = torch.ones(1)
    for device in ("cuda", "ipu", "maia", "mps", "mtia", "vulkan", "xla", "xpu"):
        assert getattr(x, f"is_{device}") is False
    assert (x.is_cpu, x.is_sparse, x.is_sparse_csr) == (True, False, False)


def test_what_needs_a_gpu_is_refused():
    torch.cuda.manual_seed_all(0)
    torch.cuda.empty_cache()
    for refused in (torch.cuda.current_device, torch.cuda.Stream, torch.accelerator.current_device_index):
        with pytest.raises(RuntimeError, match="no GPU"):
            refused()
    assert torch.accelerator.current_accelerator() is None
    with torch.cuda.device(None):
        pass
    with pytest.raises(RuntimeError), torch.cuda.device(0):
        pass
    with pytest.raises(ValueError, match=r"jit\.save"):
        torch.jit.save(torch.nn.Linear(1, 1), "file")


def test_scripts_and_traces_are_the_function():
    @torch.jit.script
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    assert double(torch.ones(1)).item() == 2.0
    assert torch.jit.trace(lambda x: x + 1, (torch.ones(2),))(torch.ones(3)).tolist() == [2.0] * 3
    module = torch.nn.Linear(2, 2)
    assert torch.jit.script(module) is torch.jit.trace(module, torch.ones(1, 2)) is torch.jit.freeze(module) is module
    assert torch.jit.wait(torch.jit.fork(double, torch.ones(1))).item() == 2.0
    assert torch.jit.ignore(len) is torch.jit.ignore(drop=True)(len) is torch.jit.export(len) is len


def _network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.ReLU(), torch.nn.Linear(4, 1))


def test_a_compiled_module_is_a_module_and_trains_as_the_module_does():
    model = _network()
    plain = copy.deepcopy(model)
    compiled = torch.compile(model, mode="max-autotune", dynamic=True)
    assert isinstance(compiled, torch.nn.Module)
    assert next(iter(compiled.state_dict())) == "_orig_mod.0.weight"
    assert next(iter(compiled.parameters())) is model[0].weight
    x = torch.rand(6, 3)
    results = []
    for each in (plain, compiled):
        optimizer = torch.optim.SGD(each.parameters(), lr=0.1)
        losses = []
        for _ in range(6):
            optimizer.zero_grad()
            loss = each(x).pow(2).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        each.eval()
        results.append([*losses, *each(x).detach().numpy().ravel()])
    assert not model.training
    np.testing.assert_allclose(results[0], results[1], rtol=1e-4, atol=1e-6)
    assert compiled[0] is model[0]
    assert len(copy.deepcopy(compiled)) == 4
    assert torch.compile(model, disable=True) is model


def test_compiled_functions():
    @torch.compile(fullgraph=True)
    def branch(x):
        return x * 2 if x.sum() > 0 else x - 1

    for _ in range(3):
        assert branch(torch.ones(1)).item() == 2.0
        assert branch(-torch.ones(1)).item() == -2.0

    class Scaled:
        factor = 3

        @torch.compile
        def of(self, x):
            return x * self.factor

    assert Scaled().of(torch.ones(1)).item() == 3.0

    def needs_python(x):
        return x * x.sum().item()

    eager = torch.compile(needs_python)
    with pytest.warns(UserWarning, match="runs eagerly"):
        assert eager(torch.full((2,), 2.0)).tolist() == [8.0, 8.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert eager(torch.full((2,), 3.0)).tolist() == [18.0, 18.0]
    with pytest.raises(wg.TraceError, match="item"):
        torch.compile(needs_python, fullgraph=True)(torch.ones(2))
    assert torch.compile(torch.compiler.disable(needs_python)) is needs_python


def test_the_processor_is_one_device_and_hubs_have_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    torch.cpu.set_device(0)
    torch.cpu.synchronize()
    assert torch.cpu.is_available()
    assert torch.cpu.is_initialized()
    assert (torch.cpu.device_count(), torch.cpu.current_device()) == (1, "cpu")
    monkeypatch.setattr(torch.hub, "_directory", [])
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    assert torch.hub.get_dir() == str(tmp_path / "hub")
    torch.hub.set_dir(str(tmp_path / "other"))
    assert torch.hub.get_dir() == str(tmp_path / "other")
