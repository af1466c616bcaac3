"""Observation goes through one interface: who observes is told of everything, and nothing is replaced for it."""

from __future__ import annotations

import ast
import importlib
import re
import sys
import threading
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.ops.op import TABLE
from wengert.core.ops.record import OUTPUT
from wengert.core.state import observer as seam
from wengert.core.state.observer import Observer, observers, observing
from wengert.core.tensor import Tensor, wrap
from wengert.explain.observing.events import observed
from wengert.explorer.recording.recorder import Ran, Recorder

PACKAGE = Path(wg.__file__).parent
X = np.linspace(0.5, 2.0, 6).reshape(2, 3)


class Names(Observer):
    """Keeps the names of the ops that ran, and the traces of compiled programs."""

    def __init__(self, inlines: bool = True) -> None:
        super().__init__()
        self.inlines = inlines
        self.names: list[str] = []
        self.pulls: list[str] = []
        self.traces: list[Any] = []
        self.made_nodes: list[Any] = []

    def step(self, op: Any, *rest: Any, **more: Any) -> None:
        self.names.append(op.name)

    def made(self, node: Any) -> None:
        self.made_nodes.append((node.op.name, node.code is not None))

    def pulled(self, node: Any, *rest: Any) -> None:
        self.pulls.append(node.op.name)

    def ran(self, trace: Any) -> None:
        self.traces.append(trace)


# -- nothing is replaced


def own_names(nodes: list[ast.AST]) -> set[str]:
    """Return what a module has imported from the package: modules, classes, functions."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith("wengert")):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.asname or alias.name for alias in node.names if alias.name.startswith("wengert")}
    return found


def root(node: ast.expr) -> str:
    """Return the name that a chain of attributes and items begins with."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def targets(node: ast.AST) -> list[ast.expr]:
    """Return what a statement assigns to or deletes."""
    if isinstance(node, (ast.Assign, ast.Delete)):
        return [part for t in node.targets for part in (t.elts if isinstance(t, (ast.Tuple, ast.List)) else [t])]
    return [node.target] if isinstance(node, (ast.AugAssign, ast.AnnAssign)) else []


def replacements(tree: ast.Module) -> Iterator[str]:
    """Give the statements that put something into a module, class or function of the package's from elsewhere."""
    nodes = list(ast.walk(tree))
    own = own_names(nodes)
    for node in nodes:
        for target in targets(node):
            into_attribute = isinstance(target, ast.Attribute) and root(target) in own
            namespaces = {"__dict__", "__globals__", "__code__", "__class__"}
            into_namespace = any(isinstance(n, ast.Attribute) and n.attr in namespaces for n in ast.walk(target))
            if into_attribute or (into_namespace and root(target) in own):
                yield ast.unparse(node).splitlines()[0]
        if isinstance(node, ast.Call):
            if root(node.func) in ("setattr", "delattr") and ast.unparse(node.args[0]) != "self":
                yield ast.unparse(node)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
            if any("mock" in name for name in names):
                yield ast.unparse(node)


# Methods that a module adds to a class below when it is loaded, where there was none; and attributes of objects that
# are chosen by their names.
ALLOWED = {
    "__init__.py": {"setattr(Tensor, _name, _method)", "Tensor.backward = _backward", "Tensor.explore = _explore",
                    "setattr(Graph, _name, _lazy_method(_name, _module))"},
    "core/ops/declare.py": {"setattr(spec, op.result, spec_of(spec.shape, result_dtype(op, spec.dtype)))"},
    "core/ops/op.py": {"setattr(holder, name, first)", "setattr(holder, name, rule)"},
    "distribute/program.py": {"setattr(module, name, _joined(buffer))"},  # the buffers of a copy
    "execute/interpreter.py": {"Graph.__call__ = call"},
    "execute/scheduler.py": {"Graph.run = run_parallel"},
    "explain/gradients/edges.py": {"setattr(copy, name, getattr(entry, name))"},
    "explorer/__init__.py": {"explore.watch = watch"},
    "nn/utils/rnn.py": {"setattr(PackedSequence, name, cast)"},  # a class of its own
    "numpy/ndarray.py": {"setattr(ndarray, _name, _method(_name))"},  # a class of its own
    "torch/nn/__init__.py": {"functional.grad = import_module('.grad', __package__)"},  # two places of PyTorch's
    "torch/nn/modules/module.py": {"setattr(_WithHooks, _name, _held(_found))"},  # a class of its own
    "torch/nn/utils/parametrize.py": {"setattr(type(out), name, _property(name))"},  # the class of a copy
    "execute/batching/cells.py": {"setattr(fn, MARK, True)"},  # the mark of a user's class
    "explain/pictures/dot.py": {"Graph.to_dot = to_dot"},
    "explain/pictures/paper.py": {"Graph.save = save"},
    "explain/pictures/draw.py": {"Graph.to_svg = to_svg", "Graph._repr_svg_ = repr_svg"},
}  # fmt: skip


