"""Settings of PyTorch's compiler: they are kept, and change nothing."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

cache_size_limit = recompile_limit = 8
accumulated_recompile_limit = accumulated_cache_size_limit = 256
capture_scalar_outputs = capture_dynamic_output_shape_ops = False
suppress_errors = verbose = specialize_int = optimize_ddp = compiled_autograd = False
automatic_dynamic_shapes = assume_static_by_default = inline_inbuilt_nn_modules = True
allow_unspec_int_on_nn_module = force_parameter_static_shapes = error_on_recompile = False
skip_fwd_side_effects_in_bwd_under_checkpoint = False


@contextlib.contextmanager
def patch(changes: Mapping[str, Any] | str | None = None, value: Any = None, **more: Any) -> Iterator[None]:
    """Have other settings in a block, or in a function that this decorates."""
    given = {**({changes: value} if isinstance(changes, str) else changes or {}), **more}
    module: ModuleType = sys.modules[__name__]
    before = {name: getattr(module, name, None) for name in given}
    module.__dict__.update(given)
    try:
        yield
    finally:
        module.__dict__.update(before)
