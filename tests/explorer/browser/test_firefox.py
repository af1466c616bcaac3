"""The same pages in Firefox: they begin, their parts come, the keys step, the playground trains, nothing complains.

Firefox is spoken to in its own protocol (Marionette): a JSON list on a socket, with its length and a colon before it.
Playwright steers only Firefoxes that are built for it, or newer than systems have.
"""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")

from browserchecks import FIREFOX
from wengert.explorer.page import playground_page

SECONDS = 30.0


class Firefox:
    """A Firefox without a window, with a profile of its own."""

    def __init__(self, program: str, profile: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        settings = {"marionette.port": port, "datareporting.policy.dataSubmissionEnabled": False}
        lines = [f'user_pref("{name}", {json.dumps(value)});' for name, value in settings.items()]
        (profile / "user.js").write_text("\n".join(lines), encoding="utf-8")
        command = [program, "--headless", "--marionette", "--no-remote", "--profile", str(profile)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._socket = self._connected(port)
        self._read()
        self._count = 0
        self("WebDriver:NewSession", capabilities={})

    def _connected(self, port: int) -> socket.socket:
        end = time.monotonic() + SECONDS
        while True:
            try:
                return socket.create_connection(("127.0.0.1", port), SECONDS)
            except OSError:
                if time.monotonic() > end or self._process.poll() is not None:
                    pytest.skip("this Firefox cannot be steered")
                time.sleep(0.1)

    def _read(self) -> Any:
        length = b""
        while not length.endswith(b":"):
            length += self._socket.recv(1)
        data = b""
        while len(data) < int(length[:-1]):
            data += self._socket.recv(1 << 16)
        return json.loads(data)

    def __call__(self, command: str, **arguments: Any) -> Any:
        """Return what a command gives. Raises RuntimeError for one that fails."""
        self._count += 1
        text = json.dumps([0, self._count, command, arguments])
        self._socket.sendall(f"{len(text)}:{text}".encode())
        _, _, error, found = self._read()
        if error is not None:
            raise RuntimeError(f"{command}: {error['message']}")
        return found

    def open(self, file: Path) -> None:
        """Open a page, and note what it complains of from its first line on."""
        self("WebDriver:Navigate", url="about:blank")
        self("WebDriver:Navigate", url=file.as_uri())
        note = "window.complaints = []; addEventListener('error', (e) => complaints.push(e.message));"
        self.run(note + "addEventListener('unhandledrejection', (e) => complaints.push(String(e.reason)));")

    def run(self, script: str, *arguments: Any) -> Any:
        """Return what a script gives: the body of a function in the page."""
        return self("WebDriver:ExecuteScript", script=script, args=list(arguments), sandbox=None)["value"]

    def until(self, condition: str, *arguments: Any) -> None:
        """Wait until an expression holds."""
        end = time.monotonic() + SECONDS
        while not self.run(f"return Boolean({condition})", *arguments):
            assert time.monotonic() < end, f"never so: {condition}"
            time.sleep(0.05)

    def press(self, key: str) -> None:
        """Press a key, as the page hears it."""
        self.run("document.dispatchEvent(new KeyboardEvent('keydown', {key: arguments[0], bubbles: true}))", key)

    def close(self) -> None:
        self._socket.close()
        self._process.terminate()
        self._process.wait(SECONDS)


@pytest.fixture(scope="module")
def firefox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firefox]:
    if FIREFOX is None:
        pytest.skip("no Firefox on the PATH")
    started = Firefox(FIREFOX, tmp_path_factory.mktemp("firefox"))
    yield started
    started.close()


def test_a_lesson_and_its_tabs(firefox: Firefox, page_file: Callable[[str], Path]) -> None:
    firefox.open(page_file("learner"))
    firefox.until("document.querySelector('.wg-narrator') && document.querySelector('.wg-product')")
    firefox.press("Home")
    for _ in range(3):
        firefox.press("ArrowRight")
    firefox.until("document.querySelector('.wg-step-line').innerText.includes('step 3 of')")
    tabs = ("tape", "paths", "memory", "parallel", "kernels", "graph")
    for tab in tabs:
        firefox.run(f"document.getElementById('wg-tab-{tab}').click()")
        firefox.until(f"document.querySelector('.wg-tab-{tab} .wg-center > *')")
    assert firefox.run("return [document.querySelectorAll('.wg-part-missing').length, complaints]") == [0, []]


def test_a_large_run_finds_and_helps(firefox: Firefox, page_file: Callable[[str], Path]) -> None:
    firefox.open(page_file("transformer"))
    firefox.until("document.querySelector('.wg-loupe-box canvas')")
    for key in ("/", "?"):
        firefox.press(key)
        firefox.until("document.querySelector('dialog[open]')")
        firefox.press("Escape")
        firefox.until("!document.querySelector('dialog[open]')")
    assert firefox.run("return complaints") == []


def test_the_playground_trains(firefox: Firefox, tmp_path: Path) -> None:
    file = tmp_path / "play.html"
    file.write_text(playground_page(), encoding="utf-8")
    firefox.open(file)
    firefox.until("document.querySelector('.wg-play-clock')?.innerText")
    before = firefox.run("return document.querySelector('.wg-app').innerText")
    firefox.press("ArrowRight")
    firefox.until("document.querySelector('.wg-app').innerText !== arguments[0]", before)
    assert firefox.run("return complaints") == []
