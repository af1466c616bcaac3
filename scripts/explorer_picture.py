"""Make the moving picture of the README with the real page: `python scripts/explorer_picture.py`.

The first lesson (`wengert explore`) is opened in Chromium and taken step by step, forward and back; what its middle
shows is one frame each. Needs Chromium, playwright and Pillow.
"""

from __future__ import annotations

import io
import runpy
import shutil
import sys
import tempfile
from pathlib import Path

import wengert as wg
from wengert.cli.explore import LESSON

PICTURE = Path(__file__).parent.parent / "docs" / "img" / "lesson.gif"
# The window, and the width that the README gives the picture.
WINDOW = {"width": 1200, "height": 720}
# Milliseconds of a step, and of the end.
STEP, END = 1300, 4000
COLOURS = 48


def page(folder: Path) -> Path:
    """Write the lesson's page."""
    script = folder / "lesson.py"
    script.write_text(LESSON, encoding="utf-8")
    made = folder / "lesson.html"
    wg.explore(runpy.run_path(str(script))["loss"], 3.0, 5.0).save(made)
    return made


def frames(file: Path) -> list[bytes]:
    """Return what the page shows before the first step and after each, as PNG."""
    from playwright.sync_api import sync_playwright

    found = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        opened = browser.new_page(viewport=WINDOW, reduced_motion="reduce", color_scheme="light")
        opened.goto(f"{file.as_uri()}#t=0")
        opened.wait_for_selector(".wg-app")
        for step in range(9):
            if step:
                opened.keyboard.press("ArrowRight")
            opened.wait_for_timeout(300)
            found.append(opened.screenshot())
        browser.close()
    return found


def animated(pictures: list[bytes], target: Path) -> None:
    """Write the frames as one GIF, with the colours of the last of them, which has all."""
    from PIL import Image

    images = [Image.open(io.BytesIO(data)).convert("RGB") for data in pictures]
    palette = images[-1].quantize(COLOURS, dither=Image.Dither.NONE)
    flat = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
    times = [STEP] * (len(flat) - 1) + [END]
    flat[0].save(target, save_all=True, append_images=flat[1:], duration=times, loop=0, optimize=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        animated(frames(page(Path(folder))), PICTURE)
    sys.stdout.write(f"wrote {PICTURE}, {PICTURE.stat().st_size:,} bytes\n")
