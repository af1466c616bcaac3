"""Both forms in a real JupyterLab: the frame that any saved notebook shows, the widget with the kernel behind it."""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

import wengert as wg
from browserchecks import listen

for module in ("jupyterlab", "anywidget", "ipykernel", "nbconvert"):
    pytest.importorskip(module, reason=f"{module} is not installed")

# Kernels start slowly on a busy machine.
PATIENCE = 60_000

CELLS = (
    "import numpy as np\nimport wengert as wg\n"
    "def loss(x):\n    for _ in range(1600):\n        x = wg.tanh(x) * 1.1\n    return x.sum()\n"
    "found = wg.explore(loss, np.linspace(-1, 1, 256).reshape(16, 16))",
    "found",
    "found.show(live=True, height=560)",
)

# A node in the middle of the loop. Of large runs, and this is one, not all is told.
TURN = 151


def notebook() -> dict[str, Any]:
    cells = [
        {"cell_type": "code", "execution_count": None, "id": f"cell-{i}", "metadata": {}, "outputs": [], "source": cell}
        for i, cell in enumerate(CELLS)
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def environment(folder: Path) -> dict[str, str]:
    """This library for the kernel, and nothing of the user's settings."""
    places = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "JUPYTERLAB_SETTINGS_DIR")
    own = {name: str(folder / name.lower()) for name in places}
    path = os.pathsep.join([str(Path(wg.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, **own, "PYTHONPATH": path}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a JupyterLab with one notebook in it."""
    folder = tmp_path_factory.mktemp("lab")
    (folder / "runs.ipynb").write_text(json.dumps(notebook()), encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = secrets.token_hex()
    settings = {
        "ServerApp.port": str(port),
        "ServerApp.port_retries": "0",
        "ServerApp.root_dir": str(folder),
        "IdentityProvider.token": token,
        "LabApp.news_url": "",
        "LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
    }
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    command += [f"--{name}={value}" for name, value in settings.items()]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(command, env=environment(folder), stdout=log, stderr=log, cwd=folder)
    try:
        address = f"http://127.0.0.1:{port}"
        for _ in range(600):
            try:
                urllib.request.urlopen(f"{address}/api?token={token}", timeout=5).close()
                break
            except OSError:
                assert server.poll() is None, (folder / "log").read_text()
                time.sleep(0.1)
        yield f"{address}/lab/tree/runs.ipynb?token={token}"
    finally:
        server.terminate()
        server.wait(30)


def run_all(page: Page) -> None:
    """Run all cells; what is run before the kernel has come is lost without a word, and run again."""
    prompt = page.locator(".jp-NotebookPanel .jp-InputPrompt").first
    for _ in range(20):
        page.locator(".jp-NotebookPanel .jp-Cell").first.click()
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        try:
            expect(prompt).to_have_text(re.compile(r"\[[*\d]"), timeout=3000)
        except AssertionError:
            continue
        return


def test_a_notebook_shows_both_forms(browser: Browser, lab: str) -> None:
    context = browser.new_context(viewport={"width": 1300, "height": 1600}, reduced_motion="reduce")
    try:
        page = context.new_page()
        heard = listen(page)
        page.goto(lab)
        page.locator("[data-status=idle].jp-Notebook-ExecutionIndicator").first.wait_for(timeout=PATIENCE)
        run_all(page)
        # The frame, sandboxed, has the whole page inside.
        inside = page.frame_locator("iframe[title='Wengert explorer']")
        expect(inside.locator(".wg-app")).to_be_visible(timeout=PATIENCE)
        # The widget stands in the notebook itself, as wide as the cell, whatever the window is.
        live = page.locator(".jp-OutputArea-output .wg-app")
        expect(live).to_be_visible(timeout=PATIENCE)
        assert live.bounding_box() is not None
        assert live.evaluate("(app) => app.scrollWidth <= app.clientWidth")
        # Of turns of a loop that are alike the document holds the elements of one: the frame says so of the others,
        # and for the widget the kernel answers.
        for app, elements in ((inside.locator(".wg-app"), False), (live, True)):
            app.locator("ul[aria-label=Nodes] button").nth(TURN).evaluate("(button) => button.click()")
            expect(app.locator(".wg-right")).to_contain_text("std" if elements else "Its elements were not recorded")
        outside = [url for url in heard.requests if url.startswith("http") and "//127.0.0.1:" not in url]
        assert outside == []
        if folder := os.environ.get("WENGERT_SCREENSHOTS"):
            page.screenshot(path=Path(folder) / "jupyter.png")
    finally:
        context.close()
