"""Record what PyTorch gives for its own samples of functions and modules of networks: needs PyTorch.

`python tests/torch/record_networks.py` writes the files of `GROUPS` to `tests/torch/data`.
"""

from __future__ import annotations

import re
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))
from torch_records import RANDOM, flat, scalar, write

GROUPS = {
    "losses": r"nn\.functional\.(.*loss|.*entropy.*|kl_div|cosine_similarity|pairwise_distance|pdist)",
    "activations": r"nn\.functional\.(r?relu6?|[a-z]*elu|hard.*|soft.*|silu|mish|glu|tanhshrink|threshold|logsigmoid)"
    r"|softmax|log_softmax",
    "norms": r"nn\.functional\.(.*_norm|normalize|linear|bilinear|.*dropout.*)",
    "padding": r"nn\.functional\.pad",
}
MODULES = r"^(?!.*(Conv|Pool|Transf|Attention|Embedding|RNN|LSTM|GRU|Lazy))"
MOST_SAMPLES, MOST_NUMBERS = 12, 160


def plain(x: Any) -> Any:
    """Arguments as they are recorded: arrays for tensors. Raises TypeError for what cannot be."""
    if isinstance(x, torch.Tensor):
        return x.detach().numpy().copy()
    if isinstance(x, (tuple, list)):
        return [plain(v) for v in x] if isinstance(x, list) else tuple(plain(v) for v in x)
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    if isinstance(x, torch.dtype):
        return str(x).removeprefix("torch.")
    if x is None or isinstance(x, (bool, int, float, str)):
        return x
    raise TypeError(type(x))


def size(x: Any) -> int:
    """How many numbers arguments hold."""
    if isinstance(x, dict):
        return size(list(x.values()))
    return sum(t.size for t in flat(x) if isinstance(t, np.ndarray)) + sum(
        size(t) for t in flat(x) if isinstance(t, dict)
    )


def functions(pattern: str) -> dict[str, Any]:
    """The recorded samples of functions, in float64 and (values alone) in int64."""
    found: dict[str, Any] = {}
    for op in op_db:
        if not re.fullmatch(pattern, op.name):
            continue
        for dtype in (torch.float64, torch.int64):
            if dtype not in op.supported_dtypes("cpu"):
                continue
            rows = []
            torch.manual_seed(0)
            for sample in islice(op.sample_inputs("cpu", dtype, requires_grad=dtype is torch.float64), 60):
                try:
                    args, kwargs = plain((sample.input, *sample.args)), plain(sample.kwargs)
                    if size(args) > MOST_NUMBERS or len(rows) == (MOST_SAMPLES if dtype is torch.float64 else 2):
                        continue
                    out = op(sample.input, *sample.args, **sample.kwargs)
                except (TypeError, RuntimeError, ValueError, IndexError):
                    continue
                leaves = [t for t in held((sample.input, sample.args, list(sample.kwargs.values()))) if t.requires_grad]
                total = scalar(torch, out)
                slopes = None
                random = any(r in op.name for r in RANDOM)
                if total is not None and leaves and not random:
                    got = torch.autograd.grad(total, leaves, allow_unused=True)
                    slopes = [None if g is None else plain(g) for g in got]
                flags = [t.requires_grad for t in held((sample.input, sample.args, list(sample.kwargs.values())))]
                rows.append([args, kwargs, flags, plain(out), slopes])
            label = f"{op.name}{'.' + op.variant_test_name if op.variant_test_name else ''}"
            if rows:
                found[f"{label} {str(dtype).removeprefix('torch.')}"] = [op.name, rows]
    return found


def held(x: Any) -> list[Any]:
    """The tensors among arguments, in order."""
    if isinstance(x, (tuple, list)):
        return [t for v in x for t in held(v)]
    return [x] if isinstance(x, torch.Tensor) else []


def modules() -> dict[str, Any]:
    """The recorded samples of modules: constructor, state, a call in training and one in evaluation, gradients."""
    found: dict[str, Any] = {}
    for info in module_db:
        name = info.module_cls.__name__
        if not re.search(MODULES, name):
            continue
        rows = []
        for training in (True, False):
            torch.manual_seed(0)
            kept = 0
            for sample in info.module_inputs_func(
                info, device="cpu", dtype=torch.float64, requires_grad=True, training=training
            ):
                try:
                    made = [plain(sample.constructor_input.args), plain(sample.constructor_input.kwargs)]
                    called = [plain(sample.forward_input.args), plain(sample.forward_input.kwargs)]
                    if size(called) > 200 or kept == 3:
                        continue
                    module = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs)
                    module = module.to(torch.float64).train(training)
                    state = plain(dict(module.state_dict()))
                    out = module(*sample.forward_input.args, **sample.forward_input.kwargs)
                except (TypeError, RuntimeError, ValueError, AttributeError):
                    continue
                total = scalar(torch, out)
                if total is not None and list(module.parameters()):
                    total.backward()
                slopes = [None if p.grad is None else plain(p.grad) for p in module.parameters()]
                after = plain(dict(module.state_dict()))
                if all(np.array_equal(v, state[k]) for k, v in after.items()):
                    after = None
                rows.append([made, called, training, repr(module), state, plain(out), slopes, after])
                kept += 1
        if rows:
            found[name] = rows
    return found


def main() -> None:
    """Write all files."""
    for name, pattern in GROUPS.items():
        write(name, functions(pattern))
    write("modules_a", modules())


if __name__ == "__main__":
    main()
