"""PyTorch's names that nothing stands for here: a library imports them, and an error says why when it uses one.

An absent name is a class without instances. It can be imported, stand in an annotation, be asked for by `isinstance`,
be a base of a class; calling it raises GraphError with the reason. Exceptions are real ones that nothing raises. The
names of each of PyTorch's modules are recorded from PyTorch, in `names.json`; the reasons stand here.

>>> from wengert.torch.distributed.fsdp import FullyShardedDataParallel
>>> isinstance(1, FullyShardedDataParallel)
False
"""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.util
import json
import sys
from abc import ABCMeta
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from ...core.errors import GradientError, GraphError, fail
from .. import coverage

_PACKAGE = "wengert.torch"
_DEVICE = "there is no such device", "Tensors live on the processor. Ask is_available(), which is False."
_GPU = "there is no GPU", "Tensors live on the processor. Ask torch.cuda.is_available(), which is False."
_GRAPHS = (
    "PyTorch's graphs of Python calls are not there",
    "wengert.graph(f)(*args) records the graph of what a function or module computes, with shapes and derivatives.",
)
_PROCESSES = (
    "a model is not split over processes by PyTorch's classes",
    "Run one process, whose compiled functions use all cores, or train on several by wg.distribute.",
)
# The beginnings of dotted names below `torch`, and what whoever uses such a name is told. The longest that fits tells.
_REASONS: dict[str, tuple[str, str]] = {
    "": ("nothing stands for it here", "Write it with public functions of torch."),
    "_C": ("PyTorch's C++ is not there", "Write it with public functions of torch."),
    "_dynamo": (
        "PyTorch's compiler is not there",
        "torch.compile is wengert.jit: see its `trace`.",
    ),
    "_inductor": ("PyTorch's compiler is not there", "torch.compile is wengert.jit: see its `trace`."),
    "_jit_internal": ("TorchScript is left out", "torch.compile compiles Python as it stands."),
    "_subclasses": (
        "tensors without values are those of a trace",
        "wengert.graph(f)(*specs) has shapes alone.",
    ),
    "ao": ("quantised tensors are not supported", "Compute in torch.bfloat16 or torch.float16."),
    "backends": ("tensors live on the processor", "Nothing is to be chosen."),
    "cuda": _GPU,
    "distributed": _PROCESSES,
    "export": ("PyTorch's archives of graphs are not there", "wengert.interop.onnx.save writes a model as ONNX."),
    "futures": ("nothing is computed later", "Call the function."),
    "fx": _GRAPHS,
    "jit": ("TorchScript is left out", "torch.compile compiles Python as it stands."),
    "masked": ("masked tensors are not there", "Multiply by the mask, or write torch.where(mask, x, 0)."),
    "mps": _DEVICE,
    "mtia": _DEVICE,
    "nested": ("tensors have one size along an axis", "Pad them: nn.utils.rnn.pad_sequence(rows, batch_first=True)."),
    "onnx": (
        "models are not written by PyTorch's exporter",
        "Call wengert.interop.onnx.save(model, specs, path).",
    ),
    "overrides": (
        "functions of torch are not replaced for a block or for a class",
        "Call the function that you want.",
    ),
    "package": ("archives of code are not there", "Keep the code in Python, and states with torch.save."),
    "profiler": (
        "PyTorch's profiler is not there",
        "Compile the function, f = torch.compile(f): see f.trace.",
    ),
    "quantization": ("quantised tensors are not supported", "Compute in torch.bfloat16 or torch.float16."),
    "utils.flop_counter": (
        "calls are not counted",
        "wengert.explain counts what operations cost.",
    ),
    "utils.data.datapipes": ("pipes of data are not there", "Write a Dataset or an IterableDataset."),
    "xpu": _DEVICE,
}


# The modules whose functions programs look for with `hasattr`, to write what they need in another way where there is
# none: there the absent names are types alone.
_TYPES_ALONE = frozenset({"", "_C", "nn", "nn.functional", "cuda", "autograd", "optim"})


# What libraries call while they are imported, to tell parts of PyTorch that are not there of functions: decorators that
# take options, and calls. They are taken, and change nothing.
_TAKEN = {
    "onnx.symbolic_helper.parse_args": "options",
    "utils.data.functional_datapipe": "options",
    "onnx.register_custom_op_symbolic": "call",
    "onnx.unregister_custom_op_symbolic": "call",
    "fx._pytree.register_pytree_flatten_spec": "call",
}


@functools.cache
def _recorded() -> dict[str, dict[str, str]]:
    """Return PyTorch's names by the module below `torch`, each with its mark: "" for its own, "^", "!"."""
    found = json.loads((Path(__file__).parent / "names.json").read_text(encoding="utf-8"))
    return {
        path: {n.lstrip("^!"): n[:1] if n[0] in "^!" else "" for n in names.split()} for path, names in found.items()
    }


