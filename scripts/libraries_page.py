"""The page of PyTorch's libraries: which run on Wengert, what was run, and how far the numbers are from PyTorch's.

The numbers are recorded by `tests/torch/record_libraries.py` in `tests/torch/libraries`.
"""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "tests" / "torch" / "libraries"

HEAD = """# Your libraries

<!-- Written by scripts/libraries_page.py: do not edit. -->

Libraries that are written for PyTorch run on Wengert without an edit, if `torch` is renamed before they are imported:

```sh
python -m wengert.torch train.py
```

or, in a program or a notebook, two lines at the top:

```py
from wengert.torch.renaming import rename

rename()
```

From then on `import torch` in that process, in whatever library, gives `wengert.torch`. `torch.__name__` is "torch",
and `importlib.metadata.version("torch")` is the version whose names are there. Install the libraries with
`pip install --no-deps`, and what they need beside PyTorch, so that PyTorch itself is not installed.

What of PyTorch has no counterpart (FSDP, `torch.export`, TorchScript's files, quantisation) can be imported and asked
for by `isinstance`. It raises an error with the reason when it is used. A name that PyTorch has and that is missing
even so is an `AttributeError` or `ImportError` that says so: [PyTorch's names](pytorch-names.md) lists the public ones.

## What was run

Each program ran under PyTorch and under Wengert from the same weights, with the same library, on a CPU. It ran in
float64 where it does not say otherwise, in train mode without dropout. The last column is the largest difference of its
numbers (losses, results, gradients), relative to the largest number of the same list. The programs are in
`tests/torch/libraries`.
"""


def state(value: float | str | None) -> str:
    """What the table says of a difference, or of the last line of what a program said that did not end."""
    if value is None:
        return "not run"
    if isinstance(value, str):
        return f"stops: `{value.replace('|', ' ')[:120]}`"
    return "equal" if value == 0 else f"{value:.0e}"


def page() -> str:
    """The whole page, as Markdown."""
    expected = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))
    states = json.loads((FOLDER / "states.json").read_text(encoding="utf-8"))
    out = [HEAD, "| library | version | what was run | differs from PyTorch by |\n| --- | --- | --- | --- |"]
    rows = sorted(expected.items(), key=lambda item: (item[1]["library"].lower(), item[0]))
    for _, group in groupby(rows, key=lambda item: item[1]["library"]):
        for i, (name, entry) in enumerate(group):
            library = (f"`{entry['library']}`", entry["version"]) if i == 0 else ("", "")
            out.append(f"| {library[0]} | {library[1]} | {entry['what']} | {state(states.get(name))} |")
    out.append("")
    return "\n".join(out)
