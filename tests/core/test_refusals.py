"""No code can swallow what a trace or a derivative refuses: a call gives what plain Python gives, or raises."""

from __future__ import annotations

import contextlib
import copy
import logging
import math
import operator
import pickle
import pprint
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch

VALUES = [1.0, -2.0, 3.0]
Function = Callable[[Any], Any]

# What Python code does with values: each is refused in a trace, or a decision of the program.
EXPRESSIONS: dict[str, Function] = {
    "a mask": lambda x: x[x > 0].sum(),
    "item": lambda x: x.sum().item(),
    "item of an element": lambda x: x[0].item(),
    "tolist": lambda x: sum(x.tolist()),
    "numpy": lambda x: float(x.detach().numpy().sum()),
    "asarray": lambda x: float(np.asarray(x.detach()).max()),
    "a function of NumPy's": lambda x: float(np.histogram(x.detach())[1][-1]),
    "float": lambda x: float(x.sum()),
    "int": lambda x: int(x.sum()),
    "complex": lambda x: complex(x.sum()).real,
    "math": lambda x: math.exp(x.sum()),
    "round": lambda x: round(float(x.sum())),
    "an index": lambda x: VALUES[operator.index(x.argmax())],
    "a range": lambda x: len(range(x.argmax())),
    "a branch": lambda x: 1.0 if x.sum() > 0 else 2.0,
    "in": lambda x: 1.0 if 3.0 in x else 2.0,
    "nonzero": lambda x: x.nonzero()[0].sum() + 1,
    "a text": lambda x: float(f"{x.sum():.3f}"),
    "str": lambda x: len(str(x)),
    "repr": lambda x: len(repr(x)),
    "repr of a list": lambda x: len(repr([x])),
    "percent r": lambda x: len("%r" % [x]),
    "pprint": lambda x: len(pprint.pformat({"x": x})),
    "deepcopy": lambda x: copy.deepcopy(x.detach()).sum(),
    "pickle": lambda x: len(pickle.dumps(x.detach())),
    "dlpack": lambda x: float(np.from_dlpack(x.detach()).sum()),
    "a NumPy array": lambda x: float(_filled(x).sum()),
}
# Programs take these by the values that they have, and compile what follows from that.
DECISIONS = {"float", "int", "complex", "math", "round", "an index", "a range", "a branch", "a NumPy array"}
# Outside of compiled functions a tensor without a value has a text.
TEXTS = {"str", "repr", "repr of a list", "percent r", "pprint"}


def _filled(x: Any) -> np.ndarray:
    out = np.zeros(3)
    for i in range(3):
        out[i] = x[i]
    return out


def guarded(expression: Function) -> Function:
    """A function that goes on without what an expression gives."""

    def run(x: Any) -> Any:
        try:
            found = expression(x)
        except Exception:
            found = 1000.0
        return x.sum() * found

    return run


def in_jit(f: Function) -> Any:
    return wg.jit(f)(wg.tensor(VALUES))


def in_vmap(f: Function) -> Any:
    return wg.vmap(f)(wg.tensor([VALUES]))[0]


def in_graph(f: Function) -> Any:
    return wg.graph(f)(wg.spec((3,)))(wg.tensor(VALUES))


def in_scan(f: Function) -> Any:
    rows = wg.tensor([VALUES])
    return wg.jit(lambda xs: wg.scan(lambda c, x: (c, f(x)), wg.tensor(0.0), xs)[1])(rows)[0]


TRACES = {"jit": in_jit, "vmap": in_vmap, "graph": in_graph, "scan": in_scan}


@pytest.mark.parametrize("trace", TRACES)
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_a_refusal_that_is_taken_is_raised_again(name: str, trace: str) -> None:
    f = guarded(EXPRESSIONS[name])
    if trace == "jit" and name in DECISIONS:
        assert float(in_jit(f)) == pytest.approx(float(f(wg.tensor(VALUES))))
        return
    if trace in ("vmap", "graph") and name in TEXTS:
        assert float(TRACES[trace](f)) != 1000.0 * sum(VALUES)
        return
    with pytest.raises(wg.TraceError) as caught:
        TRACES[trace](f)
    assert not isinstance(caught.value, (ValueError, TypeError, RuntimeError, LookupError, ArithmeticError))


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_torch_compile_runs_eagerly_where_a_refusal_is_taken(name: str) -> None:
    f = guarded(EXPRESSIONS[name])
    compiled, x = torch.compile(f), torch.tensor(VALUES)
    with pytest.warns(UserWarning, match="runs eagerly") if name not in DECISIONS else contextlib.nullcontext():
        found = float(compiled(x))
    assert found == pytest.approx(float(f(x)))
    assert float(compiled(2 * x)) == pytest.approx(float(f(2 * x)))


CUTS = ("item", "tolist", "float", "complex", "math", "a NumPy array")