OWN = re.compile(
    r"(set|del)attr\((Tensor|Optimizer|_module|cls|layer|type\(module\)|module|self\._\w+|\w+Sequence), |Tensor\."
)


# One test asks all files: one for each file costs more than the asking.
def test_no_module_puts_anything_into_another() -> None:
    wrong = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name.startswith("execute/native/dispatch/"):
            continue  # it tries on classes of its own whether objects lie in memory as native code takes them to
        found = set(replacements(ast.parse(path.read_text(encoding="utf-8"))))
        if name.startswith("torch/"):  # its modules declare the methods of one class, and attributes of users' modules
            found = {text for text in found if not OWN.match(text)}
        wrong[name] = found - ALLOWED.get(name, set())
    assert {name: found for name, found in wrong.items() if found} == {}


@pytest.mark.parametrize(
    "text",
    [
        "from ..core import node\nnode.Node.__init__ = made",
        "from ...execute import scheduler as s\ndef f():\n    s._Run = g",
        "import wengert.core.node as n\ndel n.make_node",
        "from .op import Op\nOp.__call__, x = f, 1",
        "setattr(owner, name, value)",
        "from .products import front\nfront.__globals__['np'] = other",
        "from unittest import mock",
    ],
)
def test_replacements_are_found(text: str) -> None:
    assert len(list(replacements(ast.parse(text)))) == 1


def callables() -> dict[tuple[str, str], Any]:
    """Return every function, class and method of the package that is loaded, by where it stands."""
    found: dict[tuple[str, str], Any] = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] != "wengert" or not isinstance(module, types.ModuleType):
            continue
        for key, value in list(vars(module).items()):
            if callable(value) or isinstance(value, types.ModuleType):
                found[name, key] = value
            if isinstance(value, type) and value.__module__.startswith("wengert"):
                found |= {(f"{value.__module__}.{value.__qualname__}", k): v for k, v in vars(value).items()}
    for op in TABLE.values():
        found[op.name, "forward"] = op.forward
        for key, value in getattr(getattr(op, "front", None), "__globals__", {}).items():
            found[f"front of {op.name}", key] = value
    return found


def test_nothing_is_replaced_while_somebody_observes() -> None:
    def program() -> None:
        x = wg.tensor(X, requires_grad=True)
        y = wg.where(x > 1.0, (x @ x.mT)[0].sum() * x, wg.softmax(x))
        y.sum().backward()
        wg.optim.SGD([x], lr=0.1).step()

    with observing(Names()):
        program()  # what is loaded when it is first used
    before = callables()
    for block in (lambda: observing(Names()), observed, lambda: Recorder().recording()):
        with block():
            program()
            inside = callables()
        changed = [k for k in before if inside.get(k) is not before[k] and not k[1].startswith("__abc")]
        assert [k for k in changed if callable(before[k]) or isinstance(before[k], types.ModuleType)] == []


# -- everything is told


def sampled() -> list[Any]:
    ops = [op for op in TABLE.values() if op.samples is not None and op.kind not in ("leaf", "control", "source")]
    return [pytest.param(op, id=op.name) for op in ops if op is not OUTPUT]


def quiet_front(op: Any, call: Any) -> Any:
    values = [wrap(a) if isinstance(a, np.ndarray) else a for a in call.args]
    with np.errstate(all="ignore"):
        return op.front(*values, **call.attrs)


