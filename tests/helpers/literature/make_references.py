"""Write references.json: every case's value, gradient and Hessian-vector product by PyTorch and by JAX.

    cd tests; python -m literature.make_references [case ...]

needs torch and jax; with names only those cases are computed anew, the others kept.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
from pathlib import Path
from typing import Any

from . import CASES, Case
from .namespaces import jax_derivatives, torch_derivatives

REFERENCES = Path(__file__).with_name("references.json")
PEERS = {"torch": torch_derivatives, "jax": jax_derivatives}


def answers(case: Case) -> dict[str, Any]:
    """Per library and point: [value, gradient, Hessian-vector product], nested as the point is."""
    entry: dict[str, Any] = {"points": [x.tolist() for x in case.points()]}
    for name, derivatives in PEERS.items():
        entry[name] = [[value, g.tolist(), p.tolist()] for value, g, p in derivatives(case)]
    return entry


def main(names: list[str]) -> None:
    known = json.loads(REFERENCES.read_text())["cases"] if names else {}
    found = {n: answers(c) if not names or n in names else known[n] for n, c in CASES.items()}
    versions = {name: importlib.metadata.version(name) for name in (*PEERS, "numpy")}
    # One line a case, so that a difference can be read.
    lines = ",\n".join(f"{json.dumps(n)}: {json.dumps(e)}" for n, e in found.items())
    REFERENCES.write_text(f'{{"versions": {json.dumps(versions)},\n"cases": {{\n{lines}\n}}}}\n')


if __name__ == "__main__":
    main(sys.argv[1:])