@pytest.mark.parametrize("name", CUTS)
def test_a_cut_that_is_taken_is_raised_again(name: str) -> None:
    f, x = guarded(EXPRESSIONS[name]), wg.tensor(VALUES)
    for derivative in (
        lambda: wg.grad(f)(x),
        lambda: wg.value_and_grad(f)(x),
        lambda: wg.vjp(f, x),
        lambda: wg.jvp(f, (x,), (x,)),
        lambda: wg.jacobian(f)(x),
        lambda: wg.hessian(f)(x),
        lambda: wg.taylor(f, x, order=2, direction=x),
        lambda: wg.jit(wg.grad(f))(x),
        lambda: wg.grad(wg.jit(f))(x),
        lambda: wg.vmap(wg.grad(f))(wg.stack([x])),
    ):
        with pytest.raises(wg.GradientError, match="that is being differentiated"):
            derivative()


# -- who takes it


def by_class(x: Any) -> Any:
    try:
        return x[x > 0].sum()
    except (ZeroDivisionError, wg.TraceError):
        return x.sum() * 1000


def by_all(x: Any) -> Any:
    try:
        return x[x > 0].sum()
    except:  # noqa: E722
        return x.sum() * 1000


def by_finally(x: Any) -> Any:
    try:
        x = x[x > 0]
    finally:
        return x.sum() * 1000  # noqa: B012


def by_suppress(x: Any) -> Any:
    with contextlib.suppress(Exception):
        x = x[x > 0]
    return x.sum() * 1000


def by_a_generator(x: Any) -> Any:
    def rows() -> Iterator[Any]:
        for _ in range(2):
            try:
                yield x[x > 0].sum()
            except Exception:
                yield 1000.0

    return x.sum() * sum(rows())


def by_a_caller(x: Any) -> Any:
    def inner() -> Any:
        try:
            return x[x > 0].sum()
        except ValueError:
            return 1.0
        finally:
            x.sum()

    try:
        return inner()
    except Exception:
        return x.sum() * 1000


def by_another_error(x: Any) -> Any:
    try:
        return x[x > 0].sum()
    except Exception as e:
        raise ValueError("it has no positive elements") from e


def by_a_thread(x: Any) -> Any:
    found = []

    def run() -> None:
        try:
            found.append(x[x > 0].sum())
        except Exception:
            found.append(1000.0)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return x.sum() * found[0]


POOL = ThreadPoolExecutor(1)


def by_a_pool(x: Any) -> Any:
    def run() -> Any:
        try:
            return x[x > 0].sum()
        except Exception:
            return 1000.0

    return x.sum() * POOL.submit(run).result()


TAKERS = {
    by_class: "except (ZeroDivisionError, wg.TraceError)",
    by_all: "except:",
    by_finally: "return",
    by_suppress: "with contextlib.suppress(Exception)",
    by_a_generator: "except Exception",
    by_a_caller: "except Exception:",
    by_another_error: "except Exception as e",
    by_a_thread: "except Exception",
    by_a_pool: "except Exception",
}


def test_what_another_thread_reads_meanwhile_marks_nothing() -> None:
    w = wg.tensor(VALUES)
    POOL.submit(int).result()
    errors: list[Exception] = []

    def read() -> None:
        try:
            w.tolist()
        except wg.TraceError as e:
            errors.append(e)

    def f(x: Any) -> Any:
        POOL.submit(read).result()
        return x * w

    assert wg.jit(f)(wg.tensor(VALUES)).tolist() == [1.0, 4.0, 9.0]
    assert len(errors) == 1


@pytest.mark.parametrize("trace", TRACES)
@pytest.mark.parametrize("f", TAKERS)
def test_the_error_names_what_raised_and_what_took_it(f: Function, trace: str) -> None:
    with pytest.raises(wg.TraceError) as caught:
        TRACES[trace](f)
    lines = Path(__file__).read_text().splitlines()
    first, *_, last = str(caught.value).splitlines()
    raised = re.search(rf"\({re.escape(__file__)}:(\d+)\)$", first)
    taken = re.match(rf"The `(\w+)` at {re.escape(__file__)}:(\d+) took this error inside ", last)
    assert raised is not None, first
    assert taken is not None, last
    assert "x[x > 0]" in lines[int(raised[1]) - 1]
    assert TAKERS[f] in lines[int(taken[2]) - 1], lines[int(taken[2]) - 1]


@pytest.mark.parametrize("trace", TRACES)
def test_classes_that_programs_catch_do_not_take_it(trace: str) -> None:
    def f(x: Any) -> Any:
        try:
            return x[x > 0].sum()
        except (ValueError, TypeError, RuntimeError, LookupError, ArithmeticError, AttributeError):
            return x.sum() * 1000

    with pytest.raises(wg.TraceError) as caught:
        TRACES[trace](f)
    assert "took this error" not in str(caught.value)


