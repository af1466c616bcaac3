"""Record what PyTorch gives for the programs of `programs/`: needs PyTorch.

`python tests/torch/record_programs.py [NAME ...]` adds to `tests/torch/data/programs.json`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from running import NAMES, run

FILE = Path(__file__).parent / "data" / "programs.json"


def main() -> None:
    """Run the named programs, or all, and write the file."""
    found = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name in sys.argv[1:] or NAMES:
        found[name] = run(name, compiled=False, by_wengert=False)
        print(name, found[name][:3], "...", found[name][-1])
    FILE.write_text(json.dumps({n: found[n] for n in sorted(found) if n in NAMES}, indent=0) + "\n")


if __name__ == "__main__":
    main()