@pytest.mark.parametrize("op", sampled())
def test_every_op_is_told_of_with_the_same_result(op: Any) -> None:
    call = next(iter(op.samples(np.random.default_rng(0))))
    wg.set_eager_kernels(False)
    try:
        expected = quiet_front(op, call)
    finally:
        wg.set_eager_kernels(None)
    with observed() as seen:
        found = quiet_front(op, call)
    assert seen.steps, op.name
    for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (expected, found)), strict=True):
        np.testing.assert_array_equal(a._array, b._array)
        assert a._array.dtype == b._array.dtype
    if op.body is None or op.name in {s.op.name for s in seen.steps}:
        step = next(s for s in seen.steps if s.op is op)
        outs = step.out if isinstance(step.out, tuple) else (step.out,)
        results = found if isinstance(found, tuple) else (found,)
        assert all(any(o is r._array for r in results) for o in outs)  # the very arrays that tensors have


FAST_PATHS: dict[str, Callable[[Any, Any], Any]] = {
    "multiply": lambda x, y: x * y,
    "add": lambda x, y: x + 1.0,
    "subtract": lambda x, y: 1.0 - x,
    "negative": lambda x, y: -x,
    "greater": lambda x, y: x > y,
    "matmul": lambda x, y: x @ y.mT,
    "matvec": lambda x, y: x @ y[0],
    "sum": lambda x, y: x.sum(),
    "mean": lambda x, y: x.mean(axis=0),
    "reshape": lambda x, y: x.reshape(6),
    "slice": lambda x, y: x[0],
    "index": lambda x, y: x[wg.tensor([1, 0])],
    "slice_update": lambda x, y: (z := x * 1.0, z.__setitem__(0, 1.0)),
    "where": lambda x, y: wg.where(x > y, x, y),
    "softmax": lambda x, y: wg.softmax(x),
    "stack": lambda x, y: wg.scan(lambda c, r: (c + r, c * r), x[0], x),
    "permute": lambda x, y: x.mT,
    "cast": lambda x, y: x.astype(wg.float32),
}


@pytest.mark.parametrize("name", FAST_PATHS)
@pytest.mark.parametrize("tracked", [False, True])
def test_fast_paths_are_told_of(name: str, tracked: bool) -> None:
    x, y = wg.tensor(X, requires_grad=tracked), wg.tensor(X[::-1].copy())
    with observing(seen := Names()):
        FAST_PATHS[name](x, y)
    # An index is one step, whichever op it takes, and brings its node along.
    expected = {"index": "index" if tracked else "slice"}.get(name, name)
    assert expected in seen.names
    assert all(placed for op, placed in seen.made_nodes)
    nodes = {op for op, _ in seen.made_nodes}
    assert expected in nodes or not tracked or name in ("greater", "stack", "slice", "index", "slice_update")


def test_a_backward_pass_and_a_step_of_an_optimiser_are_told_of() -> None:
    told: list[str] = []

    class Passes(Names):
        def pass_begins(self, roots: Sequence[Any]) -> None:
            told.append("begins")

        def pass_ends(self, found: Mapping[Any, Any] | None) -> None:
            told.append("failed" if found is None else f"ends with {len(found)}")

        def updated(self, parameter: Any, before: Any, gradient: Any, after: Any, start: float, end: float) -> None:
            np.testing.assert_array_equal(after, before - 0.5 * gradient)
            assert after is parameter._array
            assert start <= end
            told.append("updated")

        def optimizing(self, optimizer: Any, stepped: bool) -> None:
            told.append("stepped" if stepped else "made")

    x = wg.tensor(X, requires_grad=True)
    with observing(seen := Passes()):
        opt = wg.optim.SGD([x], lr=0.5)
        (x * x).sum().backward()
        opt.step()
    assert told == ["made", "begins", "ends with 1", "updated", "stepped"]
    assert seen.pulls == ["sum", "multiply"]


def test_a_checkpoint_tells_of_what_it_computes_again() -> None:
    x = wg.tensor(X, requires_grad=True)
    loss = wg.checkpoint(lambda x: wg.tanh(wg.exp(x)))(x).sum()
    with observing(seen := Names()):
        loss.backward()
    assert seen.names == ["exp", "tanh"]


def test_a_run_on_threads_is_told_of_in_order() -> None:
    graph = wg.graph(lambda x: wg.exp(x) + wg.sin(x))(wg.spec((3,)))
    with observing(seen := Names()):
        graph.run([wg.ones(3)], workers=4)
    assert seen.names == [n.op.name for n in graph.nodes if n not in graph.inputs]


# -- compiled programs


