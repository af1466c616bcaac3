"""The inference race: networks exported from PyTorch, beside onnxruntime and OpenVINO on as many threads.

    python benchmarks/inference.py                      # eight networks, batches of 1 and 16: a Markdown table
    python benchmarks/inference.py --only MLP --batch 1
    python benchmarks/inference.py --threads 1          # a thread each, by processor time: for a busy machine
    python benchmarks/inference.py --keep folder        # exports once, and reads the documents from there later
    python benchmarks/inference.py --smoke              # small networks; results are checked, nothing is timed

Every runtime reads the same ONNX document, float32, with random weights from a fixed seed; its results are compared
with those of the PyTorch module in float64 before anything is timed. Wengert's is `wg.jit` of the frozen model. A burst
is of one runtime, with a pause after it, for threads that spin; the runtimes take turns in a new order every round. A
figure is the median of the rounds, a ratio the median of the rounds' ratios, of the faster one of the two others over
Wengert.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from harness import Case

import wengert as wg

# What float32 may be off, relative to the norm of the result.
TOLERANCE = 1e-4
# The seconds for which threads that spin may go on after a burst.
PAUSE = 0.05


def documents(folder: Path, only: str, batches: list[int], small: bool) -> list[Path]:
    """Export the networks that the folder lacks, each with an input and the result in float64; return the documents.

    Where PyTorch or its exporter is missing there are none, and the output says so.
    """
    try:
        import onnxscript  # noqa: F401
        import torch
        from networks import NETWORKS, exported, made
    except ImportError as e:
        print(f"the networks are exported from PyTorch: {e}; pip install 'wengert[bench]'", file=sys.stderr)
        return []
    found = []
    for network in NETWORKS:
        if only not in network.name:
            continue
        for batch in batches:
            path = folder / f"{network.name}, {batch}{' small' if small else ''}.onnx"
            found.append(path)
            if path.with_suffix(".npz").exists():
                continue
            module = made(network, small)
            inputs = network.inputs(small, batch)
            path.write_bytes(exported(module, inputs))
            with torch.no_grad():
                wide = [x.double() if x.is_floating_point() else x for x in inputs]
                wanted = module.double()(*wide).numpy()
            np.savez(path.with_suffix(".npz"), wanted=wanted, x=inputs[0].numpy())
            del module
            gc.collect()
    return found


def with_wengert(path: Path, threads: int) -> Callable[[np.ndarray], np.ndarray]:
    """Return a document as a compiled function."""
    wg.set_num_threads(threads)
    model = wg.interop.onnx.load(str(path)).freeze()
    compiled = wg.jit(lambda x: model(x))
    return lambda x: compiled(wg.asarray(x)).numpy()


def with_onnxruntime(path: Path, threads: int) -> Callable[[np.ndarray], np.ndarray]:
    """Return a document as a session with all of its optimisations."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda x: session.run(None, {name: x})[0]


def with_openvino(path: Path, threads: int) -> Callable[[np.ndarray], np.ndarray]:
    """Return a document compiled for the shortest call, in float32 throughout."""
    import openvino

    hints = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    request = openvino.compile_model(str(path), "CPU", hints).create_infer_request()
    return lambda x: request.infer([x], share_inputs=True, share_outputs=True)[0]


RUNTIMES = {"wengert": with_wengert, "onnxruntime": with_onnxruntime, "openvino": with_openvino}


def case(path: Path, threads: int) -> Case:
    """Return a document's case, with the runtimes that are installed."""
    data = np.load(path.with_suffix(".npz"))
    x = data["x"]
    contenders = {}
    for name, make in RUNTIMES.items():
        try:
            run = make(path, threads)
        except ImportError:
            print(f"{name} is not installed", file=sys.stderr)
            continue
        # The programs of a compiled function settle in a few calls.
        for _ in range(6):
            run(x)
        contenders[name] = run
    return Case(
        path.stem,
        {name: lambda run=run: run(x) for name, run in contenders.items()},
        {name: lambda run=run: [np.array(run(x))] for name, run in contenders.items()},
        [data["wanted"]],
        tolerance=TOLERANCE,
        pause=PAUSE if threads > 1 else 0.0,
        clock=time.perf_counter if threads > 1 else time.process_time,
    )


def best(found: Case) -> float:
    """Return the median over rounds of the faster other runtime's time over Wengert's."""
    others = [times for name, times in found.times.items() if name != "wengert"]
    fastest = min(others, key=statistics.median)
    return statistics.median(a / b for a, b in zip(fastest, found.times["wengert"], strict=True))


def row(found: Case) -> str:
    """Return a case's row of the table."""
    name, _, batch = found.name.rpartition(", ")
    times = [f"{found.median(n) * 1e3:.3g}" if n in found.times else "" for n in RUNTIMES]
    return f"| {name} | {batch} | " + " | ".join([*times, f"{best(found):.2f}"]) + " |"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="networks whose name contains this")
    parser.add_argument("--batch", type=int, action="append", help="batch sizes (default 1 and 16; 2 with --smoke)")
    parser.add_argument("--threads", type=int, default=2, help="of each runtime; 1 takes processor time")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--seconds", type=float, default=0.2, help="length of a burst (default %(default)s)")
    parser.add_argument("--keep", type=Path, help="a folder for the exported documents")
    parser.add_argument("--smoke", action="store_true", help="small networks, check results, time nothing")
    parser.add_argument("--json", type=Path, help="where to write the times of all rounds")
    given = parser.parse_args(arguments)
    ratios, every = [], {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(exist_ok=True)
        paths = documents(folder, given.only, given.batch or ([2] if given.smoke else [1, 16]), given.smoke)
        if not given.smoke:
            heads = " | ".join(f"{n} (ms)" for n in RUNTIMES)
            print(f"| network | batch | {heads} | faster of the others / wengert |\n| --- | ---: |" + " ---: |" * 4)
        for path in paths:
            found = case(path, given.threads)
            found.check()
            if given.smoke:
                continue
            found.measure(given.rounds, given.seconds)
            ratios.append(best(found))
            every[found.name] = found.times
            print(row(found), flush=True)
            del found
            gc.collect()
    if given.smoke:
        print(f"{len(paths)} networks checked")
        return
    if ratios:
        mean = math.exp(statistics.fmean(math.log(r) for r in ratios))
        print(f"\ngeometric mean {mean:.2f} over {len(ratios)}; {given.threads} threads, {os.cpu_count()} processors")
    if given.json is not None:
        given.json.write_text(json.dumps(every))


if __name__ == "__main__":
    main()