def recorded(path: str) -> dict[str, str]:
    """Return the names of PyTorch's module at a path below `torch`, "" for `torch` itself; empty for no such module."""
    return _recorded().get(path, {})


def reason(path: str) -> tuple[str, str]:
    """Return what is missing at a dotted name below `torch`, and the advice."""
    above = path
    while above and above not in _REASONS:
        above = above.rpartition(".")[0]
    what, advice = _REASONS[above]
    return (None if above else coverage.reason(path)) or what, advice


class Absent(ABCMeta):
    """The type of a name that nothing stands for: a class without instances, whose attributes are such names."""

    path: str

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> Any:
        """Make the class, or a program's own class below one."""
        return super().__new__(mcs, name, bases, namespace)

    def __init__(cls, *args: Any, **options: Any) -> None:
        super().__init__(*args)

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise GraphError, for devices the RuntimeError that PyTorch raises: there is no such thing."""
        what, advice = reason(cls.path)
        fail(GradientError if what in (_DEVICE[0], _GPU[0]) else GraphError, f"torch.{cls.path}(): {what}", advice)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_") or "path" not in cls.__dict__:
            raise AttributeError(f"{cls.__name__!r} has no attribute {name!r}")
        return absent(f"{cls.path}.{name}")

    def __repr__(cls) -> str:
        return f"<torch.{cls.path}: {reason(cls.path)[0]}>" if "path" in cls.__dict__ else super().__repr__()


def _itself(cls: Any, item: Any) -> Any:
    return cls


@functools.cache
def absent(path: str) -> Any:
    """Return the class that stands for an absent name below `torch`, always the same one."""
    home, _, name = path.rpartition(".")
    own = {"path": path, "__module__": f"torch.{home}".rstrip("."), "__class_getitem__": classmethod(_itself)}
    return Absent(name, (), {**own, "__doc__": f"Absent: {reason(path)[0]}."})


@functools.cache
def _error(path: str) -> type[Exception]:
    home, _, name = path.rpartition(".")
    own = {"__module__": f"torch.{home}".rstrip("."), "__doc__": "An error of PyTorch's that nothing raises here."}
    return type(name, (RuntimeError,), own)


@functools.cache
def _taken(path: str, how: str) -> Callable[..., Any]:
    def take(*args: Any, **kwargs: Any) -> Any:
        return (lambda fn: fn) if how == "options" else None

    take.__name__ = take.__qualname__ = path.rpartition(".")[2]
    take.__doc__ = f"Take what tells of functions, and change nothing: {reason(path)[0]}."
    return take


def found(path: str, name: str) -> Any:
    """Return what stands for PyTorch's name in its module at `path` where that module here does not define it.

    It is a module below, the same name of a package above where PyTorch's is the same object, an exception, or an
    absent name. Raises AttributeError for what PyTorch's module has not.
    """
    inner = f"{path}.{name}".lstrip(".")
    mark = recorded(path).get(name)
    if inner in _recorded():
        return importlib.import_module(f"{_PACKAGE}.{inner}")
    if mark is None or (path in _TYPES_ALONE and not name.lstrip("_")[:1].isupper()):
        why = "PyTorch has no such name there" if mark is None else reason(inner)[0]
        raise AttributeError(f"module '{_PACKAGE}.{path}' has no attribute {name!r}: {why}".replace(".'", "'"))
    if mark == "^":
        above = path
        while above:
            above = above.rpartition(".")[0]
            if name in recorded(above):
                return getattr(importlib.import_module(f"{_PACKAGE}.{above}".rstrip(".")), name)
    if inner in _TAKEN:
        return _taken(inner, _TAKEN[inner])
    return _error(inner) if mark == "!" else absent(inner)


def names_of(module: str) -> Callable[[str], Any]:
    """Return a module's `__getattr__`, for the names of PyTorch's that it does not define."""
    return functools.partial(found, module.removeprefix(_PACKAGE).lstrip("."))


class Paths(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """A finder of the modules of PyTorch's that are no file here: what they have is found by :func:`found`."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        """Return a spec for a module that is recorded; None for any other."""
        below = fullname.removeprefix(f"{_PACKAGE}.")
        if below == fullname or not recorded(below):
            return None
        return importlib.util.spec_from_loader(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return None: an ordinary module is made."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Have the module find its names."""
        name = module.__name__
        module.__dict__.update(__getattr__=names_of(name), __doc__=f"What PyTorch has under its path {name!r}.")


def install() -> None:
    """Have the modules found, after those that are files."""
    if not any(isinstance(finder, Paths) for finder in sys.meta_path):
        sys.meta_path.append(Paths())


__all__ = ["Absent", "absent", "found", "install", "names_of", "reason", "recorded"]
