"""`wg.jit`: how long programs are kept, what they keep, and what is in a copy of a compiled function."""

from __future__ import annotations

import copy
import functools
import gc
import pickle
import subprocess
import sys
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert import nn, optim
from wengert.execute.jit import variants
from wengert.execute.jit.jit import Jit
from wengert.execute.native.dispatch import entry


@pytest.fixture(autouse=True)
def quietly() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(?s).*(was traced .* times because|took .* paths by)", RuntimeWarning)
        yield


@pytest.fixture(scope="module", autouse=True)
def only_what_is_made_here_is_collected() -> None:
    """What was there before is left out of the many collections that follow, which would take longer than the tests."""
    gc.collect()
    gc.freeze()


def close(a: Any, b: Any) -> None:
    np.testing.assert_allclose(np.asarray(wg.asarray(a).detach()), np.asarray(wg.asarray(b).detach()), rtol=1e-5)


# -- programs that come round again


def test_three_hundred_shapes_take_three_hundred_traces() -> None:
    fn = wg.jit(lambda x: (x * 2).sum())
    arrays = [np.ones(1 + i, np.float32) for i in range(300)]
    for i in range(1_800):
        x = arrays[i * 7 % 300]
        assert float(fn(x)) == 2 * len(x)
    assert fn.cache_info() == (300, 300, 300)


@pytest.mark.parametrize(
    ("kind", "count"),
    [("float", 280), ("int", 70), ("truth of many", 64), ("string", 70), ("a number that has to be one", 70)],
)
def test_values_that_come_again_are_traced_once_each(kind: str, count: int) -> None:
    x = wg.ones(2)
    make: dict[str, tuple[Callable[..., Any], Callable[[int], Any], Callable[[int], float]]] = {
        "float": (lambda x, v: x * float(v), lambda i: wg.tensor(float(i)), float),
        "int": (lambda x, v: x * int(v), lambda i: wg.tensor(i), float),
        "truth of many": (
            lambda x, v: x * sum(2.0**k for k in range(6) if v[k]),
            lambda i: wg.tensor([bool(i >> k & 1) for k in range(6)]),
            float,
        ),
        "string": (lambda x, v: x * len(v), lambda i: "a" * i, float),
        "a number that has to be one": (lambda x, v: wg.zeros(v).sum() + x * len(range(v)), int, float),
    }
    fn, value, want = make[kind]
    compiled = wg.jit(fn)
    for i in range(4 * count):
        i = i * 3 % count
        close(compiled(x, value(i)), x * want(i))
    info = compiled.cache_info()
    assert info.paths <= count
    # An int is tried as an input once.
    assert info.traces <= count + 2


def test_what_never_comes_again_has_little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variants, "ROOM", 20 * variants.EACH)
    fn = wg.jit(lambda x: x * 2)
    for i in range(1, 100):
        close(fn(wg.ones(i)), wg.full((i,), 2.0))
    assert fn.cache_info().programs < 20
    values = wg.jit(lambda x, v: x * float(v))
    for i in range(100):
        close(values(wg.ones(2), wg.tensor(float(i))), wg.full((2,), float(i)))
    assert values.cache_info().paths < 20


