"""A captured program as objects for one target: plans of all levels, their functions, what memory they take."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..core.errors import GraphError, fail
from ..core.ops.op import find_op
from ..execute.native.codegen.kernel import Kernel
from ..execute.native.compile import Compiled
from ..execute.native.plan.plan import Buffer, Exchange, HostCall, Plan, Step, rounded
from .captured import Captured, Value
from .emission import Job, objects
from .module import (
    HELPERS,
    LIBRARY_OF_WASM,
    Destination,
    Function,
    Place,
    Writer,
    chosen,
    constant,
    declared,
    exported,
    head,
    mode_of,
)
from .naming import identifier
from .targets import Level, Platform
from .weights import EMBEDDED, Layout, Pool


class Field(NamedTuple):
    """A pointer of a call: its name in C, what it is ("weights", "state", "ready", "memory", "input", "output"), the
    array that it points to.
    """

    name: str
    role: str
    value: Value | None = None


class Built(NamedTuple):
    """A program for one target.

    `objects` are the files by their names, `nbytes` the memory of a call, `ready` the bytes of weights laid out for the
    processor, `errors` what the numbers that a call returns mean, `interface` all that callers rely on, and `digest`
    the hash of that.
    """

    name: str
    platform: Platform
    fields: tuple[Field, ...]
    objects: dict[str, bytes]
    weights: Layout
    state: Layout
    nbytes: int
    ready: int
    errors: tuple[str, ...]
    interface: dict[str, Any]
    digest: str


class _Level(NamedTuple):
    """A level's plan, and the places of what its preparation makes."""

    level: Level
    compiled: Compiled
    plan: Plan
    prepared: dict[Buffer, int]
    ready: int


def built(program: Captured, platform: Platform, name: str) -> Built:
    """Return a program for a target. Raises GraphError for what needs Python, by its name, with the user's line."""
    plans = [_planned(program, platform, level) for level in platform.levels]
    codes, errors = _codes(plans)
    state = Layout({x.name: x.value for x in program.state})
    pool = Pool(program.named, {x.name: x.value for x in program.weights})
    symbols: dict[Buffer, bytes] = {}
    names: dict[Buffer, str] = {}
    for plan in plans:
        for buffer in (*plan.plan.constants, *(plan.plan.preparation.constants if plan.plan.preparation else ())):
            if buffer in plan.prepared:
                continue
            if buffer.nbytes <= EMBEDDED:
                symbols[buffer] = buffer.array.tobytes()
            else:
                names[buffer] = pool.name_of(buffer.array)
    weights = Layout(pool.arrays)
    ready = max(p.ready for p in plans)
    fields = _fields(program, weights, state, ready)
    made = _Maker(program, platform, name, fields, weights, state, symbols, names, codes)
    functions = {plan.level.name: made.functions(plan, ready > 0) for plan in plans}
    nbytes = max(f.nbytes for found in functions.values() for f in found)
    interface = interface_of(name, fields, weights, state, nbytes, ready, errors)
    digest = hashlib.sha256(json.dumps(interface, sort_keys=True).encode()).hexdigest()
    jobs = {}
    told = exported(f"{name}_interface", bytes.fromhex(digest))
    many = len(plans) > 1
    for plan in plans:
        found = functions[plan.level.name]
        kernels = list(dict.fromkeys(k for f in found for k in f.kernels))
        texts = [made.text(plan, found, kernels, "" if many else told), *(k.ir for k in kernels)]
        keep = [f.name for f in found] + ([] if many else [f"{name}_interface"])
        file = f"{name}_{plan.level.name}.o" if many else f"{name}.o"
        jobs[file] = _job(platform, plan.level, texts, keep)
    if many:
        ends = ["run"] + (["prepare"] if ready else [])
        text = "\n".join([head(platform), told, chosen(name, platform.levels, ends)])
        keep = [f"{name}_{end}" for end in ends] + [f"{name}_interface"]
        jobs[f"{name}.o"] = _job(platform, platform.levels[-1], [text], keep)
    made_objects = dict(zip(jobs, objects([*jobs.values()])))
    return Built(name, platform, fields, made_objects, weights, state, nbytes, ready, errors, interface, digest)


def _job(platform: Platform, level: Level, texts: Sequence[str], keep: Sequence[str]) -> Job:
    reloc = "static" if platform.format == "wasm" else "pic"
    return Job(platform.triple, level.cpu, level.features, reloc, tuple(texts), tuple(keep))


# -- plans


