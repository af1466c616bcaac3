"""The operating system: what is asked of it, by injection also of those that this is not."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from typing import Any

import pytest

from wengert.core import system
from wengert.execute.native.run import threads


@pytest.mark.parametrize(
    ("name", "processor", "kind", "has_helpers"),
    [
        ("linux", "x86_64", system.Linux, True),
        ("linux", "aarch64", system.Linux, True),
        ("linux", "riscv64", system.Linux, False),
        ("darwin", "arm64", system.MacOS, False),
        ("win32", "AMD64", system.Windows, False),
        ("freebsd14", "x86_64", system.System, False),
    ],
)
def test_the_system_is_chosen_by_its_names(name: str, processor: str, kind: type, has_helpers: bool) -> None:
    found = system.chosen(name, processor)
    assert type(found) is kind
    assert found.has_helpers == has_helpers
    assert found.processors()


class Kernel:
    """Windows' functions, as far as they are asked for."""

    def __init__(self, answer: int) -> None:
        self.answer, self.asked = answer, list[tuple[int | None, int, int]]()

    def VirtualProtect(self, address: Any, nbytes: Any, rights: Any, before: Any) -> int:
        self.asked.append((address.value, nbytes.value, rights.value))
        return self.answer


def test_rights_of_memory_on_windows() -> None:
    kernel = Kernel(1)
    windows = system.Windows(kernel)
    windows.protect(4096, 8192, system.NOTHING)
    windows.protect(4096, 8192, system.READ)
    assert kernel.asked == [(4096, 8192, 0x01), (4096, 8192, 0x02)]
    with pytest.raises(OSError, match="cannot be changed"):
        system.Windows(Kernel(0)).protect(4096, 4096, system.READ)
    windows.at_fork(*[pytest.fail] * 3)


def test_rights_of_memory_that_has_none() -> None:
    with pytest.raises(OSError, match="cannot be changed"):
        system.current.protect(1, 4096, system.READ)  # no page begins there
    pages = system.current.pages(8192)
    assert pages.ctypes.data % 4096 == 0
    assert not pages.any()
    system.current.protect(pages.ctypes.data, 8192, system.READ)
    assert pages[0] == 0


@pytest.mark.skipif(sys.platform != "linux", reason="threads that are not Python's are Linux's")
def test_a_thread_runs_a_native_function() -> None:
    seen: list[int] = []
    call = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(lambda argument: seen.append(argument or 0))
    address = ctypes.cast(call, ctypes.c_void_p).value
    assert address is not None
    thread = system.current.start_thread(address, 5)
    assert thread is not None
    system.current.join_thread(thread)
    assert seen == [5]


@pytest.mark.parametrize("name", ["MacOS", "Windows"])
def test_programs_run_by_one_thread_elsewhere(name: str) -> None:
    script = f"""if True:
        import numpy as np, wengert as wg
        from wengert.core import system
        from wengert.execute.native.run import threads
        system.current = system.{name}()
        assert threads.usable_cores() >= 1
        wg.set_num_threads(2)
        assert threads.team() is None
        f = wg.jit(lambda x: wg.tanh(x @ x).sum())
        for i in range(12):
            found = f(wg.ones((300, 300)))
        np.testing.assert_allclose(found, 90000, rtol=1e-6)
        print("well")
    """
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert found.stdout == "well\n", found.stderr


def test_helpers_are_asked_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system gives fewer threads than were wanted, those do."""
    pytest.importorskip("llvmlite")

    class Full(system.Linux):
        def start_thread(self, entry: int, argument: int) -> int | None:
            return None

    if not system.current.has_helpers:
        pytest.skip("there are no helpers here")
    monkeypatch.setattr(system, "current", Full("x86_64"))
    assert threads.Team(4).threads == 1
