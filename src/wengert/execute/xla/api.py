"""JAX as this package uses it: its public names, imported when the first of them is used.

No other module imports JAX, so that what the engine relies on can be read here and in the names that are used of
`jax`, `lax`, `jnp`, `jsp` and `jfft`.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ...core.errors import GraphError, fail

# The oldest release that has all the names used here: `jax.enable_x64` came with it.
OLDEST_JAX = "0.8"


class _Module:
    """A module of JAX's, imported when something of it is first asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(_imported(self._name), attribute)
        setattr(self, attribute, found)
        return found


@cache
def _imported(name: str) -> Any:
    try:
        import_module("jax").enable_x64  # noqa: B018
        return import_module(name)
    except (ImportError, AttributeError) as error:
        fail(
            GraphError,
            f'engine="xla" needs jax {OLDEST_JAX} or newer: {type(error).__name__}: {error}',
            "Install it: pip install 'wengert[xla]'. wg.jit's own engine needs neither.",
        )


def is_installed() -> bool:
    """Return whether there is a JAX to import."""
    return find_spec("jax") is not None


jax: Any = _Module("jax")
lax: Any = _Module("jax.lax")
jnp: Any = _Module("jax.numpy")
jsp: Any = _Module("jax.scipy.special")
jfft: Any = _Module("jax.numpy.fft")
experimental: Any = _Module("jax.experimental")
