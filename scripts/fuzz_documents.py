"""Many mutated documents of graphs, read and run both ways: `python scripts/fuzz_documents.py --count 100000`.

Documents are read in processes of their own, so that one that crashes stops nothing. What fails is written to a file,
with how it failed; `tests/helpers/document_checks.py` says what that means. The exit code says whether anything failed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from pathlib import Path

os.environ["WENGERT_CACHE"] = "0"  # kernels that no other program will need
os.environ.setdefault("WENGERT_EAGER_KERNELS", "0")
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "helpers"))

from document_checks import checked
from documents import mutant

BATCH = 500


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="how many documents")
    parser.add_argument("--seed", type=int, default=0, help="the first one's seed")
    parser.add_argument("--out", type=Path, default=Path("fuzz_failures"), help="where documents that fail are written")
    options = parser.parse_args()
    begin = time.perf_counter()
    counts: Counter[str] = Counter()
    failed = 0
    stop = options.seed + options.count
    for first in range(options.seed, stop, BATCH):
        for failure in checked(first, min(first + BATCH, stop), counts):
            failed += 1
            document = mutant(failure.seed)
            options.out.mkdir(parents=True, exist_ok=True)
            path = options.out / f"document_{failure.seed}.{'json' if document.is_json else 'txt'}"
            path.write_bytes(document.text.encode("utf-8", "surrogatepass"))
            wrong = failure.wrong.replace("\n", " ")[:300]
            print(f"seed {failure.seed} ({document.name}): {failure.word}: {wrong} -> {path}", flush=True)
    told = ", ".join(f"{n:,} {word}" for word, n in counts.most_common())
    print(f"{options.count:,} documents, {failed} failed, {time.perf_counter() - begin:.0f} s: {told}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
