"""What users can name: complete, tidy, each thing once, and loaded no earlier than it is used."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from types import ModuleType

import pytest

import wengert as wg
from wengert.core.ops.declare import HOMES, PUBLIC

MODULES = [
    "wengert",
    *(f"wengert.{name}" for name in sorted(wg.__all__) if isinstance(getattr(wg, name), ModuleType)),
    *("wengert.nn.functional", "wengert.nn.init", "wengert.nn.utils", "wengert.optim.lr_scheduler"),
    *("wengert.torch.nn", "wengert.torch.nn.functional", "wengert.torch.nn.init", "wengert.torch.nn.utils"),
    *("wengert.torch.optim", "wengert.torch.optim.lr_scheduler", "wengert.torch.autograd"),
]


@pytest.mark.parametrize("name", MODULES)
def test_all_is_complete_and_dir_is_tidy(name: str) -> None:
    module = wg
    for part in name.split(".")[1:]:
        module = getattr(module, part)
    listed = module.__all__
    assert len(listed) == len(set(listed))
    assert sorted(listed) == dir(module)
    assert [n for n in listed if not hasattr(module, n)] == []
    foreign = [n for n in listed if isinstance(v := getattr(module, n), ModuleType) and "wengert" not in v.__name__]
    assert foreign == []
    defined = {n for n, v in vars(module).items() if inspect.isroutine(v) or inspect.isclass(v)}
    own = {n for n in defined if not n.startswith("_") and vars(module)[n].__module__ == module.__name__}
    assert own <= set(listed), "public definitions that __all__ leaves out"


def test_each_thing_has_one_name() -> None:
    names: dict[int, list[str]] = {}
    for name in wg.__all__:
        value = getattr(wg, name)
        if callable(value) or not isinstance(value, (str, float, type(None))):
            names.setdefault(id(value), []).append(name)
    assert [n for n in names.values() if len(n) > 1] == []


def test_functions_are_where_they_say() -> None:
    """Declared functions are in `wengert`, or in the submodule that is their home and not in `wengert`."""
    for name, function in PUBLIC.items():
        home = HOMES.get(name)
        assert (name in wg.__all__) == (home is None), name
        if home:
            module = importlib.import_module(f"wengert.{home}")
            # PyTorch's softplus has a threshold beside it; under `wengert.torch` names mean what PyTorch means.
            assert getattr(module, name) is function or name == "softplus" or home == "torch", name


def test_pytorchs_names_are_in_their_namespace_alone() -> None:
    for name in ("cat", "concatenate", "clamp", "mul", "topk", "cumsum", "float", "long", "erf", "conv2d", "permute"):
        assert name in dir(wg.torch)
        assert not hasattr(wg, name)
    for name in ("sin", "matmul", "float32", "no_grad", "manual_seed"):  # of `wengert` as they are
        assert getattr(wg.torch, name) is not None
    for name in ("vjp", "permute_dims", "GraphError", "explain"):
        assert name not in dir(wg.torch)
        assert not hasattr(wg.torch, name)
    with pytest.raises(AttributeError, match=r"wengert\.torch"):
        wg.torch.no_such_name
    with pytest.raises(AttributeError, match="sparse layouts are not supported"):
        wg.torch.sparse_csr_tensor


def test_a_name_that_stands_elsewhere_is_pointed_to() -> None:
    with pytest.raises(AttributeError, match=r"it is wengert\.special\.erf$"):
        wg.erf


def test_star_imports() -> None:
    code = "from wengert import *; from wengert.torch import *; tensor, cat, nn.functional.gelu, sparse.mm"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_submodules_load_when_used() -> None:
    code = f"""
import sys
import wengert
lazy = {sorted(wg._LAZY_MODULES)!r}
assert not [m for m in lazy if "wengert." + m in sys.modules]
dir(wengert)
assert not [m for m in lazy if "wengert." + m in sys.modules]
assert sys.excepthook is sys.__excepthook__
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
