"""Record what stands in PyTorch's modules, for the paths that libraries import from: needs PyTorch.

`python scripts/pytorch_paths.py` writes `src/wengert/torch/absent/names.json`: for each module the names that are
PyTorch's own, with a mark before those that are not classes or functions of that module:

- `^name` is the same object as `name` in a package above,
- `!name` is an exception.
"""

from __future__ import annotations

import collections.abc
import importlib
import inspect
import json
import types
import typing
import warnings
from pathlib import Path
from typing import Any

import typing_extensions

FILE = Path(__file__).parent.parent / "src/wengert/torch/absent/names.json"
# Below `torch`; the packages above each are recorded as well.
PATHS = [
    "__config__",
    "_C",
    "_custom_ops",
    "_dynamo",
    "_dynamo.config",
    "_dynamo.eval_frame",
    "_dynamo.exc",
    "_dynamo.utils",
    "_dynamo._trace_wrapped_higher_order_op",
    "_higher_order_ops.associative_scan",
    "_higher_order_ops.flex_attention",
    "_inductor.config",
    "_inductor.cpu_vec_isa",
    "_inductor.exc",
    "_inductor.runtime.cache_dir_utils",
    "_inductor.utils",
    "_jit_internal",
    "_library",
    "_library.custom_ops",
    "_prims_common",
    "_subclasses.fake_tensor",
    "_tensor",
    "_tensor_str",
    "_utils",
    "_utils_internal",
    "_vmap_internals",
    "_ops",
    "_logging",
    "accelerator",
    "amp.autocast_mode",
    "amp.grad_scaler",
    "ao.nn.quantized",
    "ao.nn.intrinsic",
    "ao.quantization",
    "ao.quantization.fuse_modules",
    "ao.quantization.fx._decomposed",
    "ao.quantization.quantize_fx",
    "autograd.anomaly_mode",
    "autograd.forward_ad",
    "autograd.function",
    "autograd.functional",
    "autograd.grad_mode",
    "autograd.gradcheck",
    "autograd.graph",
    "autograd.profiler",
    "autograd.profiler_legacy",
    "autograd.profiler_util",
    "autograd.variable",
    "backends.cpu",
    "backends.cuda",
    "backends.cudnn",
    "backends.mha",
    "backends.mkl",
    "backends.mkldnn",
    "backends.mps",
    "backends.opt_einsum",
    "backends.quantized",
    "backends.xnnpack",
    "compiler",
    "cpu",
    "cpu.amp",
    "cuda",
    "cuda.amp",
    "cuda.amp.autocast_mode",
    "cuda.amp.grad_scaler",
    "cuda.comm",
    "cuda.graphs",
    "cuda.memory",
    "cuda.nccl",
    "cuda.nvtx",
    "cuda.profiler",
    "cuda.random",
    "cuda.sparse",
    "cuda.streams",
    "distributed",
    "distributed._composable.fsdp",
    "distributed._composable.replicate",
    "distributed._functional_collectives",
    "distributed._shard.sharded_tensor",
    "distributed._tensor",
    "distributed._tensor.experimental",
    "distributed.algorithms._checkpoint.checkpoint_wrapper",
    "distributed.algorithms.ddp_comm_hooks.default_hooks",
    "distributed.algorithms.ddp_comm_hooks.post_localSGD_hook",
    "distributed.algorithms.ddp_comm_hooks.powerSGD_hook",
    "distributed.algorithms.join",
    "distributed.algorithms.model_averaging.averagers",
    "distributed.checkpoint",
    "distributed.checkpoint._consolidate_hf_safetensors",
    "distributed.checkpoint.default_planner",
    "distributed.checkpoint.filesystem",
    "distributed.checkpoint.format_utils",
    "distributed.checkpoint.hf_storage",
    "distributed.checkpoint.metadata",
    "distributed.checkpoint.optimizer",
    "distributed.checkpoint.planner",
    "distributed.checkpoint.planner_helpers",
    "distributed.checkpoint.state_dict",
    "distributed.checkpoint.state_dict_loader",
    "distributed.checkpoint.state_dict_saver",
    "distributed.checkpoint.stateful",
    "distributed.checkpoint.utils",
    "distributed.constants",
    "distributed.device_mesh",
    "distributed.distributed_c10d",
    "distributed.elastic.agent.server.api",
    "distributed.elastic.multiprocessing.errors",
    "distributed.elastic.utils.logging",
    "distributed.fsdp",
    "distributed.fsdp._fully_shard",
    "distributed.fsdp.api",
    "distributed.fsdp.fully_sharded_data_parallel",
    "distributed.fsdp._common_utils",
    "distributed.fsdp._traversal_utils",
    "distributed.fsdp.sharded_grad_scaler",
    "distributed.fsdp.wrap",
    "distributed.launch",
    "distributed.launcher.api",
    "distributed.nn",
    "distributed.nn.functional",
    "distributed.optim",
    "distributed.pipelining",
    "distributed.rendezvous",
    "distributed.rpc",
    "distributed.run",
    "distributed.tensor",
    "distributed.tensor._utils",
    "distributed.tensor.experimental",
    "distributed.tensor.experimental._attention",
    "distributed.tensor.parallel",
    "distributed.tensor.placement_types",
    "distributed.utils",
    "distributions",
    "distributions.constraint_registry",
    "distributions.constraints",
    "distributions.distribution",
    "distributions.kl",
    "distributions.transforms",
    "distributions.utils",
    "export",
    "export._trace",
    "export._unlift",
    "export.decomp_utils",
    "export.dynamic_shapes",
    "export.exported_program",
    "fft",
    "func",
    "functional",
    "futures",
    "fx",
    "fx._pytree",
    "fx._symbolic_trace",
    "fx.experimental.proxy_tensor",
    "fx.experimental.symbolic_shapes",
    "fx.graph",
    "fx.graph_module",
    "fx.immutable_collections",
    "fx.interpreter",
    "fx.node",
    "fx.operator_schemas",
    "fx.passes.infra.pass_base",
    "fx.passes.shape_prop",
    "fx.proxy",
    "fx.traceback",
    "hub",
    "jit",
    "jit._recursive",
    "jit._script",
    "jit._trace",
    "jit.annotations",
    "jit.frontend",
    "library",
    "linalg",
    "masked",
    "mps",
    "mtia",
    "multiprocessing",
    "multiprocessing.reductions",
    "multiprocessing.spawn",
    "nested",
    "nn",
    "nn.attention",
    "nn.attention.bias",
    "nn.attention.flex_attention",
    "nn.common_types",
    "nn.functional",
    "nn.grad",
    "nn.init",
    "nn.intrinsic",
    "nn.modules",
    "nn.modules.module",
    "nn.modules.utils",
    "nn.parallel",
    "nn.parallel.comm",
    "nn.parallel.data_parallel",
    "nn.parallel.distributed",
    "nn.parallel.parallel_apply",
    "nn.parallel.replicate",
    "nn.parallel.scatter_gather",
    "nn.parameter",
    "nn.quantized",
    "nn.quantized.dynamic",
    "nn.utils",
    "nn.utils.clip_grad",
    "nn.utils.fusion",
    "nn.utils.init",
    "nn.utils.memory_format",
    "nn.utils.parametrizations",
    "nn.utils.parametrize",
    "nn.utils.prune",
    "nn.utils.rnn",
    "nn.utils.spectral_norm",
    "nn.utils.stateless",
    "nn.utils.weight_norm",
    "numa.binding",
    "onnx",
    "onnx._internal.exporter._core",
    "onnx.operators",
    "onnx.symbolic_helper",
    "onnx.symbolic_opset9",
    "onnx.symbolic_opset11",
    "onnx.symbolic_opset12",
    "onnx.utils",
    "optim",
    "optim.lr_scheduler",
    "optim.optimizer",
    "optim.swa_utils",
    "overrides",
    "package",
    "profiler",
    "profiler.profiler",
    "quantization",
    "quasirandom",
    "random",
    "return_types",
    "serialization",
    "signal",
    "signal.windows",
    "sparse",
    "special",
    "storage",
    "testing",
    "torch_version",
    "types",
    "utils",
    "utils._contextlib",
    "utils._device",
    "utils._foreach_utils",
    "utils._mode_utils",
    "utils._python_dispatch",
    "utils._pytree",
    "utils._sympy.numbers",
    "utils._sympy.value_ranges",
    "utils._typing_utils",
    "utils.backend_registration",
    "utils.benchmark",
    "utils.bundled_inputs",
    "utils.checkpoint",
    "utils.collect_env",
    "utils.cpp_extension",
    "utils.data",
    "utils.data._utils",
    "utils.data._utils.collate",
    "utils.data._utils.fetch",
    "utils.data._utils.pin_memory",
    "utils.data._utils.worker",
    "utils.data.dataloader",
    "utils.data.datapipes",
    "utils.data.datapipes.iter",
    "utils.data.datapipes.iter.combinatorics",
    "utils.data.datapipes.datapipe",
    "utils.data.dataset",
    "utils.data.distributed",
    "utils.data.graph",
    "utils.data.graph_settings",
    "utils.data.sampler",
    "utils.deterministic",
    "utils.dlpack",
    "utils.flop_counter",
    "utils.hooks",
    "utils.mobile_optimizer",
    "utils.model_zoo",
    "utils.serialization",
    "utils.tensorboard",
    "utils.tensorboard.summary",
    "utils.tensorboard.writer",
    "utils.weak",
    "version",
    "xpu",
]


