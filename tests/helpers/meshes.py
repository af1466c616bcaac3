"""Training on meshes: models, plans, and the losses of a few steps, for tests in one process and in jobs."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import islice
from typing import Any

import numpy as np

import small_networks
import wengert as wg
from wengert import distribute as dist
from wengert import nn
from wengert.execute.jit.executor import executor
from wengert.ops.collective.group import current

SPLIT = dist.PartitionSpec
Mesh = dist.Mesh

MODELS: dict[str, Any] = {
    "mlp": small_networks.mlp,
    "cnn": small_networks.cnn,
    "block": small_networks.Block,
    "experts": small_networks.Experts,
    "gpt": small_networks.GPT,
}
SHAPES = {"mlp": (8, 6), "cnn": (8, 1, 6, 6), "block": (4, 8), "experts": (8, 6), "gpt": (4, 8)}
TOKENS = ("block", "gpt")
COLUMNS, ROWS = "model", SPLIT(None, "model")
RULES: dict[str, dict[str, Any]] = {
    "mlp": {"0.*": COLUMNS, "4.weight": ROWS},
    "cnn": {"0.*": COLUMNS, "1.*": COLUMNS, "4.weight": ROWS},
    "experts": {"experts": "model"},
    "gpt": {"*.up.*": COLUMNS, "*.down.weight": ROWS},
    "block": {
        **{f"{name}.*": COLUMNS for name in ("query", "key", "value", "up")},
        "out.weight": ROWS,
        "down.weight": ROWS,
    },
}
# By number of ranks: plans, and the meshes that they are for. Words of a plan's name say what it does.
PLANS: dict[int, dict[str, Mesh]] = {
    2: {
        "data": Mesh(data=2),
        "zero": Mesh(data=2),
        "fsdp": Mesh(data=2),
        "tensor": Mesh(model=2),
        "pipeline": Mesh(pipe=2),
        "pipeline interleaved": Mesh(pipe=2),
        "pipeline everywhere": Mesh(pipe=2),
        "context": Mesh(context=2),
        "sequence tensor": Mesh(model=2),
        "fsdp accumulated": Mesh(data=2, pipe=1),
        "zero accumulated": Mesh(data=2, pipe=1),
        "fsdp recomputed": Mesh(data=2),
        "data budget": Mesh(data=2),
        "zero budget": Mesh(data=2),
        "fsdp budget": Mesh(data=2),
        "tensor budget": Mesh(model=2),
        "fsdp spilled": Mesh(data=2),
        "data blocks": Mesh(data=2),
        "zero blocks": Mesh(data=2),
        "fsdp blocks": Mesh(data=2),
    },
    4: {
        "data": Mesh(data=4),
        "zero": Mesh(data=4),
        "fsdp": Mesh(data=4),
        "tensor": Mesh(model=4),
        "data tensor": Mesh(data=2, model=2),
        "fsdp tensor": Mesh(data=2, model=2),
        "pipeline gpipe": Mesh(pipe=4),
        "data pipeline": Mesh(pipe=2, data=2),
        "fsdp pipeline": Mesh(data=2, pipe=2),
        "zero pipeline": Mesh(pipe=2, data=2),
        "fsdp pipeline everywhere": Mesh(data=2, pipe=2),
        "pipeline tensor everywhere": Mesh(pipe=2, model=2),
        "pipeline tensor": Mesh(pipe=2, model=2),
        "data expert": Mesh(data=2, expert=2),
        "data context": Mesh(data=2, context=2),
        "fsdp context": Mesh(data=2, context=2),
        "context tensor": Mesh(context=2, model=2),
        "fsdp sequence tensor": Mesh(data=2, model=2),
        "sequence tensor recomputed": Mesh(model=4),
        "fsdp tensor accumulated": Mesh(data=2, model=2, pipe=1),
        "sequence tensor pipeline": Mesh(pipe=2, model=2),
        "context pipeline": Mesh(context=2, pipe=2),
        "fsdp tensor budget": Mesh(data=2, model=2),
        "data context spilled": Mesh(data=2, context=2),
        "fsdp tensor blocks": Mesh(data=2, model=2),
    },
}
# The blocks of plans in blocks: losses are the same on any number of ranks, bit for bit.
BLOCKS = {"data": 4}


def is_for(plan: str, kind: str, engine: str = "native") -> bool:
    """Whether a plan can be followed with a model: experts need some, sequences positions, some plans native code."""
    if engine.startswith("xla") and {"budget", "spilled", "blocks"} & set(plan.split()):
        return False
    return (kind == "experts" or "expert" not in plan) and (
        kind in TOKENS or not {"context", "sequence"} & set(plan.split())
    )


def losses(
    kind: str, plan: str = "", ranks: int = 1, steps: int = 20, half: bool = False, mesh: Mesh | None = None
) -> list[float]:
    """The losses of a training run in float64 by a plan; "" is one process, and no mesh.

    With `half` products are in bfloat16; `mesh` is another one than the plan's.
    """
    wg.manual_seed(0)
    model = MODELS[kind]().to(wg.float32 if half else wg.float64)
    optimizer = wg.optim.AdamW(model.parameters(), lr=1e-2)

    words = set(plan.split())
    forward = wg.checkpoint(model) if "recomputed" in words else model

    def step(x: Any, y: Any) -> Any:
        with wg.autocast("bfloat16") if half else nullcontext():
            loss = nn.functional.cross_entropy(forward(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    train = step
    if plan:
        mesh = PLANS[ranks][plan] if mesh is None else mesh
        batch: Any = "data" if "data" in mesh.names else None
        rules = RULES[kind] if "tensor" in words else None
        if "expert" in words:
            rules = {"experts": "expert"} if kind == "experts" else None
        dist.shard(model, mesh, rules, fsdp="data" if "fsdp" in words else None)
        inputs = SPLIT(batch, "context") if "context" in words else batch
        pipeline = None
        if words & {"pipeline", "accumulated"}:
            schedule, laps = ("gpipe" if "gpipe" in words else "1f1b"), (2 if "interleaved" in words else 1)
            state = "everywhere" if "everywhere" in words else "stages"
            pipeline = dist.Pipeline("pipe", 2 if "data" in mesh.names else 4, schedule, laps, state=state)

        def made(memory: int | None) -> Any:
            return dist.jit(
                step,
                mesh=mesh,
                in_specs=(inputs, batch),
                zero="data" if "zero" in words else None,
                sequence="model" if "sequence" in words else None,
                pipeline=pipeline,
                memory=memory,
                spill="spilled" in words,
                blocks=BLOCKS if "blocks" in words else None,
            )

        train = made(least(made(1), *next(batches(kind))) if words & {"budget", "spilled"} else None)
    return [float(train(x, y)) for x, y in islice(batches(kind), steps)]


def batches(kind: str) -> Iterator[tuple[Any, Any]]:
    """The batches of a training run: without end, and always the same."""
    rng, shape = np.random.default_rng(1), SHAPES[kind]
    while True:
        x = rng.integers(0, 12, shape) if kind in TOKENS else rng.normal(size=shape)
        yield wg.tensor(x), wg.tensor(rng.integers(0, 4, x.size if kind in TOKENS else shape[0]))


def least(step: Any, *args: Any) -> int:
    """The least budget of memory that a step can keep to, as it says when it is called with less."""
    told = ""
    try:
        step(*args)
    except wg.GraphError as e:
        told = str(e)
    return int(re.findall(r"memory=(\d+)", told)[0])


def all_losses(cases: list[tuple[str, str, int]], steps: int) -> list[list[float]]:
    """The losses of several runs, as one rank of a job has them."""
    return [losses(*case, steps=steps) for case in cases]


def losses_in_blocks(ranks: int, cases: list[tuple[str, str]], half: bool = False) -> list[list[float]]:
    """The losses of a few steps by plans in blocks, on a mesh of so many ranks."""
    return [losses(*case, steps=STEPS, mesh=Mesh(data=ranks), half=half) for case in cases]


def losses_beside_split_weights(ranks: int) -> list[list[float]]:
    """The losses of a few steps in blocks, weights split over two ranks, of every model on so many groups of these."""
    mesh = Mesh(data=ranks, model=2)
    return [losses(kind, "fsdp tensor blocks", 4, STEPS, mesh=mesh) for kind in MODELS]


RING = ((0, 1), (1, 0))

# By name: the function over an axis, and whether operand and result are replicated along it.
CASES: dict[str, tuple[Callable[[Any, str], Any], bool, bool]] = {
    "all_reduce": (lambda x, over: dist.all_reduce(x, over), False, True),
    "all_reduce mean": (lambda x, over: dist.all_reduce(x, over, "mean"), False, True),
    "pcast": (lambda x, over: dist.pcast(x, over), True, False),
    "all_gather": (lambda x, over: dist.all_gather(x, over, axis=1), False, True),
    "all_gather varying": (lambda x, over: dist.all_gather(x, over, axis=0, replicated=False), False, False),
    "reduce_scatter": (lambda x, over: dist.reduce_scatter(x, over, axis=1), False, False),
    "own_part": (lambda x, over: dist.own_part(x, over, axis=0), True, False),
    "permute": (lambda x, over: dist.permute(x, over, RING), False, False),
    "send": (lambda x, over: dist.permute(x, over, [(0, 1)]), False, False),
    "all_to_all": (lambda x, over: dist.all_to_all(x, over, split=0, join=1), False, False),
    "broadcast": (lambda x, over: dist.broadcast(x, over, root=1), False, True),
}

TRAINED = [("mlp", "tensor", 2), ("cnn", "fsdp", 2)]
STEPS = 4


def everything() -> Any:
    """What one job can show: collectives of every kind and size, parts, training."""
    rng = np.random.default_rng(dist.rank())
    found: dict[str, Any] = {}
    for name, (fn, same, _) in CASES.items():
        for shape in ((6, 6), (60, 60)):
            x = np.random.default_rng(5).normal(size=shape) if same else rng.normal(size=shape)
            found[f"{name} {shape}"] = fn(wg.tensor(x), "ranks").numpy()
    for dtype in ("float16", "bfloat16", "bool", "complex64"):
        x = wg.tensor(rng.normal(size=5000)).astype(dtype) if dtype != "bool" else wg.tensor(rng.random(5000) < 0.5)
        gathered = dist.all_gather(x, "ranks")
        found[f"gathered {dtype}"] = gathered.numpy() if dtype != "bfloat16" else gathered.astype("float32").numpy()
        if dtype != "bool":
            found[f"sum {dtype}"] = dist.all_reduce(x, "ranks").astype("complex64").numpy()
    found["empty"] = dist.all_reduce(wg.ones(0, 3), "ranks").numpy()
    found["max"] = dist.all_reduce(wg.tensor(rng.normal(size=3000)), "ranks", "max").numpy()
    mesh = dist.Mesh(data=2)
    x = dist.place(wg.tensor(np.arange(12.0).reshape(4, 3)), mesh, "data")
    found["parts"] = dist.partition(lambda x: (x @ x.T).sum(0), mesh, ("data",), "data")(x).whole().numpy()
    return found


def sums() -> Any:
    """Sums over all ranks of sizes about those at which messages, pieces and vectors end, in parts and whole."""
    rng, found = np.random.default_rng(dist.rank()), {}
    n = dist.size()
    for dtype in ("float32", "float64", "complex64", "complex128", "int32", "uint64", "float16", "int8"):
        for size in (1, 7, 2047, 2049, 65536, 65537, 200_003):
            x = (rng.normal(size=size) * 100).astype(dtype) if dtype != "uint64" else rng.integers(0, 1 << 62, size)
            x = wg.tensor(x.astype(dtype))
            found[f"{dtype} {size}"] = dist.all_reduce(x, "ranks").numpy()
            rows = x[: size // n * n].reshape(n, -1)
            found[f"{dtype} {size} in parts"] = dist.reduce_scatter(rows, "ranks", axis=0).numpy()
            found[f"{dtype} {size} of one"] = dist.broadcast(x, "ranks", root=size % n).numpy()
    odd = wg.tensor(np.array([np.nan, -np.nan, np.inf, -0.0, 1e308])[:: 1 - 2 * (dist.rank() % 2)])
    found["not finite"] = dist.all_reduce(odd, "ranks").numpy().view(np.uint64)
    found["strided"] = dist.all_reduce(wg.tensor(rng.normal(size=(300, 300)))[::2, ::3].mT, "ranks").numpy()
    return found


def broken_off() -> list[str]:
    """What runs of a program give of which some break off, on one rank or on all, while a sum is on its way.

    The other rank comes later, when the one that broke off computes something else already.
    """
    ranks = dist.size()
    mesh = dist.Mesh(data=ranks)
    group: Any = current()
    with mesh:
        fn = lambda x, i: (dist.all_reduce(x * 2.0, "data"), x[i])
        graph = wg.graph(fn)(wg.spec((400, 300)), wg.spec((4,), "int64"))
    program = executor(graph, exchanges=group.transport.exchanges(mesh))
    other = wg.jit(lambda x: wg.cumulative_sum(wg.sin(x), axis=0).sum(0))
    told = []
    for bad in ((), (1,), (), (0, 1), (), (0,), ()):
        is_bad = dist.rank() in bad
        if bad and not is_bad:
            time.sleep(0.3)
        try:
            at = np.full(4, 400 if is_bad else 0)
            total, _ = program.run([np.full((400, 300), len(told), np.float32), at])
            told.append(f"{total.min()} {total.max()}")
        except IndexError:
            told.append("out of range")
            for _ in range(3):
                other(wg.full((800, 300), 7.0))
    return told


def train() -> Any:
    return all_losses(TRAINED, STEPS)


def both() -> Any:
    return everything(), train()


def fails(x: Any) -> None:
    raise ValueError(f"of {x}")


ON_DEVICES = [("mlp", "fsdp", 2), ("mlp", "pipeline", 2)]


def on_devices() -> Any:
    """What a job of devices can show: what Python code exchanges, training, which engine runs a step."""
    f = dist.jit(lambda x: (x**2).sum(), mesh=dist.Mesh(data=2), in_specs=("data",))
    f(wg.ones(4))
    return everything(), all_losses(ON_DEVICES, 3), f.engine.name