def _planned(program: Captured, platform: Platform, level: Level) -> _Level:
    """Return the plan of a level; state is written in place where no error can come after that."""
    target = platform.target(level)
    is_state = {x.input for x in program.state}
    donated = [k in is_state for k in range(len(program.graph.inputs))]
    compiled = Compiled(program.graph, donated, target)
    if _may_stop_after_writing(compiled.lowered):
        compiled = Compiled(program.graph, None, target)
    _refuse_python(program, compiled)
    prepared: dict[Buffer, int] = {}
    ready = 0
    for buffer in compiled.lowered.prepared:
        prepared[buffer] = ready
        ready += rounded(buffer.nbytes)
    return _Level(level, compiled, compiled.lowered, prepared, ready)


def _may_stop_after_writing(plan: Plan) -> bool:
    written = False
    for step in plan.steps:
        if written and isinstance(step.kernel, HostCall):
            return True
        written = written or any(b.whole.kind == "input" for b in step.writes)
    return False


def _refuse_python(program: Captured, compiled: Compiled) -> None:
    for at, step in enumerate(compiled.lowered.steps):
        if isinstance(step.kernel, Exchange) or (isinstance(step.kernel, HostCall) and step.kernel.when is None):
            fail(
                GraphError,
                f"wg.export of {program.name}, whose operation {step.label} is computed by Python",
                "A program without Python has native code alone. Leave callbacks out, and operations that have none: "
                "the plan of wg.jit marks them, print(compiled.plan).",
                _where(compiled, at),
            )


def _where(compiled: Compiled, at: int) -> str | None:
    """Return the user's line of a step; None for none."""
    nodes = compiled.plan.steps[at].nodes
    found = (n for node in nodes for n in (node, *compiled.ancestors(node)))
    source = next((n.source for n in found if n.source is not None), None)
    return None if source is None else f"{source.file}:{source.line}"


def _codes(plans: Sequence[_Level]) -> tuple[dict[Step, int], tuple[str, ...]]:
    """Return what each check's step returns where it stops a call, and what these numbers mean."""
    codes: dict[Step, int] = {}
    numbers: dict[str, int] = {}
    for plan in plans:
        for at, step in enumerate(plan.plan.steps):
            if isinstance(step.kernel, HostCall):
                # The file's name alone: whoever runs the program knows nothing of this machine's folders.
                line = os.path.basename(_where(plan.compiled, at) or "")
                text = _meaning(step) + (f" ({line})" if line else "")
                codes[step] = numbers.setdefault(text, len(numbers) + 1)
    return codes, tuple(numbers)


def _meaning(step: Step) -> str:
    """Return what a check has found where it stops a call."""
    assert isinstance(step.kernel, HostCall)
    kind, *rest = step.kernel.origin or ("", step.label)
    if kind == "range":
        name, sizes, axis = rest
        along = f"axis {axis} of size {sizes[0]}" if len(sizes) == 1 else f"axes of sizes {tuple(sizes)}"
        return f"{name}: an index is out of range for {along}"
    if kind == "check":
        name, attrs = rest
        classes = attrs.get("classes", attrs.get("num_classes"))
        if classes is not None:
            return f"{attrs.get('of', name)}: a class is none of the {classes}"
        op = find_op(name)
        what = "an index" if op is not None and "bound" in op.facets else "a value"
        return f"{attrs.get('of', name)}: {what} is out of range"
    return f"{rest[0]}: a matrix that it has no native code for (a singular one, or one that is not finite)"


# -- functions


def _fields(program: Captured, weights: Layout, state: Layout, ready: int) -> tuple[Field, ...]:
    found = [Field("weights", "weights")] if weights.nbytes else []
    found += [Field("state", "state")] if state.nbytes else []
    found += [Field("ready", "ready")] if ready else []
    found.append(Field("memory", "memory"))
    taken = {f.name for f in found}
    for role, values in (("input", program.inputs), ("output", program.outputs)):
        for value, _ in values:
            name = identifier(value.name, taken)
            taken.add(name.lower())
            found.append(Field(name, role, value))
    return tuple(found)


def interface_of(
    name: str,
    fields: Sequence[Field],
    weights: Layout,
    state: Layout,
    nbytes: int,
    ready: int,
    errors: Sequence[str],
) -> dict[str, Any]:
    """Return all that callers rely on, as JSON has it."""
    return {
        "name": name,
        "fields": [
            {
                "name": f.name,
                "role": f.role,
                **(
                    {}
                    if f.value is None
                    else {"dtype": f.value.spec.dtype.name, "shape": [*f.value.spec.shape], "called": f.value.name}
                ),
            }
            for f in fields
        ],
        "memory": nbytes,
        "ready": ready,
        "weights": _arrays(weights),
        "state": _arrays(state),
        "errors": [*errors],
    }


