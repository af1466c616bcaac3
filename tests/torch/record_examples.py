"""Record the first losses that PyTorch gives for the examples: needs PyTorch.

`python tests/torch/record_examples.py [NAME ...]` adds to `tests/torch/data/examples.json`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from running_examples import SMALL, curve

FILE = Path(__file__).parent / "data" / "examples.json"


def main() -> None:
    """Run the named examples, or all, and write the file."""
    found = json.loads(FILE.read_text()) if FILE.exists() else {}
    for case in sys.argv[1:] or SMALL:
        with tempfile.TemporaryDirectory() as folder:
            found[case] = curve(case, compiled=False, by_wengert=False, folder=Path(folder))
        print(case, found[case])
    FILE.write_text(json.dumps({n: found[n] for n in sorted(found) if n in SMALL}, indent=0) + "\n")


if __name__ == "__main__":
    main()