def modules() -> list[str]:
    """Return the dotted paths below `torch`, those above each before it; "" is `torch`."""
    found = {""}
    for path in PATHS:
        parts = path.split(".")
        found |= {".".join(parts[: i + 1]) for i in range(len(parts))}
    return sorted(found)


def is_own(name: str, value: Any) -> bool:
    """Return whether a value is PyTorch's own, rather than what a module of it imports."""
    if isinstance(value, types.ModuleType):
        return value.__name__.split(".")[0] == "torch"
    if not isinstance(value, type) and not inspect.isroutine(value):  # a constant, or a name for a type
        return all(getattr(there, name, None) is not value for there in (typing, typing_extensions, collections.abc))
    home = getattr(value, "__module__", None) or getattr(type(value), "__module__", "")
    return home.split(".")[0] in ("torch", "builtins", "torchgen", "functorch")


def marked(path: str, name: str, value: Any, above: list[tuple[str, Any]]) -> str:
    """Return a name with the mark that says what it is."""
    for _, space in above:
        if getattr(space, name, None) is value and value is not None:
            return f"^{name}"
    if isinstance(value, type) and issubclass(value, BaseException):
        return f"!{name}"
    return name


def main() -> None:
    """Write the file."""
    import torch

    warnings.simplefilter("ignore")
    spaces: dict[str, Any] = {}
    for path in modules():
        try:
            spaces[path] = importlib.import_module(f"torch.{path}" if path else "torch")
        except ImportError as e:
            print(f"left out: torch.{path}: {e}")
    record = {}
    for path, space in spaces.items():
        parts = path.split(".") if path else []
        above = [(p, spaces[p]) for p in (".".join(parts[:i]) for i in range(len(parts) - 1, -1, -1)) if p in spaces]
        names = []
        for name in sorted(set(dir(space))):
            if name.startswith("__") and name != "__config__":
                continue
            if name in ("annotations", "TYPE_CHECKING"):
                continue
            value = getattr(space, name)
            if isinstance(value, types.ModuleType) and f"{path}.{name}".strip(".") not in spaces and path:
                continue
            if is_own(name, value):
                names.append(marked(path, name, value, above))
        record[path] = " ".join(names)
    record["Tensor"] = " ".join(n for n in sorted(dir(torch.Tensor)) if not n.startswith("__"))
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(record, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