def _arrays(layout: Layout) -> dict[str, Any]:
    arrays = [
        {"name": n, "dtype": a.dtype.name, "shape": [*a.shape], "place": layout.places[n]}
        for n, a in layout.arrays.items()
    ]
    return {"bytes": layout.nbytes, "arrays": arrays}


class _Maker:
    """The maker of the functions of all levels."""

    def __init__(
        self,
        program: Captured,
        platform: Platform,
        name: str,
        fields: Sequence[Field],
        weights: Layout,
        state: Layout,
        symbols: Mapping[Buffer, bytes],
        names: Mapping[Buffer, str],
        codes: Mapping[Step, int],
    ) -> None:
        self.program, self.platform, self.name, self.fields = program, platform, name, fields
        self.weights, self.state, self.symbols, self.names, self.codes = weights, state, symbols, names, codes
        self.number = {f.role: i for i, f in enumerate(fields) if f.value is None}
        self.inputs = [i for i, f in enumerate(fields) if f.role == "input"]
        self.outputs = [i for i, f in enumerate(fields) if f.role == "output"]
        # A name for each constant of the object, by its bytes.
        self.called: dict[bytes, str] = {}
        for content in symbols.values():
            self.called.setdefault(content, f"constant.{len(self.called)}")
        self.mode = mode_of(platform)

    def functions(self, plan: _Level, prepares: bool) -> list[Function]:
        """Return the functions of a level."""
        end = f"_{plan.level.name}" if len(self.platform.levels) > 1 else ""
        constants = {b: self.place(b, plan) for b in plan.plan.constants}
        empty = {i for i, f in enumerate(self.fields) if f.value is not None and f.value.spec.size == 0}
        needed = [i for i in range(len(self.fields)) if i not in empty]
        writer = self.writer(f"{self.name}_run{end}", plan.plan)
        made = [writer.function(self.given(), self.wanted(), constants, self.codes, needed)]
        if prepares:
            preparation = plan.plan.preparation or Plan()
            known = {b: self.place(b, plan) for b in preparation.constants}
            to = [Destination(Place(self.number["ready"], start)) for start in plan.prepared.values()]
            needed = [self.number[role] for role in ("weights", "ready", "memory") if role in self.number]
            writer = self.writer(f"{self.name}_prepare{end}", preparation)
            made.append(writer.function([], to, known, {}, needed))
        return made

    def writer(self, name: str, plan: Plan) -> Writer:
        hidden = len(self.platform.levels) > 1
        return Writer(name, plan, self.platform, self.number["memory"], bool(self.mode), hidden)

    def given(self) -> list[Place | None]:
        """Return the places of the graph's inputs."""
        found: list[Place | None] = [None] * len(self.program.graph.inputs)
        for field, (_, k) in zip(self.inputs, self.program.inputs, strict=True):
            if k is not None:
                found[k] = Place(field)
        for x in self.program.weights:
            found[x.input] = Place(self.number.get("weights", self.number["memory"]), self.weights.places[x.name])
        for x in self.program.state:
            if x.input >= 0:
                found[x.input] = Place(self.number.get("state", self.number["memory"]), self.state.places[x.name])
        return found

    def wanted(self) -> list[Destination]:
        """Return where the graph's outputs go."""
        found = [Destination(Place(field)) for field in self.outputs]
        base = self.number.get("state", self.number["memory"])
        return found + [Destination(Place(base, self.state.places[x.name]), True) for x in self.program.state]

    def place(self, buffer: Buffer, plan: _Level) -> Place:
        if buffer in plan.prepared:
            return Place(self.number["ready"], plan.prepared[buffer])
        if buffer in self.symbols:
            return Place(self.called[self.symbols[buffer]])
        return Place(self.number["weights"], self.weights.places[self.names[buffer]])

    def text(self, plan: _Level, functions: Sequence[Function], kernels: Sequence[Kernel], more: str) -> str:
        """Return the module of a level's functions."""
        code = "\n".join(f.text for f in functions)
        used = (n for b, n in self._symbols_of(plan))
        contents = {name: content for content, name in self.called.items()}
        constants = [constant(name, contents[name]) for name in dict.fromkeys(used)]
        helpers = HELPERS if "@any_of" in code or "@copy_bytes" in code else ""
        helpers += LIBRARY_OF_WASM if self.platform.format == "wasm" else ""
        return "\n".join([head(self.platform), more, self.mode, helpers, *constants, declared(kernels), code])

    def _symbols_of(self, plan: _Level) -> list[tuple[Buffer, str]]:
        first = plan.plan.preparation.constants if plan.plan.preparation else []
        return [(b, self.called[self.symbols[b]]) for b in (*plan.plan.constants, *first) if b in self.symbols]
