"""PyTorch's keyword names beside the Array API's: `x.sum(dim=0, keepdim=True)`.

An aliased function is called through a small generated front door with the same positional
parameters and one keyword-only parameter for each alias. Nothing is packed or unpacked on the
way, and `help()`, `inspect.signature` and doctests see the original.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from inspect import Parameter
from typing import Any, NoReturn, TypeVar

from ..core.errors import DTypeError, fail
from ..core.ops.op import compiled

F = TypeVar("F", bound=Callable[..., Any])

ABSENT: Any = type("Absent", (), {"__slots__": (), "__repr__": lambda self: "..."})()

_FRONT = """def make(fn, fn_name, absent, twice, missing, {defaults}):
    def front({params}):
        {resolve}
        return fn({arguments})
    return front
"""
_RESOLVE = """if {alias} is not absent:
            if {target} is not absent: twice(fn_name, {target!r}, {alias!r})
            {target} = {alias}"""
_FILL = """if {target} is absent: {fill}"""


def alias(**names: str) -> Callable[[F], F]:
    """Return a decorator: the keyword `names[k]` of the function may also be written `k`.

    Names whose target the function does not have are left out, so that one decorator serves a
    family. Giving a parameter under both names is a DTypeError.

    >>> from wengert.ops.aliases import alias
    >>> @alias(dim="axis")
    ... def last(x, axis=-1):
    ...     return axis
    >>> last(None, dim=2)
    2
    """

    def decorate(fn: F) -> F:
        parameters = inspect.signature(fn).parameters
        used = {new: old for new, old in names.items() if old in parameters and new not in parameters}
        return _front(fn, parameters, used) if used else fn

    return decorate


dim_alias = alias(dim="axis", keepdim="keepdims")


def _front(fn: F, parameters: Any, used: dict[str, str]) -> F:
    targets = set(used.values())
    positional: list[str] = []
    keyword: list[str] = []
    arguments: list[str] = []
    tail = ""
    star = "*"
    defaults: dict[str, Any] = {}
    required: list[str] = []
    optional = False
    for name, parameter in parameters.items():
        kind, default = parameter.kind, parameter.default
        if kind is Parameter.VAR_KEYWORD:
            tail = f"**{name}"
            continue
        if kind is Parameter.VAR_POSITIONAL:
            star = f"*{name}"
            arguments.append(star)
            continue
        by_name = kind is Parameter.KEYWORD_ONLY
        declared = name
        if default is not Parameter.empty:
            defaults[f"default_{name}"] = default
            declared = f"{name}={'absent' if name in targets else f'default_{name}'}"
        elif name in targets or (optional and not by_name):
            # It may come under its other name, or follows one that may.
            required.append(name)
            declared = f"{name}=absent"
        optional = optional or "=" in declared
        (keyword if by_name else positional).append(declared)
        if kind is Parameter.POSITIONAL_ONLY:
            positional[:] = [p for p in positional if p != "/"] + ["/"]
        arguments.append(f"{name}={name}" if by_name else name)
    keyword += [f"{new}=absent" for new in used]
    resolve = [_RESOLVE.format(alias=new, target=old) for new, old in used.items()]
    for name in dict.fromkeys([*used.values(), *required]):
        fill = f"missing(fn_name, {name!r})" if name in required else f"{name} = default_{name}"
        resolve.append(_FILL.format(target=name, fill=fill))
    source = _FRONT.format(
        defaults=", ".join(defaults),
        params=", ".join([*positional, star, *keyword, *filter(None, [tail])]),
        resolve="\n        ".join(resolve),
        arguments=", ".join([*arguments, *filter(None, [tail])]),
    )
    namespace: dict[str, Any] = {}
    # In the function's own globals, so that tools that look there (doctest) know it as the module's.
    exec(compiled(source), fn.__globals__, namespace)
    front: F = namespace["make"](fn, fn.__name__, ABSENT, _twice, _missing, **defaults)
    functools.update_wrapper(front, fn)
    return front


def _twice(function: str, target: str, alias: str) -> NoReturn:
    fail(DTypeError, f"{function}: {target}= and {alias}= are given, which are one parameter", f"Give {target}= only.")


def _missing(function: str, parameter: str) -> NoReturn:
    fail(DTypeError, f"{function}: the argument {parameter!r} is missing")