def test_constants_take_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variants, "ROOM", 10 * variants.EACH)
    monkeypatch.setattr(variants, "MOST", 10 * variants.EACH)
    table = np.ones(3 * variants.EACH * variants.NODE // 4, np.float32)
    fn = wg.jit(lambda x: x.sum() * table)
    with pytest.warns(RuntimeWarning, match="table is a NumPy array"):
        assert float(fn(wg.ones(1))[0]) == 1
    for i in range(2, 9):
        assert float(fn(wg.ones(i))[0]) == i
    assert fn.cache_info().programs == 2


@pytest.mark.parametrize("kind", ["shapes", "values"])
def test_what_comes_again_gets_room(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(variants, "ROOM", 10 * variants.EACH)
    monkeypatch.setattr(variants, "MOST", 60 * variants.EACH)
    fn = wg.jit((lambda x, v: x * 2) if kind == "shapes" else (lambda x, v: x[:2] * float(v)))

    def call(i: int) -> None:
        x, v = wg.ones(1 + i) if kind == "shapes" else wg.ones(3), wg.tensor(float(i))
        close(fn(x, v), x * 2 if kind == "shapes" else x[:2] * i)

    for _ in range(5):
        for i in range(40):
            call(i)
    before = fn.cache_info().traces
    assert before < 5 * 40
    for _ in range(5):
        for i in range(40):
            call(i)
    assert fn.cache_info().traces == before
    for i in range(40, 200):  # and not more than the most
        call(i)
    assert fn.cache_info().paths <= 60


def test_programs_of_the_short_way_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variants, "ROOM", 10 * variants.EACH)
    monkeypatch.setattr(variants, "MOST", 10 * variants.EACH)
    fn = wg.jit(lambda x: x * 2)
    usual = wg.ones(1000)
    for i in range(1, 100):
        for _ in range(8):
            fn(usual)
        fn(wg.ones(i))
    assert fn.cache_info().traces == 100


def test_a_kind_of_call_that_comes_back_gets_its_short_way_again() -> None:
    fn = wg.jit(lambda x: x * 2)
    shapes = [wg.ones(i) for i in range(1, 40)]
    for _ in range(3):
        for x in shapes:
            for _ in range(6):
                fn(x)
        assert fn._short[0](shapes[-1]).tolist() == [2.0] * 39
    assert len(fn._short) <= 8
    assert fn.cache_info().traces == 39


# -- what programs keep


class Net(nn.Module):
    def __init__(self, kind: str = "") -> None:
        super().__init__()
        self.inner = nn.Linear(50, 50)
        self.note: Any = None
        if kind == "knows its parent":
            object.__setattr__(self.inner, "parent", [self])
        if kind == "has a hook of its own":
            self.inner.register_forward_hook(lambda m, args, out: out + (0.0 if self.note is None else 1.0))
        if kind == "has a method of its own":
            self.act = self.relu
        if kind == "is compiled inside":
            self.step = wg.jit(self.relu)

    def relu(self, x: Any) -> Any:
        return wg.relu(self.inner(x))

    def forward(self, x: Any) -> Any:
        return self.inner(x) if self.note is None else self.relu(x)


KINDS = ["", "knows its parent", "has a hook of its own", "has a method of its own", "is compiled inside"]


@pytest.fixture(params=["native", "python"])
def way(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "python":
        monkeypatch.setattr(entry, "entry", lambda: None)


def gone(*refs: Any) -> bool:
    gc.collect()
    return not any(r() is not None for r in refs)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("use", ["compiled", "argument", "closure", "method"])
def test_modules_are_freed(kind: str, use: str) -> None:
    lasting = wg.jit(lambda model, x: model(x))
    for _ in range(3):
        net = Net(kind)
        refs = weakref.ref(net), weakref.ref(net.inner.weight)
        fn: Any = {
            "compiled": lambda net=net: wg.jit(net),
            "argument": lambda net=net: functools.partial(lasting, net),
            "closure": lambda net=net: wg.jit(lambda x: net(x)),
            "method": lambda net=net: wg.jit(net.relu),
        }[use]()
        for _ in range(8):
            fn(wg.ones(2, 50))
            if kind == "is compiled inside":
                net.step(wg.ones(2, 50))
        del net, fn
        assert gone(*refs)
    if use == "argument":
        assert lasting.cache_info().traces == 1
        assert not lasting._short


def test_modules_with_a_decorated_forward_are_freed() -> None:
    for _ in range(3):
        net = Decorated()
        refs = weakref.ref(net), weakref.ref(net.layer.weight)
        for _ in range(8):
            net(wg.ones(2, 2))
        del net
        assert gone(*refs)


@pytest.mark.usefixtures("way")
def test_models_and_optimisers_among_the_arguments_are_freed() -> None:
    def step(model: Any, opt: Any, x: Any) -> Any:
        loss = (model(x) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    compiled = wg.jit(step)
    model = Net()
    for _ in range(3):  # several optimisers of one model
        opt = optim.Adam(model.parameters())
        ref = weakref.ref(opt)
        for _ in range(8):
            compiled(model, opt, wg.ones(2, 50))
        del opt
        assert gone(ref)
    opt = optim.Adam(model.parameters())
    refs = weakref.ref(model), weakref.ref(opt), weakref.ref(model.inner.weight)
    for _ in range(8):
        compiled(model, opt, wg.ones(2, 50))
    del model, opt
    assert gone(*refs)


class Thing:
    def __init__(self) -> None:
        self.w = wg.ones(100)

    def scale(self, x: Any) -> Any:
        return x * self.w


@pytest.mark.usefixtures("way")
def test_functions_and_objects_among_the_arguments_are_freed() -> None:
    compiled = wg.jit(lambda f, thing, x: f(x) * thing.w)
    for _ in range(3):
        thing, held = Thing(), wg.ones(100)

        def fn(x: Any, held: Any = held) -> Any:
            return x * held

        refs = weakref.ref(thing), weakref.ref(fn), weakref.ref(held), weakref.ref(thing.w)
        for _ in range(8):
            compiled(fn, thing, wg.ones(100))
        del thing, fn, held
        assert gone(*refs)
    lasting = Thing()
    for _ in range(3):

        def other(x: Any) -> Any:
            return x * lasting.w

        ref = weakref.ref(other)
        for _ in range(8):
            compiled(other, lasting, wg.ones(100))
        del other
        assert gone(ref)
    for _ in range(3):
        thing = Thing()
        refs = weakref.ref(thing), weakref.ref(thing.w)
        for _ in range(8):
            compiled(thing.scale, thing, wg.ones(100))
        del thing
        assert gone(*refs)


@pytest.mark.usefixtures("way")
def test_tensors_and_objects_that_were_replaced_are_freed() -> None:
    thing = Thing()
    box = types.SimpleNamespace(part=Thing(), items=[wg.ones(100)], table={"a": wg.ones(100)})
    compiled = wg.jit(lambda x: thing.scale(x) * box.part.w * box.items[0] * box.table["a"])
    for _ in range(3):
        for _ in range(8):
            compiled(wg.ones(100))
        refs = [weakref.ref(t) for t in (thing.w, box.part, box.part.w, box.items[0], box.table["a"])]
        thing.w, box.part, box.items[0], box.table["a"] = wg.ones(100), Thing(), wg.ones(100), wg.ones(100)
        compiled(wg.ones(100))
        assert gone(*refs)


def test_what_is_kept_for_a_function_goes_with_the_function() -> None:
    model = Net()
    for _ in range(3):
        fn = wg.jit(lambda net, x: net(x))
        for _ in range(8):
            fn(model, wg.ones(2, 50))
        ref, path = weakref.ref(fn), weakref.ref(fn._last.executor)
        del fn
        assert gone(ref, path)
    assert not model._compiled.guests


def test_clearing_in_the_midst_of_a_call() -> None:
    """What a native call needs stays until it is over, even where an argument had kept it."""
    model = Net()
    clear = []

    def look(x: Any) -> Any:
        if clear:
            fn.clear_cache()
            gc.collect()
        return x * 1

    fn = wg.jit(lambda net, x: net(wg.callback(look, wg.spec((2, 50)), x)) * 2)
    want = fn(model, wg.ones(2, 50))
    for _ in range(8):
        close(fn(model, wg.ones(2, 50)), want)
    clear.append(True)
    for _ in range(3):
        close(fn(model, wg.ones(2, 50)), want)


def test_objects_that_take_the_place_of_others_are_not_taken_for_them() -> None:
    """An object may stand where one stood that is gone, at the same address."""
    fn = wg.jit(lambda thing, x: x * thing.k)
    x = wg.ones(2)
    addresses = set()
    for i in range(60):
        thing = Thing()
        thing.k = float(i)  # type: ignore[attr-defined]
        addresses.add(id(thing))
        for _ in range(6):
            close(fn(thing, x), [float(i)] * 2)
        del thing
    assert len(addresses) < 60


# -- copies


@wg.jit
def decorated(x: Any) -> Any:
    """Twice x."""
    return x * 2


def plain(x: Any) -> Any:
    return x * 3


named = wg.jit(plain, name="three times")


class Own:
    def __init__(self) -> None:
        self.k = 2.0

    def run(self, x: Any) -> Any:
        return x * self.k


class Compiled(nn.Module):
    """A module whose forward is compiled, and which knows its optimiser."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.forward = wg.jit(self.forward)  # type: ignore[method-assign]
        self.opt = optim.Adam(self.layer.parameters(), lr=0.1)
        self.train_step = wg.jit(self.update)

    def forward(self, x: Any) -> Any:
        return wg.tanh(self.layer(x))

    def update(self, x: Any) -> Any:
        loss = (self.forward(x) ** 2).sum()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss


class Decorated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)

    @wg.jit
    def forward(self, x: Any) -> Any:
        return self.layer(x)


COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "old pickle": lambda x: pickle.loads(pickle.dumps(x, 2)),
}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("calls", [0, 8])
@pytest.mark.parametrize(
    "make",
    [lambda: decorated, lambda: named, lambda: wg.jit(Own().run), lambda: wg.jit(nn.Linear(2, 2)), Compiled, Decorated],
    ids=["decorated", "named", "method", "module", "module with a compiled forward", "module with a decorated one"],
)
def test_copies_compute_the_same(make: Callable[[], Any], calls: int, how: str) -> None:
    fn = make()
    x = wg.ones(2, 2)
    for _ in range(calls):
        fn(x)
    made = COPIES[how](fn)
    for _ in range(8):
        close(made(x), fn(x))
    if isinstance(fn, Jit) and made is not fn:
        assert made.cache_info().traces == 1
        assert (made._name, made.__doc__) == (fn._name, fn.__doc__)


def test_options_are_those_of_the_original() -> None:
    fn = wg.jit(plain, donate_argnums=0)
    for how in COPIES.values():
        x = wg.ones(2)
        made = how(fn)
        close(made(x), [3, 3])
        with pytest.raises(wg.GraphError, match="donated"):
            x.tolist()


@pytest.mark.parametrize("how", ["deepcopy", "pickle"])
def test_a_copy_has_state_of_its_own(how: str) -> None:
    model = Compiled()
    x = wg.ones(2, 2)
    for _ in range(6):
        model.train_step(x)
    other = COPIES[how](model)
    before = model.layer.weight.tolist()
    wanted = [float(other.train_step(x)) for _ in range(6)]
    assert model.layer.weight.tolist() == before
    assert [float(model.train_step(x)) for _ in range(6)] == pytest.approx(wanted, rel=1e-5)
    close(other.layer.weight, model.layer.weight)


def test_a_model_and_its_optimiser_copied_together() -> None:
    step = wg.jit(lambda model, opt, x: (opt.zero_grad(), (model(x) ** 2).sum().backward(), opt.step())[2])
    model = nn.Linear(2, 2)
    opt = optim.Adam(model.parameters())
    for _ in range(6):
        step(model, opt, wg.ones(1, 2))
    for how in ("deepcopy", "pickle"):
        twin, rule = COPIES[how]((model, opt))
        assert twin._compiled is None
        for _ in range(6):
            step(twin, rule, wg.ones(1, 2))
        assert rule.param_groups[0]["params"][0] is twin.weight
        assert twin.weight.tolist() != model.weight.tolist()


def test_what_cannot_be_pickled_says_why() -> None:
    def local(x: Any) -> Any:
        return x

    for fn in (wg.jit(lambda x: x), wg.jit(local), wg.jit(wg.grad(lambda x: x))):
        with pytest.raises(
            wg.GraphError, match=r"(?s)cannot be pickled.*test_jit_kept.py:\d+.*top of a module"
        ) as caught:
            pickle.dumps(fn)
        assert isinstance(caught.value, pickle.PicklingError)
        close(copy.deepcopy(fn)(wg.tensor(2.0)), fn(wg.tensor(2.0)))
    with pytest.raises(wg.GraphError, match="ahead of time"):
        copy.deepcopy(decorated.lower(wg.spec((2,))).compile())


def test_compiled_functions_in_another_process(tmp_path: Path) -> None:
    (tmp_path / "some_model.py").write_text(
        "import wengert as wg\n"
        "class Model(wg.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layer = wg.nn.Linear(2, 1)\n"
        "        self.forward = wg.jit(self.forward)\n"
        "    def forward(self, x):\n"
        "        return self.layer(x)\n"
        "@wg.jit\n"
        "def twice(x):\n"
        "    return x * 2\n"
    )
    write = (
        "import pickle, sys; import wengert as wg; from some_model import Model, twice\n"
        "model = Model(); [model(wg.ones(3, 2)) for _ in range(6)]; [twice(wg.ones(2)) for _ in range(6)]\n"
        "open('kept', 'wb').write(pickle.dumps((model, twice, model(wg.ones(3, 2)).detach())))"
    )
    read = (
        "import pickle; import wengert as wg\n"
        "model, twice, want = pickle.load(open('kept', 'rb'))\n"
        "print([model(wg.ones(3, 2)).detach().tolist() == want.tolist() for _ in range(6)], twice(wg.ones(2)).tolist())"
    )
    for code in (write, read):
        found = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert found.returncode == 0, found.stderr
    assert found.stdout.strip() == f"{[True] * 6} [2.0, 2.0]"