def test_a_compiled_function_runs_as_it_is_written_for_who_asks_for_operations() -> None:
    f = wg.jit(lambda x: (wg.exp(x) * 2.0).sum())
    x = wg.ones(5)
    expected = [f(x).item() for _ in range(5)][-1]
    with observing(seen := Names()):
        assert f(x).item() == pytest.approx(expected, rel=1e-6)
    assert seen.names[:3] == ["exp", "multiply", "sum"]
    assert f(x).item() == expected
    assert f.cache_info().traces == 1


def test_a_compiled_program_tells_of_its_steps() -> None:
    pytest.importorskip("llvmlite")
    w = wg.tensor(X, requires_grad=True)

    @wg.jit
    def step(x: Any) -> Any:
        loss = ((w * x) @ x.mT).sum()
        w.grad = None
        loss.backward()
        with wg.no_grad():
            w.sub_(0.01 * w.grad)
        return loss

    x = wg.tensor(X)
    losses = [step(x).item() for _ in range(4)]
    with observing(seen := Names(inlines=False)):
        losses += [step(x).item() for _ in range(2)]
    losses += [step(x).item() for _ in range(2)]
    assert losses == sorted(losses, reverse=True)
    assert len(set(losses)) == 8
    assert seen.names == []
    assert len(seen.traces) == 2
    for trace in seen.traces:
        assert trace.labels == tuple(s.label for s in step.plan.steps)
        assert set(trace.step.tolist()) == set(range(len(trace.labels)))
        assert (trace.end >= trace.start).all()
        assert trace.lost == 0
    assert step.cache_info().traces == 1


def test_a_profiler_of_a_verified_function_sees_the_program_alone() -> None:
    pytest.importorskip("llvmlite")
    f = wg.jit(lambda x: wg.exp(x).sum(), verify=True)
    f(wg.ones(4))
    with observing(seen := Names(inlines=False)):
        f(wg.ones(4))
    assert len(seen.traces) == 1
    assert seen.names == []


def test_another_threads_compiled_calls_go_on() -> None:
    f = wg.jit(lambda x: x * 2.0)
    x = wg.ones(3)
    f(x), f(x)
    found: list[Any] = []
    with observing(seen := Names()):
        thread = threading.Thread(target=lambda: found.extend(f(x).sum().item() for _ in range(3)))
        thread.start()
        thread.join()
    assert found == [6.0] * 3
    assert seen.names == []
    assert f.cache_info().traces == 1


# -- observers together


def test_nested_observers_are_both_told() -> None:
    x = wg.tensor(X, requires_grad=True)
    with observing(outer := Names()):
        y = wg.exp(x)
        with observing(inner := Names()):
            z = wg.tanh(y)
            z.sum().backward()
        wg.sin(x)
    assert inner.names == ["tanh", "sum"]
    assert outer.names == ["exp", "tanh", "sum", "sin"]
    assert inner.pulls == outer.pulls == ["sum", "tanh", "exp"]
    assert len(inner.made_nodes) < len(outer.made_nodes)


def test_an_answer_is_no_part_of_the_program_around_it() -> None:
    with observing(outer := Names()):
        wg.explain.nonfinite(lambda x: wg.log(x).sum(), wg.tensor([0.0, 1.0]))
    assert "log" not in outer.names


def test_a_profiler_beside_an_observer_of_operations() -> None:
    f = wg.jit(lambda x: wg.exp(x) * 2.0)
    f(wg.ones(3))
    with observing(outer := Names(inlines=False)):
        f(wg.ones(3))
        with observing(inner := Names()):
            f(wg.ones(3))
    assert inner.names == ["exp", "multiply"]
    assert outer.names[-2:] == ["exp", "multiply"]


def test_an_observer_inside_of_a_recording() -> None:
    recorder = Recorder()
    with recorder.recording():
        x = wg.tensor(X)
        with observing(inner := Names()):
            wg.exp(x)
    assert inner.names == ["exp"]
    assert "exp" in [e.op.name for tape in recorder.tapes for e in tape.entries if type(e) is Ran]


def test_a_node_is_known_to_both_and_restored() -> None:
    graph = wg.graph(lambda x: wg.exp(x))(wg.spec((3,)))

    class Looks(Names):
        def step(self, op: Any, *rest: Any, **more: Any) -> None:
            self.names.append(None if self.node is None else self.node.op.name)

    with observing(outer := Looks()):
        with observing(inner := Looks()):
            graph(wg.ones(3))
        wg.sin(wg.ones(3))
    assert (inner.names, outer.names) == (["exp"], ["exp", None])
    assert inner.node is outer.node is None


