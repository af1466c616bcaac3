"""Both forms in a real JupyterLab: the frame that any saved notebook shows, the widget with the kernel behind it."""

from __future__ import annotations

import json
import os
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
from browserchecks import listen
from playwright.sync_api import Browser, expect

for module in ("jupyterlab", "anywidget", "ipykernel", "nbconvert"):
    pytest.importorskip(module, reason=f"{module} is not installed")

ROOT = Path(__file__).parents[3]
# Kernels start slowly on a busy machine.
PATIENCE = 60_000

CELLS = (
    "import numpy as np\nimport wengert as wg\n"
    "def loss(x):\n    return (wg.tanh(x) ** 2).sum()\n"
    "found = wg.explore(loss, np.linspace(-1, 1, 4096).reshape(64, 64))",
    "found",
    "found.show(live=True, height=560)",
)


def notebook() -> dict[str, Any]:
    cells = [
        {"cell_type": "code", "execution_count": None, "id": f"cell-{i}", "metadata": {}, "outputs": [], "source": cell}
        for i, cell in enumerate(CELLS)
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def environment(folder: Path) -> dict[str, str]:
    """This library for the kernel, and nothing of the user's settings."""
    own = {name: str(folder / name.lower()) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")}
    path = os.pathsep.join([str(Path(sys.modules["wengert"].__file__ or "").parents[1]), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, **own, "PYTHONPATH": path, "JUPYTERLAB_SETTINGS_DIR": str(folder / "lab")}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a JupyterLab with one notebook in it."""
    folder = tmp_path_factory.mktemp("lab")
    (folder / "runs.ipynb").write_text(json.dumps(notebook()), encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = secrets.token_hex()
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}", "--ServerApp.port_retries=0",
        f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={folder}", "--LabApp.news_url=", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]  # fmt: skip
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


def test_a_notebook_shows_both_forms(browser: Browser, lab: str) -> None:
    context = browser.new_context(viewport={"width": 1300, "height": 1500}, reduced_motion="reduce")
    try:
        page = context.new_page()
        heard = listen(page)
        page.goto(lab)
        page.locator(".jp-NotebookPanel .jp-Cell").first.wait_for(timeout=PATIENCE)
        expect(page.locator(".jp-Notebook-ExecutionIndicator").first).to_have_attribute(
            "data-status", "idle", timeout=PATIENCE
        )
        page.locator(".jp-NotebookPanel .jp-Cell").first.click()
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        # The frame, sandboxed, has the whole page inside.
        inside = page.frame_locator("iframe[title='Wengert explorer']")
        expect(inside.locator(".wg-app")).to_be_visible(timeout=PATIENCE)
        expect(inside.get_by_role("tab", name="Graph")).to_be_visible()
        # The widget stands in the notebook itself.
        live = page.locator(".jp-OutputArea-output .wg-app")
        expect(live).to_be_visible(timeout=PATIENCE)
        # It asks the kernel for whole tensors: what it shows of one then no document holds.
        sent: list[str] = []
        context.new_cdp_session(page)
        live.evaluate("(app) => app.focus()")
        live.locator("ul[aria-label=Nodes] button").first.evaluate("(button) => button.click()")
        expect(live.locator(".wg-right")).to_contain_text("64")
        assert sent == []
        outside = [url for url in heard.requests if "127.0.0.1" not in url and url.startswith("http")]
        assert outside == []
        if folder := os.environ.get("WENGERT_SCREENSHOTS"):
            page.screenshot(path=Path(folder) / "jupyter.png")
    finally:
        context.close()
