"""Suggestions: which plan of parallel training would be fastest on so many ranks, and fits their memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core import tree
from ..core.errors import DTypeError, GraphError, WengertError, fail
from ..core.tensor import Tensor
from ..execute.jit.options import nbytes_of
from ..explain.report import columns, html_table
from .arguments import check_call, is_whole_number, whole_number
from .mesh import Mesh
from .pipeline.program import Pipeline, Pipelined
from .placing.partition import Partitioned
from .placing.placement import PartitionSpec
from .predict import Cluster, Prediction, predict
from .sharding import split_over
from .training import StepOnMesh


@dataclass(frozen=True)
class Plan:
    """A plan of parallel training: its mesh and options, and what a step by it is predicted to take.

    `memory` is the bytes that a rank needs, the step's tensors included. Where the plan is not possible, `why` says so,
    and `prediction` is None.
    """

    name: str
    mesh: Mesh
    in_specs: tuple[Any, ...]
    zero: str | None
    fsdp: str | None
    pipeline: Pipeline | None
    prediction: Prediction | None
    memory: int
    fits: bool
    why: str

    @property
    def seconds(self) -> float:
        """The seconds of a step; infinite where the plan is not possible."""
        return self.prediction.seconds if self.prediction is not None else float("inf")

    @property
    def text(self) -> str:
        """The code to write."""
        more = "".join(
            f", {name}={value!r}" for name, value in (("zero", self.zero), ("pipeline", self.pipeline)) if value
        )
        call = f"jit(step, mesh={self.mesh}, in_specs={self.in_specs!r}{more})"
        return f"shard(model, {self.mesh}, fsdp={self.fsdp!r}); {call}" if self.fsdp else call


@dataclass(frozen=True)
class Suggestion:
    """Plans of a step, the best one first: those that fit by their time, then those that do not."""

    plans: tuple[Plan, ...]

    @property
    def best(self) -> Plan:
        """The fastest plan that fits. Raises GraphError where none does."""
        found = self.plans[0]
        if not found.fits:
            why = found.why or f"{found.name} needs least, {min(p.memory for p in self.plans if p.memory):,} bytes"
            fail(GraphError, f"no plan fits: {why}", "Take more ranks, or a smaller batch.")
        return found

    def _rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = []
        for p in self.plans:
            if p.prediction is None:
                rows.append((p.name, "", "", "", "", p.why))
                continue
            said = (f"{p.seconds * 1e3:.3f}", f"{p.prediction.moved:,}", f"{p.memory:,}", "yes" if p.fits else "no")
            rows.append((p.name, *said, p.text))
        return rows

    def __str__(self) -> str:
        return columns(self._rows(), _HEADINGS)

    def _repr_html_(self) -> str:
        return html_table(f"{len(self.plans)} plans", self._rows(), _HEADINGS)


_HEADINGS = ("plan", "ms a step", "bytes sent", "bytes of memory", "fits", "write")


def suggest(
    step: Callable[..., Any],
    mesh: int | Mesh,
    args: Sequence[Any],
    *,
    memory: Any = None,
    cluster: Cluster | None = None,
    micro: Sequence[int] = (4, 8),
) -> Suggestion:
    """Return plans of parallel training for a step, the fastest that fits first.

    Parameters
    ----------
    step: a training step as :func:`wengert.jit` takes it: modules, an optimiser, `loss.backward()`. It is not run.
    mesh: the number of ranks, or a mesh of so many; plans put them on axes of their own.
    args: the step's arguments, or specs of them; the first dimension of each is the batch.
    memory: how much a rank may need, in bytes or as text ("8GB"); None for any amount.
    cluster: the links between the ranks; a fast network where it is left out.
    micro: the numbers of microbatches that pipelines are tried with.

    Compared are data parallelism, with optimiser state in parts (ZeRO) and with parameters in parts too (FSDP), and
    pipelines along every divisor of the number of ranks, with data parallelism along the rest. Each is compiled, and
    one rank's kernels are timed here (:func:`predict`): it takes seconds, and the less else runs here, the better the
    numbers. Raises GraphError, DTypeError.

    >>> import wengert as wg
    >>> model = wg.nn.Sequential(wg.nn.Linear(8, 8), wg.nn.Tanh(), wg.nn.Linear(8, 1))
    >>> opt = wg.optim.SGD(model.parameters(), lr=0.1)
    >>> def step(x):
    ...     loss = (model(x) ** 2).mean()
    ...     opt.zero_grad()
    ...     loss.backward()
    ...     opt.step()
    ...     return loss
    >>> found = wg.distribute.suggest(step, 2, (wg.spec((64, 8)),), micro=(4,))
    >>> sorted(plan.name for plan in found.plans)
    ['data', 'fsdp', 'pipeline of 2, 4 microbatches', 'zero']
    """
    if not callable(step):
        fail(DTypeError, f"suggest for a {type(step).__name__}, which is no function")
    fn = getattr(step, "__wrapped__", step)
    ranks = mesh.size if isinstance(mesh, Mesh) else mesh
    ranks = whole_number(ranks, f"suggest for {mesh!r} ranks", "It takes their number, from 1 on, or a mesh.")
    if not isinstance(args, (tuple, list)):
        fail(
            GraphError, f"suggest with args={args!r}", "It is a tuple of the step's arguments: args=(wg.spec((8, 4)),)."
        )
    if not isinstance(micro, (tuple, list)) or not all(is_whole_number(m) and m > 0 for m in micro):
        fail(
            GraphError, f"suggest with micro={micro!r}", "It is a tuple of numbers of microbatches, from 1 on: (4, 8)."
        )
    if not isinstance(cluster, Cluster | None):
        fail(GraphError, f"suggest with cluster={cluster!r}", "It is a wg.distribute.Cluster(latency, bandwidth).")
    check_call(fn, args, {}, "suggest")
    limit = None if memory is None else nbytes_of(memory, "memory")
    found = [_plan(fn, args, cluster, limit, **options) for options in _options(ranks, micro)]
    return Suggestion(tuple(sorted(found, key=lambda p: (not p.fits, p.seconds))))


def _options(ranks: int, micro: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yield what plans for so many ranks are made of."""
    for name in ("data", "zero", "fsdp"):
        yield {"name": name, "axes": {"data": ranks}, "kind": name, "pipeline": None}
    for places in range(2, ranks + 1):
        if ranks % places == 0:
            rest = {"data": ranks // places} if ranks > places else {}
            for m in micro:
                name = f"pipeline of {places}, {m} microbatches" + (f", data over {ranks // places}" if rest else "")
                pipeline = Pipeline("pipe", m)
                yield {"name": name, "axes": {"pipe": places, **rest}, "kind": "", "pipeline": pipeline}


def _plan(
    fn: Callable[..., Any],
    args: Sequence[Any],
    cluster: Cluster | None,
    limit: int | None,
    *,
    name: str,
    axes: Mapping[str, int],
    kind: str,
    pipeline: Pipeline | None,
) -> Plan:
    mesh = Mesh(axes)
    over = "data" if "data" in axes else None
    in_specs = tuple(
        tree.map(lambda x: PartitionSpec(over if getattr(x, "shape", ()) else None), a)
        if tree.leaves(a) != [a]
        else (over if getattr(a, "shape", ()) else None)
        for a in args
    )
    zero, fsdp = ("data" if kind == k else None for k in ("zero", "fsdp"))
    made = StepOnMesh(fn, mesh, in_specs, zero, pipeline)
    if fsdp is not None:

        def placed(x: Tensor) -> tuple[PartitionSpec, str | None] | None:
            spec = split_over("data", PartitionSpec(), x.shape, mesh) if x.requires_grad else None
            return None if spec is None else (spec, "data")

        made.placed = placed
    try:
        program = made.lowered(*args)
        prediction = predict(program, cluster=cluster)
    except WengertError as e:
        why = str(e).partition("\n")[0]
        return Plan(name, mesh, in_specs, zero, fsdp, pipeline, None, 0, False, why)
    # A process keeps its parts between steps, and is given the whole batch.
    kept = max(_kept(program, place) for place in range(mesh.axes.get("pipe", 1)))
    need = kept + sum(x.nbytes for x in tree.leaves(args) if hasattr(x, "nbytes")) + prediction.memory
    return Plan(name, mesh, in_specs, zero, fsdp, pipeline, prediction, need, limit is None or need <= limit, "")


def _kept(program: Partitioned | Pipelined, place: int) -> int:
    """Return the bytes of a program's inputs that a rank at a place of a pipeline has."""
    at = program.tasks.at if isinstance(program, Pipelined) else {}
    return sum(n.spec.nbytes for i, n in enumerate(program.graph.inputs) if at.get(i, place) == place)
