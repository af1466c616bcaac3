"""Train every model of the tests by every plan, on every engine: losses of 20 steps against those of one process.

    python scripts/plans.py [--engines simulate,mpi] [--models mlp,gpt] [--log docs/plans.md]

A third of it, with fewer steps, is in the tests (tests/distribute/test_training.py).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
HELPERS = str(ROOT / "tests" / "helpers")
sys.path.insert(0, HELPERS)
os.environ["PYTHONPATH"] = os.pathsep.join([HELPERS, *filter(None, [os.environ.get("PYTHONPATH")])])

import numpy as np  # noqa: E402

import meshes  # noqa: E402
import wengert as wg  # noqa: E402

STEPS = 20
BOUND = 1e-12


def cases(ranks: int, models: list[str]) -> list[tuple[str, str, int]]:
    """Return the model and plan of every run on so many ranks."""
    return [(kind, plan, ranks) for kind in models for plan in meshes.PLANS[ranks] if meshes.is_for(plan, kind)]


def main() -> int:
    """Run the matrix, print a row for each run, and return 1 where one differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", default="simulate,mpi")
    parser.add_argument("--models", default=",".join(meshes.MODELS))
    parser.add_argument("--log", help="a Markdown file to write the table to")
    given = parser.parse_args()
    models = given.models.split(",")
    alone = {kind: np.array(meshes.losses(kind, steps=STEPS)) for kind in models}
    rows, failed = [], 0
    for engine in given.engines.split(","):
        for ranks in meshes.PLANS:
            todo = cases(ranks, models)
            start = time.perf_counter()
            if engine == "simulate":
                found = [meshes.all_losses(todo, STEPS)]
            else:
                found = wg.distribute.run(meshes.all_losses, ranks, todo, STEPS, engine=engine)
            print(f"# {engine}, {ranks} ranks: {time.perf_counter() - start:.0f} s", flush=True)
            for i, (kind, plan, _) in enumerate(todo):
                # The greatest difference of any rank's losses, relative to the loss.
                worst = max(np.max(np.abs(np.array(of_rank[i]) / alone[kind] - 1)) for of_rank in found)
                failed += not worst <= BOUND
                rows.append(f"| {kind} | {plan} | {ranks} | {engine} | {worst:.1e} |")
                print(rows[-1], flush=True)
    print(f"{len(rows) - failed} of {len(rows)} runs of {STEPS} steps within {BOUND:g}")
    if given.log:
        head = (
            "# Plans, models, engines\n\n"
            f"Losses of {STEPS} steps in float64 against those of one process: the greatest relative difference on any "
            "rank, dropout and batch norm included. Made by `python scripts/plans.py`, on one host.\n\n"
            f"{len(rows) - failed} of {len(rows)} runs are within {BOUND:g}.\n\n"
            "| model | plan | ranks | engine | difference |\n| --- | --- | --- | --- | --- |\n"
        )
        Path(given.log).write_text(head + "\n".join(rows) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
