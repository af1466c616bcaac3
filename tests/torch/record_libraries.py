"""Record what programs on PyTorch's libraries compute: needs the libraries, and PyTorch for its numbers.

`python tests/torch/record_libraries.py` runs every program under PyTorch, and writes `libraries/expected.json`.
`python tests/torch/record_libraries.py states` runs them under Wengert, and writes `libraries/states.json`, of which
the page *Your libraries* is made. Names of programs after either choose some.
"""

import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "helpers"))
from torch_libraries import EXPECTED, FOLDER, STATES, difference, run, version_of


def programs():
    """Return the library, what is run, by the name of each program."""
    code = "import json, run; print(json.dumps({n: p[:2] for n, p in run.PROGRAMS.items()}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=FOLDER, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main(arguments):
    """Write the file."""
    states = arguments[:1] == ["states"]
    chosen = arguments[1:] if states else arguments
    file = STATES if states else EXPECTED
    record = json.loads(file.read_text()) if file.exists() else {}
    expected = json.loads(EXPECTED.read_text()) if states else {}
    listed = {n: (e["library"], e["what"]) for n, e in expected.items()} if states else programs()
    for name, (library, what) in listed.items():
        if chosen and name not in chosen:
            continue
        found = run(name, states)
        if states:
            worst = found if isinstance(found, str) else difference(expected[name]["numbers"], found)
            record[name] = worst if isinstance(worst, str) else float(f"{worst:.1e}")
            print(name, record[name], flush=True)
        elif isinstance(found, str):
            print(f"left out: {name}: {found}", flush=True)
        else:
            record[name] = {"library": library, "version": version_of(library), "what": what, "numbers": found}
            print(name, flush=True)
        file.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
