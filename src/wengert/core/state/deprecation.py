"""Deprecation: names that still work, say what to write instead, and say when they will be gone.

What is deprecated warns with a DeprecationWarning at the caller's line, which Python shows for code that is run as a
script and pytest shows for all. `docs/versioning.md` says what is promised.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from ..errors import user_frame

F = TypeVar("F", bound=Callable[..., Any])


def warn_deprecated(what: str, *, since: str, removal: str, instead: str = "") -> None:
    """Warn that `what` is deprecated, at the innermost line outside Wengert.

    Parameters
    ----------
    what: what was used, as a user writes it: "wg.jacobian(mode='both')".
    since: the version that deprecated it.
    removal: the version that will not have it.
    instead: what to write in its place.

    >>> import warnings
    >>> from wengert.core.state.deprecation import warn_deprecated
    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     warn_deprecated("wg.old", since="0.3", removal="0.5", instead="wg.new")
    >>> print(seen[0].message)
    wg.old is deprecated since 0.3 and will be removed in 0.5; use wg.new instead
    """
    text = f"{what} is deprecated since {since} and will be removed in {removal}"
    if instead:
        text += f"; use {instead} instead"
    frame = user_frame(2)
    if frame is None:
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return
    at = frame.f_globals
    module, registry = at.get("__name__"), at.setdefault("__warningregistry__", {})
    warnings.warn_explicit(text, DeprecationWarning, frame.f_code.co_filename, frame.f_lineno, module, registry)


def deprecated(what: str, *, since: str, removal: str, instead: str = "") -> Callable[[F], F]:
    """Return a decorator that makes a function warn, as :func:`warn_deprecated` does, at every call.

    The function's documentation begins with the same statement.

    >>> from wengert.core.state.deprecation import deprecated
    >>> @deprecated("wg.old", since="0.3", removal="0.5", instead="wg.new")
    ... def old(x):
    ...     return x
    >>> old.__doc__
    'Deprecated since 0.3, to be removed in 0.5: use wg.new.'
    """

    def decorate(fn: F) -> F:
        @functools.wraps(fn)
        def warning(*args: Any, **kwargs: Any) -> Any:
            warn_deprecated(what, since=since, removal=removal, instead=instead)
            return fn(*args, **kwargs)

        head = f"Deprecated since {since}, to be removed in {removal}" + (f": use {instead}." if instead else ".")
        warning.__doc__ = f"{head}\n\n{fn.__doc__}" if fn.__doc__ else head
        return warning  # type: ignore[return-value]

    return decorate
