"""Mutated ONNX models, read and run: `python scripts/fuzz_onnx.py --count 100000`.

A model is one of the backend suite's, changed in its bytes or in its structure. It may run or be refused with
OnnxError; any other exception, a crash, too much memory or time is a failure. Models run in processes of their own with
a limit of address space.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import resource
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

os.environ.setdefault("WENGERT_EAGER_KERNELS", "0")

import numpy as np
import onnx
from onnx_suite import node_cases

import wengert as wg
from wengert.interop import onnx as wengert_onnx

# Modules of cases that together have most kinds of operators.
MODULES = [
    "add",
    "argmax",
    "attention",
    "averagepool",
    "batch_normalization",
    "cast",
    "clip",
    "concat",
    "constantofshape",
    "conv",
    "convtranspose",
    "cumsum",
    "depthtospace",
    "dequantizelinear",
    "einsum",
    "expand",
    "eyelike",
    "gather",
    "gathernd",
    "gemm",
    "gridsample",
    "gru",
    "if_",
    "layernormalization",
    "loop",
    "lstm",
    "matmul",
    "maxpool",
    "maxunpool",
    "nonmaxsuppression",
    "onehot",
    "pad",
    "pow",
    "qlinearconv",
    "quantizelinear",
    "rangeop",
    "reducemax",
    "reshape",
    "resize",
    "reversesequence",
    "roialign",
    "scan",
    "scatterelements",
    "scatternd",
    "sequenceinsert",
    "shape",
    "slice",
    "softmax",
    "split",
    "squeeze",
    "stft",
    "string_concat",
    "tfidfvectorizer",
    "tile",
    "topk",
    "transpose",
    "trilu",
    "unique",
    "unsqueeze",
    "where",
    "col2im",
    "center_crop_pad",
    "negativeloglikelihoodloss",
    "deformconv",
    "dft",
    "rnn",
    "mean",
]

MEMORY = 1 << 26
SPACE = 6 << 30
SECONDS = 20
_EXTREMES = (0, 1, -1, 2, -2, 7, 255, 1 << 16, 1 << 31, (1 << 31) - 1, -(1 << 31), 1 << 40, (1 << 63) - 1, -(1 << 63))


def seeds(modules: Sequence[str] = MODULES) -> list[tuple[bytes, list[Any]]]:
    """Return the models that are mutated, as bytes, with inputs for each."""
    found = []
    for case in node_cases([f"onnx.backend.test.case.node.{m}" for m in modules]):
        if case.data and len(case.model.SerializeToString()) < 20_000:
            found.append((case.model.SerializeToString(), case.data[0][0]))
    return found


def mutated(rng: random.Random, data: bytes) -> bytes:
    """Return a model with some of its bytes, or some of its parts, changed."""
    if rng.random() < 0.4:
        return _bytes(rng, data)
    model = onnx.ModelProto.FromString(data)
    for _ in range(rng.randint(1, 3)):
        try:
            _structure(rng, model)
        except (ValueError, TypeError, IndexError):
            continue
    return model.SerializeToString()


def _bytes(rng: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        kind, at = rng.randrange(4), rng.randrange(max(len(out), 1))
        if kind == 0 and out:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del out[at : at + rng.randint(1, 9)]
        elif kind == 2:
            out[at:at] = rng.randbytes(rng.randint(1, 9))
        else:
            end = at + rng.randint(1, 40)
            out[at:at] = out[at:end]
    return bytes(out)


def _nodes(model: Any) -> list[Any]:
    found, pending = [], [model.graph]
    while pending:
        graph = pending.pop()
        for node in graph.node:
            found.append(node)
            pending += [a.g for a in node.attribute if a.HasField("g")]
    return found


def _structure(rng: random.Random, model: Any) -> None:
    nodes = _nodes(model)
    node = rng.choice(nodes)
    names = [n for other in nodes for n in (*other.input, *other.output)] + [i.name for i in model.graph.input]
    kind = rng.randrange(11)
    if kind == 0 and node.attribute:
        a = rng.choice(node.attribute)
        if a.type == a.INT:
            a.i = rng.choice(_EXTREMES)
        elif a.type == a.INTS and a.ints:
            a.ints[rng.randrange(len(a.ints))] = rng.choice(_EXTREMES)
        elif a.type == a.FLOAT:
            a.f = rng.choice((0.0, -1.0, 1e30, float("nan"), float("inf"), 1e-30))
        elif a.type == a.STRING:
            a.s = rng.choice((b"", b"linear", b"SAME_UPPER", rng.randbytes(5)))
        elif a.type == a.TENSOR:
            _tensor(rng, a.t)
    elif kind == 1 and node.attribute:
        a = rng.choice(node.attribute)
        node.attribute.remove(a)
    elif kind == 2 and node.input:
        node.input[rng.randrange(len(node.input))] = rng.choice([*names, ""])
    elif kind == 3 and node.input:
        del node.input[rng.randrange(len(node.input))]
    elif kind == 4:
        node.input.append(rng.choice(names))
    elif kind == 5:
        node.op_type = rng.choice(nodes + [node]).op_type if rng.random() < 0.5 else rng.choice(_OPERATORS)
    elif kind == 6 and model.graph.initializer:
        _tensor(rng, rng.choice(model.graph.initializer))
    elif kind == 7:
        model.opset_import[0].version = rng.choice((0, 1, 7, 9, 11, 13, 18, 21, 28, 1000, -1))
    elif kind == 8 and model.graph.input:
        tensor = rng.choice(model.graph.input).type.tensor_type
        if rng.random() < 0.5:
            tensor.elem_type = rng.randrange(0, 30)
        elif tensor.shape.dim:
            rng.choice(tensor.shape.dim).dim_value = rng.choice(_EXTREMES)
    elif kind == 9:
        node.attribute.append(
            onnx.helper.make_attribute(rng.choice(("axis", "axes", "to", "k", "pads")), rng.choice(_EXTREMES))
        )
    else:
        copy = model.graph.node.add()
        copy.CopyFrom(node)
        for i in range(len(copy.output)):
            copy.output[i] += "_again"


_OPERATORS = sorted({s.name for s in onnx.defs.get_all_schemas() if s.domain == ""})


def _tensor(rng: random.Random, tensor: Any) -> None:
    kind = rng.randrange(4)
    if kind == 0:
        tensor.data_type = rng.randrange(0, 30)
    elif kind == 1 and tensor.dims:
        tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(_EXTREMES)
    elif kind == 2 and tensor.raw_data:
        tensor.raw_data = rng.randbytes(len(tensor.raw_data))
    elif tensor.int64_data:
        tensor.int64_data[rng.randrange(len(tensor.int64_data))] = rng.choice(_EXTREMES)
    else:
        tensor.dims.append(rng.choice(_EXTREMES))


def other_inputs(rng: random.Random, inputs: list[Any]) -> list[Any]:
    """Return inputs, of which one may hold extreme integers."""
    out = list(inputs)
    if out and rng.random() < 0.3:
        i = rng.randrange(len(out))
        if isinstance(out[i], np.ndarray) and out[i].dtype == np.int64 and out[i].size:
            changed = out[i].copy()
            changed.reshape(-1)[rng.randrange(changed.size)] = rng.choice(_EXTREMES)
            out[i] = changed
    return out


def outcome(data: bytes, inputs: list[Any]) -> str:
    """Return what became of a model: "ran", "refused", or what is wrong."""
    try:
        model = wengert_onnx.load(data, memory=MEMORY)
        with wg.no_grad():
            model(*inputs)
    except wengert_onnx.OnnxError:
        return "refused"
    except Exception as e:
        last = traceback.extract_tb(e.__traceback__)[-1]
        return f"{type(e).__name__}: {str(e)[:200]} ({os.path.basename(last.filename)}:{last.lineno})"
    return "ran"


def one(seed: int, found: Sequence[tuple[bytes, list[Any]]]) -> tuple[bytes, list[Any]]:
    """Return the mutant of a seed, and its inputs."""
    rng = random.Random(seed)
    data, inputs = rng.choice(found)
    return mutated(rng, data), other_inputs(rng, inputs)


def _worker(first: int, stop: int) -> None:
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (SPACE, SPACE))
    warnings.simplefilter("ignore")
    found = seeds()
    signal.signal(signal.SIGALRM, _too_long)
    for seed in range(first, stop):
        print(f"at {seed}", flush=True)
        signal.alarm(SECONDS)
        try:
            data, inputs = one(seed, found)
            said = outcome(data, inputs)
        except TimeoutError as e:
            last = traceback.extract_tb(e.__traceback__)[-2]
            said = f"more than {SECONDS} s ({os.path.basename(last.filename)}:{last.lineno})"
        signal.alarm(0)
        print(f"= {said}".replace("\n", " "), flush=True)


def _too_long(*_: Any) -> None:
    raise TimeoutError


def main() -> int:
    """Run the mutants that the command line asks for, and print what became of them."""
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--count", type=int, default=10_000, help="how many models")
    p.add_argument("--seed", type=int, default=0, help="the first one's seed")
    p.add_argument("--worker", type=int, nargs=2, help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.worker:
        _worker(*args.worker)
        return 0
    begun, counts, failed = time.perf_counter(), Counter[str](), 0
    at, stop = args.seed, args.seed + args.count
    while at < stop:
        begun_at = False
        command = [sys.executable, __file__, "--worker", str(at), str(stop)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
            assert worker.stdout is not None
            for line in worker.stdout:
                if line.startswith("at "):
                    at, begun_at = int(line[3:]), True
                    continue
                said = line[2:].strip()
                counts[said if said in ("ran", "refused") else "failed"] += 1
                if said not in ("ran", "refused"):
                    failed += 1
                    print(f"seed {at}: {said}", flush=True)
            code = worker.wait()
        if code:
            failed += 1
            counts["crashed"] += 1
            print(f"seed {at}: the process ended with {code}", flush=True)
        if not begun_at:
            return 1
        at += 1
    told = ", ".join(f"{n:,} {word}" for word, n in counts.most_common())
    print(f"{args.count:,} models, {failed} failed, {time.perf_counter() - begun:.0f} s: {told}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
