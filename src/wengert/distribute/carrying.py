"""Values on their way to the ranks of a job and back: pickles, with functions and classes that modules do not name.

Those are taken along by cloudpickle, as they are: code keeps its file, so that errors on ranks name the user's lines.
"""

from __future__ import annotations

import io
import pickle
import sys
import types
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from ..core import tree
from ..core.errors import GraphError, fail
from ..execute.jit.compiled import is_found_by_name
from ..execute.jit.jit import Jit
from .program import Program

# What a rank calls the script whose functions it has imported.
IMPORTED = "__mp_main__"


class Uncarried(Exception):
    """The reason why a value cannot be carried, and what to do about it; "" where that depends on what it is."""

    def __init__(self, why: str, mend: str = "") -> None:
        super().__init__(why)
        self.why, self.mend = why, mend


def with_all(value: Any) -> bytes:
    """Return a value as bytes, with all that it is made of and that has no name in a module. Raises Uncarried."""
    try:
        pickler = _pickler()
    except ImportError:
        raise Uncarried("it has no name in a module", "pip install cloudpickle, which takes it along") from None
    out = io.BytesIO()
    try:
        pickler(out).dump(value)
    except Exception as e:
        raise Uncarried(_text(e)) from None
    return out.getvalue()


def carried(value: Any) -> bytes:
    """Return a value as bytes: by the names that modules have for what is in it, else with it. Raises Uncarried."""
    try:
        return pickle.dumps(value)
    except Exception as e:
        try:
            return with_all(value)
        except Uncarried as other:
            raise Uncarried(_text(e), other.mend) from None


def read(data: bytes) -> Any:
    """Return the value that bytes are of. Raises whatever its parts raise."""
    return _Reader(io.BytesIO(data)).load()


def result_of(fn: Callable[..., Any], result: Any, rank: int) -> bytes:
    """Return a rank's result as bytes. Raises GraphError for one that cannot be carried."""
    try:
        return carried(result)
    except Uncarried as e:
        code = getattr(fn, "__code__", None)
        fail(
            GraphError,
            f"the result of {called(fn)} on rank {rank} is {_described(result)}, which cannot be sent back: {e.why}",
            e.mend + "."
            if e.mend
            else "Return what it holds: tensors, arrays, numbers, texts, containers of them, models and their state.",
            "" if code is None else f"{code.co_filename}:{code.co_firstlineno}",
        )


def called(fn: Callable[..., Any]) -> str:
    """Return a function's name in errors."""
    return str(getattr(fn, "__name__", fn))


def _described(value: Any) -> str:
    """Return the type of a value, and of what cannot be carried in it."""
    kind = kind_of(value)
    for leaf in tree.leaves(value):
        if leaf is not value:
            try:
                carried(leaf)
            except Uncarried:
                return f"{kind} with {kind_of(leaf)}"
    return kind


def kind_of(value: Any) -> str:
    """Return a value's name in errors, by its type."""
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in tuple('aeiou') else 'a'} {name}"


def _text(e: Exception) -> str:
    return f"{e}" or type(e).__name__


class _Reader(pickle.Unpickler):
    """Finds in the script what ranks have found there."""

    def find_class(self, module: str, name: str) -> Any:
        if module == IMPORTED and IMPORTED not in sys.modules:
            module = "__main__"
        return super().find_class(module, name)


@cache
def _pickler() -> Any:
    """Return the class that takes along what no module has a name for. Raises ImportError without cloudpickle."""
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        """Takes compiled functions and programs along, too, by what they were made of; and the files of code."""

        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, (Jit, Program)):
                name = getattr(obj, "__qualname__", "")
                if obj.__module__ == "__main__" or not is_found_by_name(obj, obj.__module__, name):
                    return obj.parts()
            if isinstance(obj, types.CodeType):
                make, args, *_ = self.dispatch_table[types.CodeType](obj)
                return _code, (obj.co_filename, make, args)
            return super().reducer_override(obj)

    return Pickler


def _code(file: str, make: Callable[..., types.CodeType], args: tuple[Any, ...]) -> types.CodeType:
    """Return a code object of a file, which cloudpickle leaves out."""
    return make(*args).replace(co_filename=file)


def script() -> str | None:
    """Return the script that runs here, None in a session."""
    found = getattr(sys.modules.get("__main__"), "__file__", None)
    return found if found is not None and Path(found).is_file() else None