def test_a_log_that_swallows_errors(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        logger = logging.getLogger("swallowed")
        logger.propagate = False
        logger.addHandler(handler := logging.StreamHandler())
        logger.error("x is %s", x)
        logger.removeHandler(handler)
        return x * 2

    with pytest.raises(wg.TraceError, match=r"(?s)showing a tensor.*The `except` at \S*logging\S* took this error"):
        wg.jit(f)(wg.tensor(VALUES))


# -- what is not a swallowed refusal


def test_a_refusal_of_an_inner_transform_is_caught_as_in_a_plain_call() -> None:
    def f(x: Any) -> Any:
        try:
            return wg.vmap(lambda row: row[row > 0].sum())(wg.stack([x, x])).sum()
        except wg.TraceError:
            return x.sum() * 7

    x = wg.tensor(VALUES)
    assert float(wg.jit(f)(x)) == float(f(x)) == 14.0

    def g(x: Any) -> Any:
        try:
            return wg.grad(lambda v: v * float(v))(x.sum())
        except wg.GradientError:
            return x.sum() * 7

    assert float(wg.jit(g)(x)) == float(g(x)) == 14.0
    assert wg.grad(g)(x).tolist() == [7.0, 7.0, 7.0]


def test_a_refusal_of_the_outer_trace_marks_it_through_inner_ones() -> None:
    def f(x: Any) -> Any:
        try:
            return wg.vmap(lambda row: row * x[x > 0].sum())(wg.stack([x, x])).sum()
        except wg.TraceError:
            return x.sum() * 7

    x = wg.tensor(VALUES)
    assert float(f(x)) == 16.0
    with pytest.raises(wg.TraceError, match="took this error inside f"):
        wg.jit(f)(x)


def test_errors_of_plain_calls_are_caught_in_traces_too() -> None:
    w = wg.tensor([1.0, 2.0], requires_grad=True)

    def f(x: Any) -> Any:
        found = 0.0
        for fails in (lambda: x.reshape(7), lambda: x @ wg.ones(5), lambda: np.asarray(w), lambda: x.sum().shape[0]):
            try:
                fails()
            except (ValueError, RuntimeError, IndexError):
                found += 1.0
        return x.sum() * found

    for trace in TRACES.values():
        assert float(trace(f)) == 8.0
    assert wg.grad(f)(wg.tensor(VALUES)).tolist() == [4.0, 4.0, 4.0]


def test_probes_that_take_nothing() -> None:
    def f(x: Any) -> Any:
        known = [hasattr(x, "shape"), hasattr(x, "nothing"), getattr(x, "nothing", None) is None, callable(x)]
        assert known == [True, False, True, False]
        return x * 2

    for trace in TRACES.values():
        assert trace(f).tolist() == [2.0, -4.0, 6.0]


def test_what_the_library_tries_itself_marks_nothing() -> None:
    def f(x: Any) -> Any:
        # A distribution decides in a compiled function, and leaves the check out where rows have no values.
        return wg.vmap(lambda row: torch.distributions.Normal(0.0, 1.0).log_prob(row).sum())(wg.stack([x, x])).sum()

    x = torch.tensor(VALUES)
    assert float(wg.jit(f)(x)) == pytest.approx(float(f(x)))


def test_a_number_that_is_wanted_as_such_makes_a_new_trace() -> None:
    def f(x: Any, n: float) -> Any:
        try:
            return x * math.floor(n)
        except Exception:
            return x * 1000

    compiled, x = wg.jit(f), wg.tensor(VALUES)
    for n in (2.5, 3.5, 4.5):
        assert compiled(x, n).tolist() == f(x, n).tolist()
        assert wg.grad(lambda x, n=n: compiled(x, n).sum())(x).tolist() == [math.floor(n)] * 3


def test_a_mask_from_outside_stays_a_constant_where_everything_is_caught() -> None:
    mask = wg.tensor([True, False, True])

    def f(x: Any) -> Any:
        try:
            return x[mask].sum()
        except:  # noqa: E722
            return x.sum() * 1000

    x = wg.tensor(VALUES)
    assert float(wg.jit(f)(x)) == 4.0
    assert wg.grad(wg.jit(f))(x).tolist() == [1.0, 0.0, 1.0]
    assert wg.jit(wg.grad(f))(x).tolist() == [1.0, 0.0, 1.0]


def test_the_first_refusal_is_raised_and_the_next_call_is_as_before() -> None:
    @wg.jit
    def f(x: Any, guards: bool) -> Any:
        if guards:
            return guarded(EXPRESSIONS["a mask"])(x)
        return x * 2

    x = wg.tensor(VALUES)
    for _ in range(2):
        with pytest.raises(wg.TraceError, match="an abstract mask"):
            f(x, True)
        assert f(x, False).tolist() == [2.0, -4.0, 6.0]


def test_debuggers_see_tensors_without_values() -> None:
    shown: list[str] = []
    show = eval("lambda x: repr(x)", {"__name__": "pdb"})

    def f(x: Any) -> Any:
        shown.append(show(x))
        return x * 2

    assert wg.jit(f)(wg.tensor(VALUES)).tolist() == [2.0, -4.0, 6.0]
    assert shown[0].startswith("tensor(<abstract>")


def test_a_refusal_in_other_words_of_the_library_leaves_as_it_is() -> None:
    def translated(x: Any) -> Any:
        try:
            return x * int(x.sum())
        except wg.WengertError:
            raise wg.ShapeError("the library's own words") from None

    for trace in (in_vmap, in_graph):
        with pytest.raises(wg.ShapeError, match="own words"):
            trace(translated)
        with pytest.raises(wg.TraceError, match="took this error"):
            trace(guarded(translated))
