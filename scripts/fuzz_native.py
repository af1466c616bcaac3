"""Many random programs through native code and the interpreter: `python scripts/fuzz_native.py --count 10000`.

Programs run in processes of their own, so that one that crashes stops nothing. What fails is shrunk
and written as Python that runs by itself, one file for each seed. The exit code says whether
anything failed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "helpers"))

from fuzz_programs import target_of
from fuzz_steps import random_program
from fuzzing import check, check_apart, minimal

BATCH = 25


def failing(first: int, stop: int) -> Iterator[int]:
    """The seeds whose programs fail or crash, found in another process."""
    while first < stop:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            warnings.simplefilter("ignore")
            for seed in range(first, stop):
                os.write(writer, b"%d " % seed)
                if check(random_program(seed), target_of(seed)) is not None:
                    os.write(writer, b"fails ")
            os._exit(0)
        os.close(writer)
        with open(reader) as pipe:
            told = pipe.read().split()
        _, status = os.waitpid(child, 0)
        yield from (int(told[i - 1]) for i, word in enumerate(told) if word == "fails")
        if status == 0:
            return
        # Go on after the one that it crashed in.
        last = int(next(word for word in reversed(told) if word != "fails"))
        yield last
        first = last + 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="how many programs")
    parser.add_argument("--seed", type=int, default=0, help="the first one's seed")
    parser.add_argument("--out", type=Path, default=Path("fuzz_failures"), help="where failing programs are written")
    options = parser.parse_args()
    os.environ["WENGERT_CACHE"] = "0"  # kernels that no other program will need
    begin = time.perf_counter()
    found = 0
    stop = options.seed + options.count
    for first in range(options.seed, stop, BATCH):
        for seed in failing(first, min(first + BATCH, stop)):
            found += 1
            small = minimal(random_program(seed), target_of(seed), check_apart)
            if small is None:
                print(f"seed {seed} failed once, and not again", flush=True)
                continue
            program, failure = small
            options.out.mkdir(parents=True, exist_ok=True)
            path = options.out / f"seed_{seed}.py"
            path.write_text(f"# {failure.kind}: {failure.detail}\n{program}")
            print(f"seed {seed}: {failure.kind}: {failure.detail} -> {path}", flush=True)
    print(f"{options.count} programs, {found} failed, {time.perf_counter() - begin:.0f} s")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