def test_another_thread_is_not_seen() -> None:
    with observing(seen := Names()):
        thread = threading.Thread(target=lambda: wg.exp(wg.ones(3)))
        thread.start()
        thread.join()
    assert seen.names == []


def test_a_mode_set_while_somebody_observes_stays() -> None:
    try:
        with observing(Names()):
            wg.set_grad_enabled(False)
        assert not wg.is_grad_enabled()
    finally:
        wg.set_grad_enabled(True)


# -- exceptions of observers


class Refuses(Observer):
    """Raises in one of its methods, once."""

    def __init__(self, method: str, error: BaseException) -> None:
        super().__init__()
        self.method, self.error, self.count = method, error, 0


def _refusing(method: str) -> Callable[..., None]:
    def tell(self: Refuses, *args: Any, **kwargs: Any) -> None:
        if method == self.method and not self.count:
            self.count += 1
            raise self.error

    return tell


for _method in ("step", "made", "pulled", "pass_begins", "pass_ends", "leak", "optimizing", "updated", "ran"):
    setattr(Refuses, _method, _refusing(_method))

ERRORS = [AttributeError, ValueError, RuntimeWarning, OverflowError, TypeError, wg.GraphError, KeyboardInterrupt]


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: e.__name__)
@pytest.mark.parametrize("name", FAST_PATHS)
def test_what_an_observer_raises_reaches_the_program(name: str, error: type[BaseException]) -> None:
    x, y = wg.tensor(X), wg.tensor(X[::-1].copy())
    raised = error("mine")
    with observing(seen := Refuses("step", raised)):
        with pytest.raises(error) as caught:
            FAST_PATHS[name](x, y)
        assert caught.value is raised
        assert (seen.quiet, seen.node) == (0, None)
        FAST_PATHS[name](x, y)  # and all is as it was
    assert observers == []


@pytest.mark.parametrize("method", ["made", "pulled", "pass_begins", "pass_ends", "optimizing", "updated", "leak"])
def test_what_an_observer_raises_leaves_all_whole(method: str) -> None:
    a, b = wg.tensor(X, requires_grad=True), wg.tensor(X * 2, requires_grad=True)

    def program() -> float:
        a.grad = b.grad = None
        loss = (a * b).sum()
        loss.backward()
        wg.optim.SGD([a, b], lr=0.5).step()
        return loss.item()

    with observing(seen := Refuses(method, AttributeError("mine"))):
        with pytest.raises(AttributeError, match="mine"):
            program()
        assert seen.quiet == 0
        if method == "updated":  # both have made the step
            np.testing.assert_allclose(a._array, X - 0.5 * X * 2)
            np.testing.assert_allclose(b._array, X * 2 - 0.5 * X)
        assert wg.is_grad_enabled()
        before = a._array.copy()
        program()
        assert not np.array_equal(a._array, before)
    assert observers == []


def test_what_an_observer_of_programs_raises() -> None:
    pytest.importorskip("llvmlite")
    w = wg.tensor([1.0])

    @wg.jit
    def add(x: Any) -> Any:
        w.add_(x)
        return w * 1.0

    add(wg.ones(1)), add(wg.ones(1))
    seen = Refuses("ran", ValueError("mine"))
    seen.inlines = False  # type: ignore[misc]
    with observing(seen), pytest.raises(ValueError, match="mine"):
        add(wg.ones(1))
    before = w.item()
    assert add(wg.ones(1)).item() == before + 1.0
    assert w.item() == before + 1.0


def test_blocks_end_in_any_order() -> None:
    """Generators end their blocks when they are collected, which is not always in the order of the blocks."""
    first, second = ExitStack(), ExitStack()
    first.enter_context(observing(a := Names()))
    second.enter_context(observing(b := Names()))
    second.close()
    wg.exp(wg.ones(2))
    first.close()
    assert (a.names, b.names) == (["exp"], [])
    assert observers == []
    assert seam.observer() is None


def test_importing_does_not_observe() -> None:
    importlib.import_module("wengert.explain")
    assert observers == []
    assert isinstance(wg.exp(wg.ones(2)), Tensor)
