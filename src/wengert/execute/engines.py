"""Engines: what runs compiled programs, how one is named, and how `engine="auto"` decides."""

from __future__ import annotations

from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Any, NamedTuple

from ..core.elsewhere import names_device
from ..core.errors import GraphError, fail
from ..core.graph.graph import Graph
from ..core.mode import Mode, ModeBlock
from .xla.api import is_installed, jax

NATIVE, XLA, AUTO = "native", "xla", "auto"
# Programs of fewer elements in all results of their nodes are done before an accelerator has begun.
_SMALL = 1 << 16


class Engine(NamedTuple):
    """The engine of a program, and why it is that one.

    >>> import wengert as wg
    >>> f = wg.jit(lambda x: x * 2.0)
    >>> _ = f(wg.ones(3))
    >>> f.engine.name
    'native'
    """

    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


DEFAULT = Engine(NATIVE, "it is the default")


def named(name: Any) -> str:
    """Return the name of an engine, checked. Raises GraphError."""
    for known in (NATIVE, XLA, AUTO):
        if name == known:
            return known  # one object for each name: calls compare by identity
    remedy = 'There are "native" (the default), "xla" and "auto".'
    if names_device(name):
        remedy += f" A device is no engine: x.to({name!r}) places a tensor, and what is given it runs there."
    fail(GraphError, f"engine={name!r}", remedy)


class engine(ModeBlock):
    """A context manager and decorator under which compiled functions that name no engine run on this one.

    Parameters
    ----------
    name: "native", the library's own code for this processor; "xla", through JAX, on the device that JAX prefers (a GPU
        or TPU where there is one); "auto", one of the two for each program (`f.engine` says which, and why).

    A function is compiled anew for an engine; parameters, optimisers and generators are the same objects on
    all of them. A program inside another runs on the engine of the outermost. Each thread has its own setting.

    Raises GraphError for another name, and where "xla" is called for without jax.

    >>> import wengert as wg
    >>> f = wg.jit(lambda x: x * 2.0)
    >>> with wg.engine("native"):
    ...     f(wg.ones(2))
    tensor([2., 2.])
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = named(name)

    def mode(self, outer: Mode) -> Mode:
        """Return the mode inside the block."""
        return outer.with_engine(self._name)


def of_placed(place: str, what: str, name: str, needs_native: str) -> Engine:
    """Return the engine of a program that is given `what` on a device: XLA, there.

    Raises GraphError where the call has asked for native code, or for an option that only native code has.
    """
    if name == NATIVE or needs_native:
        asked = needs_native or f"engine={NATIVE!r}"
        fail(
            GraphError,
            f"{asked} for {what}, which is on {place}",
            "Native code is this processor's: leave it out, or bring what the function is given to the processor.",
        )
    return Engine(XLA, f"{what} is on {place}")


def chosen(graph: Graph, name: str, needs_native: str, ranks: int = 1) -> Engine:
    """Return the engine of a program by what was asked for; `needs_native` names an option that only native code has.

    A program of several ranks needs a device for each. Raises GraphError for XLA with such an option.
    """
    if name == NATIVE:
        return DEFAULT
    if name == XLA:
        if needs_native:
            fail(GraphError, f'{needs_native} with engine="xla"', "That is an option of native code: leave it out.")
        return Engine(XLA, "it was asked for")
    if needs_native:
        return Engine(NATIVE, f"{needs_native} is an option of native code")
    if not is_installed():
        return Engine(NATIVE, "jax, which has the accelerators, is not installed: pip install 'wengert[xla]'")
    if not _may_have_accelerators():
        return Engine(NATIVE, "jax has no plugin for an accelerator (as of jax[cuda13]), only the processor")
    platform = jax.default_backend().upper()
    if platform == "CPU":
        return Engine(NATIVE, "jax finds no accelerator, only the processor, whose engine is native code")
    if len(jax.devices()) < ranks:
        count = len(jax.devices())
        return Engine(NATIVE, f"jax has {count} {platform} device{'s' * (count != 1)} for {ranks} ranks")
    elements = sum(s.size for n in graph.nodes for s in (n.spec if isinstance(n.spec, tuple) else (n.spec,)))
    if elements < _SMALL:
        return Engine(NATIVE, f"its {elements:,} numbers are computed here before a {platform} has begun")
    return Engine(XLA, f"jax has a {platform}, and the program computes {elements:,} numbers")


def _may_have_accelerators() -> bool:
    """Return whether JAX could find another device than the processor; without importing it."""
    return find_spec("libtpu") is not None or bool(entry_points(group="jax_plugins")) or _has_plugins()


def _has_plugins() -> bool:
    found = find_spec("jax_plugins")
    return found is not None and bool(found.submodule_search_locations)
