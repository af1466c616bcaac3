"""Train every model of the tests by every plan, on every engine: losses of 20 steps against those of one process.

    python scripts/plans.py [--engines simulate,mpi,xla,"xla job"] [--ranks 2,4] [--models mlp,gpt]
        [--plans data,fsdp] [--log docs/plans.md [--resume]]

"mpi" is called "mpich" in the table where `mpiexec` is MPICH's. "xla" has the ranks as devices of this
process, "xla job" as processes of JAX's. The table of --log is written after each model, and keeps its
rows of what is not run; with --resume what it has is not run again. A third of the matrix, with fewer
steps, is in the tests (tests/distribute/test_training.py, test_xla.py).
"""

from __future__ import annotations

import argparse
import os
import subprocess
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
# The names of engines in the table.
NAMES = ("simulate", "mpi", "mpich", "xla", "xla job")
HEAD = f"""# Plans, models, engines

Losses of {STEPS} steps in float64 against those of one process: the greatest relative difference on any rank,
dropout and batch norm included. Made by `python scripts/plans.py`, on one host. The ranks of *mpi* (Open MPI) and
*mpich* are processes that run native code; those of *xla* are devices of one process, those of *xla job* processes
with a device each. Plans with a budget and in blocks are native code's; the state of a pipeline is at its stages, but
for *everywhere*.

"""


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


def name_of(engine: str) -> str:
    """Return what an engine is called in the table: that of processes by the MPI that `mpiexec` belongs to."""
    if engine != "mpi":
        return engine
    told = subprocess.run(["mpiexec", "--version"], capture_output=True, text=True, check=True).stdout
    return "mpich" if "HYDRA" in told else "mpi"


def found_by(engine: str, ranks: int, todo: list[tuple[str, str, int]]) -> list[list[list[float]]]:
    """Return the losses of each rank, or of all of them at once, in each run."""
    if engine in ("simulate", "xla"):
        with wg.engine("xla" if engine == "xla" else "native"):
            return [meshes.all_losses(todo, STEPS)]
    return wg.distribute.run(meshes.all_losses, ranks, todo, STEPS, engine=engine.removesuffix(" job"))


def write(log: Path, made: list[Row]) -> None:
    """Write the table of rows: those that were made, and those that the log has of other runs."""
    rows = sorted([*made, *kept(log, made)], key=place)
    log.write_text(
        f"{HEAD}{sum(row.is_within for row in rows)} of {len(rows)} runs are within {BOUND:g}.\n\n"
        "| model | plan | ranks | engine | difference |\n| --- | --- | --- | --- | --- |\n"
        + "".join(f"{row}\n" for row in rows)
    )


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
    return NAMES.index(row.engine), row.ranks, list(meshes.MODELS).index(row.model), of_ranks.index(row.plan)


def main() -> int:
    """Run the matrix, print a row for each run, and return 1 where one differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--ranks", default=",".join(map(str, meshes.PLANS)))
    parser.add_argument("--models", default=",".join(meshes.MODELS))
    parser.add_argument("--plans", default=",".join({plan: None for plans in meshes.PLANS.values() for plan in plans}))
    parser.add_argument("--log", type=Path, help="a Markdown file to write the table to")
    parser.add_argument("--resume", action="store_true", help="leave out what the log has")
    given = parser.parse_args()
    models, plans = given.models.split(","), given.plans.split(",")
    engines = given.engines.split(",")
    if "xla" in engines:
        wg.distribute.cpu_devices(max(meshes.PLANS))
    alone = {kind: np.array(meshes.losses(kind, steps=STEPS)) for kind in models}
    done = {row[:4] for row in kept(given.log, [])} if given.resume else set()
    rows: list[Row] = []
    for engine in engines:
        name = name_of(engine)
        for ranks in map(int, given.ranks.split(",")):
            for kind in models:
                todo = [
                    (kind, plan, ranks)
                    for plan in meshes.PLANS[ranks]
                    if plan in plans and meshes.is_for(plan, kind, engine) and (kind, plan, ranks, name) not in done
                ]
                if not todo:
                    continue
                start = time.perf_counter()
                found = found_by(engine, ranks, todo)
                print(f"# {name}, {ranks} ranks, {kind}: {time.perf_counter() - start:.0f} s", flush=True)
                for i, (_, plan, _) in enumerate(todo):
                    worst = max(np.max(np.abs(np.array(of_rank[i]) / alone[kind] - 1)) for of_rank in found)
                    rows.append(Row(kind, plan, ranks, name, float(worst)))
                    print(rows[-1], flush=True)
                if given.log:
                    write(given.log, rows)
    failed = sum(not row.is_within for row in rows)
    print(f"{len(rows) - failed} of {len(rows)} runs of {STEPS} steps within {BOUND:g}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
