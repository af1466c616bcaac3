"""What is deprecated says so at the line of whoever uses it."""

from __future__ import annotations

import inspect
import warnings
from types import FrameType
from typing import Any

import pytest

from wengert.core import errors
from wengert.core.state.deprecation import deprecated, warn_deprecated


@deprecated("wg.old", since="0.3", removal="0.5", instead="wg.new")
def old(x: int, *, y: int = 2) -> int:
    """Return the sum of both."""
    return x + y


SAYS = r"^wg\.old is deprecated since 0\.3 and will be removed in 0\.5; use wg\.new instead$"


def here() -> int:
    frame: FrameType | None = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def test_a_deprecated_function_works_and_warns_at_the_callers_line() -> None:
    with pytest.warns(DeprecationWarning, match=SAYS) as seen:
        found, line = old(1, y=4), here()
    assert found == 5
    assert (seen[0].filename, seen[0].lineno) == (__file__, line)


def test_its_documentation_says_so() -> None:
    assert old.__doc__ == "Deprecated since 0.3, to be removed in 0.5: use wg.new.\n\nReturn the sum of both."
    assert list(inspect.signature(old).parameters) == ["x", "y"]


def test_an_option_of_the_library_is_blamed_on_the_user() -> None:
    """The frames between are the library's: they are passed over."""
    inside = errors.PACKAGE_DIR + "somewhere.py"
    namespace: dict[str, Any] = {"warn_deprecated": warn_deprecated}
    source = "def option():\n    warn_deprecated('option=1', since='0.2', removal='0.4')\n"
    exec(compile(source, inside, "exec"), namespace)
    with pytest.warns(DeprecationWarning, match=r"^option=1 is deprecated since 0\.2 and will be removed") as seen:
        _, line = namespace["option"](), here()
    assert (seen[0].filename, seen[0].lineno) == (__file__, line)


def test_without_a_filter_for_it_only_once_a_line() -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        for _ in range(3):
            old(1)
    assert len(seen) == 1
