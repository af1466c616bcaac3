"""Train every model of the tests by every plan, on every engine: losses of 20 steps against those of one process.

    python scripts/plans.py [--engines simulate,mpi,xla,"xla job"] [--models mlp,gpt] [--plans data,fsdp]
        [--log docs/plans.md]

"xla" has the ranks as devices of this process, "xla job" as processes of JAX's. The table of --log
keeps its rows of what is not run. A third of the matrix, with fewer steps, is in the tests
(tests/distribute/test_training.py, test_xla.py).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
HELPERS = str(ROOT / "tests" / "helpers")
sys.path.insert(0, HELPERS)
os.environ["PYTHONPATH"] = os.pathsep.join([HELPERS, *filter(None, [os.environ.get("PYTHONPATH")])])

import numpy as np  # noqa: E402

import meshes  # noqa: E402
import wengert as wg  # noqa: E402

STEPS = 20
BOUND = 1e-12
ENGINES = ("simulate", "mpi", "xla", "xla job")


class Row(NamedTuple):
    """A run, and the greatest difference of any rank's losses, relative to the loss."""

    model: str
    plan: str
    ranks: int
    engine: str
    difference: float

    @property
    def is_within(self) -> bool:
        """Return whether the losses are those of one process."""
        return self.difference <= BOUND

    def __str__(self) -> str:
        return f"| {self.model} | {self.plan} | {self.ranks} | {self.engine} | {self.difference:.1e} |"


def cases(ranks: int, models: list[str], engine: str) -> list[tuple[str, str, int]]:
    """Return the model and plan of every run on so many ranks."""
    return [(kind, plan, ranks) for kind in models for plan in meshes.PLANS[ranks] if meshes.is_for(plan, kind, engine)]


def kept(log: Path, made: list[Row]) -> list[Row]:
    """Return the rows of a table of which no new ones were made."""
    known = {row[:4] for row in made}
    found = []
    for line in log.read_text().splitlines() if log.exists() else []:
        cells = [cell.strip() for cell in line.strip("| ").split("|")]
        if len(cells) == len(Row._fields) and cells[2].isdigit():
            row = Row(cells[0], cells[1], int(cells[2]), cells[3], float(cells[4]))
            if row[:4] not in known:
                found.append(row)
    return found


def place(row: Row) -> tuple[int, ...]:
    """Return where a row stands in the table."""
    of_ranks = list(meshes.PLANS[row.ranks])
    return ENGINES.index(row.engine), row.ranks, list(meshes.MODELS).index(row.model), of_ranks.index(row.plan)


def main() -> int:
    """Run the matrix, print a row for each run, and return 1 where one differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--models", default=",".join(meshes.MODELS))
    parser.add_argument("--log", help="a Markdown file to write the table to")
    parser.add_argument("--plans", default=",".join({plan: None for plans in meshes.PLANS.values() for plan in plans}))
    given = parser.parse_args()
    models = given.models.split(",")
    engines, plans = given.engines.split(","), given.plans.split(",")
    if "xla" in engines:
        wg.distribute.cpu_devices(max(meshes.PLANS))
    alone = {kind: np.array(meshes.losses(kind, steps=STEPS)) for kind in models}
    rows = []
    for engine in engines:
        for ranks in meshes.PLANS:
            todo = [case for case in cases(ranks, models, engine) if case[1] in plans]
            start = time.perf_counter()
            if engine in ("simulate", "xla"):
                with wg.engine("xla" if engine == "xla" else "native"):
                    found = [meshes.all_losses(todo, STEPS)]
            else:
                found = wg.distribute.run(meshes.all_losses, ranks, todo, STEPS, engine=engine.removesuffix(" job"))
            print(f"# {engine}, {ranks} ranks: {time.perf_counter() - start:.0f} s", flush=True)
            for i, (kind, plan, _) in enumerate(todo):
                worst = max(np.max(np.abs(np.array(of_rank[i]) / alone[kind] - 1)) for of_rank in found)
                rows.append(Row(kind, plan, ranks, engine, float(worst)))
                print(rows[-1], flush=True)
    failed = sum(not row.is_within for row in rows)
    print(f"{len(rows) - failed} of {len(rows)} runs of {STEPS} steps within {BOUND:g}")
    if given.log:
        log = Path(given.log)
        rows = sorted([*rows, *kept(log, rows)], key=place)
        log.write_text(
            "# Plans, models, engines\n\n"
            f"Losses of {STEPS} steps in float64 against those of one process: the greatest relative difference on any "
            "rank, dropout and batch norm included. Made by `python scripts/plans.py`, on one host. The ranks of *xla* "
            "are devices of one process; those of *xla job*, if it was run, are processes with a device each.\n\n"
            f"{sum(row.is_within for row in rows)} of {len(rows)} runs are within {BOUND:g}.\n\n"
            "| model | plan | ranks | engine | difference |\n| --- | --- | --- | --- | --- |\n"
            + "".join(f"{row}\n" for row in rows)
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
