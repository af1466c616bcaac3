"""`wg.jit`: programs depend on all that their traces read outside of tensors, and on nothing else.

Every program is run eagerly and compiled, through several changes of what is around it, each often enough that the
shortest way through a call is taken.
"""

from __future__ import annotations

import argparse
import array
import collections
import contextvars
import copy
import dataclasses
import enum
import functools
import importlib
import math
import operator
import random
import re
import sys
import threading
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
from wengert.execute.jit.capture.outside import Outside
from wengert.execute.native.dispatch import entry

Fn = Callable[..., Any]
# A function of a tensor, and what changes something around it.
Made = tuple[Fn, Callable[[], None]]
# Calls between two changes: the native way is made in the fourth.
CALLS = 6

FACTOR = 1.0
OPTIONS = {"scale": 1.0}
LOSSES: list[float] = []


class Settings:
    scale = 1.0


class Kind(enum.Enum):
    ONE = 1
    TWO = 2


def close(a: Any, b: Any) -> None:
    for x, y in zip(wg.tree.leaves(a), wg.tree.leaves(b), strict=True):
        np.testing.assert_allclose(np.asarray(wg.asarray(x).detach()), np.asarray(wg.asarray(y).detach()), rtol=1e-5)


@pytest.fixture(params=["native", "python"], autouse=True)
def way(request: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Calls by the native entry, and by Python alone; each begins with the same globals."""
    global FACTOR
    if request.param == "python":
        monkeypatch.setattr(entry, "entry", lambda: None)
    FACTOR = 1.0
    OPTIONS.clear()
    OPTIONS["scale"] = 1.0
    LOSSES.clear()
    Settings.scale = 1.0
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(?s).* was traced .* times because", RuntimeWarning)
        yield


class Box:
    """An object with a value, read by those that are given it."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


# -- what is read


def attribute() -> Made:
    box = Box(k=1.0)
    return lambda x: x * box.k, lambda: setattr(box, "k", box.k + 1)


def attribute_of_attribute() -> Made:
    box = Box(inner=Box(k=1.0))
    return lambda x: x * box.inner.k, lambda: setattr(box.inner, "k", box.inner.k + 1)


def attribute_by_a_helper() -> Made:
    box = Box(k=1.0)

    def helper(b: Any) -> Any:
        return b.k

    return lambda x: x * helper(box), lambda: setattr(box, "k", box.k + 1)


def attribute_in_a_list() -> Made:
    boxes = [Box(k=1.0), Box(k=2.0)]
    return lambda x: sum((x * b.k for b in boxes), x), lambda: setattr(boxes[1], "k", boxes[1].k + 1)


def attribute_of_a_method() -> Made:
    class Thing:
        def __init__(self) -> None:
            self.k = 1.0

        def twice(self) -> float:
            return 2 * self.k

        def run(self, x: Any) -> Any:
            return x * self.twice()

    thing = Thing()
    return thing.run, lambda: setattr(thing, "k", thing.k + 1)


def by_a_property() -> Made:
    class Thing:
        def __init__(self) -> None:
            self.hidden = 1.0

        @property
        def k(self) -> float:
            return self.hidden * 2

    thing = Thing()
    return lambda x: x * thing.k, lambda: setattr(thing, "hidden", thing.hidden + 1)


def by_a_cached_property() -> Made:
    class Thing:
        def __init__(self) -> None:
            self.hidden = 1.0

        @functools.cached_property
        def k(self) -> float:
            return self.hidden * 2

    thing = Thing()

    def change() -> None:
        thing.hidden += 1
        thing.__dict__.pop("k", None)

    return lambda x: x * thing.k, change


def by_getattr() -> Made:
    box = Box(k=1.0)
    return lambda x: x * getattr(box, "k"), lambda: setattr(box, "k", box.k + 1)  # noqa: B009


def by_getattr_of_getattr() -> Made:
    box, name = Box(inner=Box(k=1.0, other=2.0)), ["other"]

    def change() -> None:
        box.inner.k += 1
        box.inner.other *= 3

    return lambda x: x * getattr(getattr(box, "inner"), "k") + getattr(box.inner, name.copy()[0]), change  # noqa: B009


ask = getattr


def by_getattr_by_another_name() -> Made:
    box = Box(k=1.0)
    return lambda x: x * ask(box, "k"), lambda: setattr(box, "k", box.k + 1)


def by_getattr_of_a_computed_name() -> Made:
    box = Box(k1=1.0, k2=2.0)
    return (
        lambda x: sum((x * getattr(box, f"k{i}") for i in (1, 2)), x),
        lambda: setattr(box, "k2", box.k2 + 1),
    )


def by_getattr_with_a_default() -> Made:
    box = Box()
    return lambda x: x * getattr(box, "k", 1.0), lambda: setattr(box, "k", getattr(box, "k", 1.0) + 1)


def by_hasattr() -> Made:
    box = Box(other=1.0)

    def change() -> None:
        if hasattr(box, "k"):
            del box.k
            box.other = 1.0
        else:
            del box.other  # as many attributes as before
            box.k = 2.0

    return lambda x: x * (2.0 if hasattr(box, "k") else 1.0), change


def by_trying() -> Made:
    box = Box(other=1.0)

    def fn(x: Any) -> Any:
        try:
            return x * box.k
        except AttributeError:
            return x

    def change() -> None:
        if not hasattr(box, "k"):
            del box.other
        box.k = getattr(box, "k", 1.0) + 1

    return fn, change


def by_vars() -> Made:
    box = Box(k=1.0)
    return lambda x: x * vars(box)["k"], lambda: setattr(box, "k", box.k + 1)


def by_dict() -> Made:
    box = Box(k=1.0)
    return lambda x: x * sum(box.__dict__.values()), lambda: setattr(box, "k", box.k + 1)


def by_attrgetter() -> Made:
    box, get = Box(k=1.0), operator.attrgetter("k")
    return lambda x: x * get(box), lambda: setattr(box, "k", box.k + 1)


def by_copy() -> Made:
    box = Box(k=1.0)
    return lambda x: x * next(iter(copy.copy(box).__dict__.values())), lambda: setattr(box, "k", box.k + 1)


def by_matching() -> Made:
    box = Box(k=1.0)

    def fn(x: Any) -> Any:
        match box:
            case Box(k=value):
                return x * value
        return x

    return fn, lambda: setattr(box, "k", box.k + 1)


def by_an_operator() -> Made:
    class Thing:
        def __init__(self) -> None:
            self.k = 1.0

        def __getitem__(self, i: int) -> float:
            return self.k * i

        def __len__(self) -> int:
            return int(self.k)

    thing = Thing()
    return lambda x: x * thing[2] + len(thing), lambda: setattr(thing, "k", thing.k + 1)


def by_getattr_method() -> Made:
    class Thing:
        def __init__(self) -> None:
            self.values = {"k": 1.0}

        def __getattr__(self, name: str) -> Any:
            return self.values[name]

    thing = Thing()
    return lambda x: x * thing.k, lambda: thing.values.update(k=thing.values["k"] + 1)


def record() -> Made:
    @dataclasses.dataclass
    class Config:
        k: float = 1.0
        name: str = "a"

    config = Config()
    return lambda x: x * config.k, lambda: setattr(config, "k", config.k + 1)


def record_as_a_dict() -> Made:
    @dataclasses.dataclass
    class Config:
        k: float = 1.0
        size: float = 2.0

    config = Config()
    return lambda x: x * sum(dataclasses.asdict(config).values()), lambda: setattr(config, "k", config.k + 1)


def record_by_its_fields() -> Made:
    @dataclasses.dataclass
    class Config:
        k: float = 1.0

    config = Config()
    return (
        lambda x: x * sum(getattr(config, f.name) for f in dataclasses.fields(config)),
        lambda: setattr(config, "k", config.k + 1),
    )


def record_with_slots() -> Made:
    @dataclasses.dataclass(slots=True)
    class Config:
        k: float = 1.0

    config = Config()
    return lambda x: x * config.k, lambda: setattr(config, "k", config.k + 1)


def frozen_record() -> Made:
    @dataclasses.dataclass(frozen=True)
    class Config:
        k: float = 1.0

    box = Box(config=Config())
    return lambda x: x * box.config.k, lambda: setattr(box, "config", Config(box.config.k + 1))


def slots_and_dict() -> Made:
    class Base:
        __slots__ = ("k",)

    class Thing(Base):
        pass

    thing = Thing()
    thing.k = 1.0
    return lambda x: x * thing.k, lambda: setattr(thing, "k", thing.k + 1)


def private_slots() -> Made:
    class Thing:
        __slots__ = ("__k",)

        def __init__(self) -> None:
            self.__k = 1.0

        def run(self, x: Any) -> Any:
            return x * self.__k

        def change(self) -> None:
            self.__k += 1

    thing = Thing()
    return thing.run, thing.change


def simple_namespace() -> Made:
    box = types.SimpleNamespace(k=1.0)
    return lambda x: x * box.k, lambda: setattr(box, "k", box.k + 1)


def arguments_of_a_program() -> Made:
    args = argparse.Namespace(k=1.0)
    return lambda x: x * vars(args)["k"] * args.k, lambda: setattr(args, "k", args.k + 1)


def thread_local() -> Made:
    local = threading.local()
    local.k = 1.0
    return lambda x: x * local.k, lambda: setattr(local, "k", local.k + 1)


def context_variable() -> Made:
    variable = contextvars.ContextVar("variable", default=1.0)
    return lambda x: x * variable.get(), lambda: variable.set(variable.get() + 1) and None


def weak_reference() -> Made:
    box = Box(k=1.0)
    ref = weakref.ref(box)

    def fn(x: Any) -> Any:
        return x * ref().k  # type: ignore[union-attr]

    def change() -> None:
        box.k += 1

    return fn, change


def attribute_of_a_class() -> Made:
    class Thing:
        k = 1.0

        def run(self, x: Any) -> Any:
            return x * self.k

    return Thing().run, lambda: setattr(Thing, "k", Thing.k + 1)


def attribute_of_a_base() -> Made:
    class Base:
        k = 1.0

    class Thing(Base):
        def run(self, x: Any) -> Any:
            return x * self.k

    return Thing().run, lambda: setattr(Base, "k", Base.k + 1)


def attribute_that_hides_that_of_a_class() -> Made:
    class Thing:
        k = 1.0

        def run(self, x: Any) -> Any:
            return x * self.k

    thing = Thing()
    return thing.run, lambda: setattr(thing, "k", thing.k + 1)


def attribute_that_hides_one_in_place_of_another() -> Made:
    class Thing:
        k = 1.0

        def __init__(self) -> None:
            self.other = 1.0

        def run(self, x: Any) -> Any:
            return x * self.k

    thing = Thing()

    def change() -> None:
        thing.__dict__.pop("other", None)
        thing.k += 1

    return thing.run, change


def method_that_is_overridden() -> Made:
    class Base:
        def __init__(self) -> None:
            self.k = 1.0

        def run(self, x: Any) -> Any:
            return x * self.k * FACTOR

    class Thing(Base):
        def run(self, x: Any) -> Any:
            return super().run(x) + 1

    thing = Thing()

    def change() -> None:
        global FACTOR
        thing.k += 1
        FACTOR += 1
        if thing.k == 3:
            Base.run = lambda self, x: x * self.k - 5  # type: ignore[method-assign]

    return thing.run, change


def list_of_a_class() -> Made:
    class Thing:
        sizes = [1.0]  # noqa: RUF012

        def run(self, x: Any) -> Any:
            return x * sum(self.sizes)

    return Thing().run, lambda: Thing.sizes.append(2.0)


def class_method() -> Made:
    class Thing:
        k = 1.0

        @classmethod
        def scale(cls, x: Any) -> Any:
            return x * cls.k

    return lambda x: Thing.scale(x), lambda: setattr(Thing, "k", Thing.k + 1)


def static_method_that_is_replaced() -> Made:
    class Thing:
        @staticmethod
        def scale(x: Any) -> Any:
            return x * 2.0

    factors = iter([3.0, 4.0, 5.0, 6.0])

    def change() -> None:
        factor = next(factors)
        Thing.scale = staticmethod(lambda x: x * factor)  # type: ignore[assignment, method-assign]

    return lambda x: Thing.scale(x), change


def method_that_is_replaced() -> Made:
    class Thing:
        def scale(self, x: Any) -> Any:
            return x * 2.0

        def run(self, x: Any) -> Any:
            return self.scale(x)

    factors = iter([3.0, 4.0, 5.0, 6.0])

    def change() -> None:
        factor = next(factors)
        Thing.scale = lambda self, x: x * factor  # type: ignore[method-assign]

    return Thing().run, change


def code_that_is_replaced() -> Made:
    """What reloading a module in a notebook does to functions that are in use."""

    def helper(x: Any) -> Any:
        return x * 2.0

    codes = iter([lambda x: x * 3.0, lambda x: x * 4.0, lambda x: x * 5.0, lambda x: x * 6.0])

    def change() -> None:
        helper.__code__ = next(codes).__code__

    return lambda x: helper(x), change


def defaults() -> Made:
    def helper(x: Any, k: float = 1.0, sizes: Any = [1.0]) -> Any:  # noqa: B006
        return x * k * sum(sizes)

    def change() -> None:
        k, sizes = helper.__defaults__  # type: ignore[misc]
        sizes.append(k)
        helper.__defaults__ = (k + 1, sizes)

    return lambda x: helper(x), change


def keyword_defaults() -> Made:
    def helper(x: Any, *, k: float = 1.0) -> Any:
        return x * k

    def change() -> None:
        helper.__kwdefaults__["k"] += 1

    return lambda x: helper(x), change


def attribute_of_a_function() -> Made:
    def helper(x: Any) -> Any:
        return x * helper.k  # type: ignore[attr-defined]

    helper.k = 1.0  # type: ignore[attr-defined]
    return lambda x: helper(x), lambda: setattr(helper, "k", helper.k + 1)  # type: ignore[attr-defined]


def closure() -> Made:
    k = 1.0

    def change() -> None:
        nonlocal k
        k += 1

    return lambda x: x * k, change


def partial() -> Made:
    options = {"k": 1.0}
    fn = functools.partial(lambda x, o: x * o["k"], o=options)
    return fn, lambda: options.update(k=options["k"] + 1)


def method_of_a_container() -> Made:
    options = {"k": 1.0}
    get = options.get
    return lambda x: x * get("k"), lambda: options.update(k=options["k"] + 1)


def global_variable() -> Made:
    def change() -> None:
        global FACTOR
        FACTOR += 1

    return lambda x: x * FACTOR, change


def global_dict() -> Made:
    return lambda x: x * OPTIONS["scale"], lambda: OPTIONS.update(scale=OPTIONS["scale"] + 1)


def global_by_globals() -> Made:
    def change() -> None:
        global FACTOR
        FACTOR += 1

    return lambda x: x * globals()["FACTOR"], change


def global_by_a_text() -> Made:
    def change() -> None:
        global FACTOR
        FACTOR += 1

    return lambda x: x * eval("FAC" + "TOR"), change


def weak_values() -> Made:
    box = Box(k=1.0)
    table: Any = weakref.WeakValueDictionary(a=box)

    def change() -> None:
        box.k += 1

    return lambda x: x * table["a"].k, change


def linked_list() -> Made:
    first = Box(k=0.0, next=None)
    for i in range(600):
        first = Box(k=float(i), next=first)

    def fn(x: Any) -> Any:
        node, total = first, 0.0
        while node is not None:
            total, node = total + node.k, node.next
        return x * total

    return fn, lambda: setattr(first.next.next, "k", 7.0)


def global_class() -> Made:
    return lambda x: x * Settings.scale, lambda: setattr(Settings, "scale", Settings.scale + 1)


def global_of_a_module() -> Made:
    module = types.ModuleType("some_settings")
    module.SCALE = 1.0  # type: ignore[attr-defined]
    sys.modules["some_settings"] = module
    return lambda x: x * module.SCALE, lambda: setattr(module, "SCALE", module.SCALE + 1)


def imported_inside() -> Made:
    module = types.ModuleType("some_settings")
    module.SCALE = 1.0  # type: ignore[attr-defined]
    sys.modules["some_settings"] = module

    def fn(x: Any) -> Any:
        from some_settings import SCALE  # type: ignore[import-not-found]

        return x * SCALE

    return fn, lambda: setattr(module, "SCALE", module.SCALE + 1)


def entry_of_a_list() -> Made:
    sizes = [1.0, 2.0]

    def change() -> None:
        sizes[1] += 1

    return lambda x: x * sizes[1], change


def long_list() -> Made:
    sizes = [1.0] * 3000

    def change() -> None:
        sizes[1234] += 1

    return lambda x: x * sum(sizes), change


def list_of_other_numbers_that_are_equal() -> Made:
    sizes: list[Any] = [1, 2]

    def change() -> None:
        sizes[1] = float(sizes[1]) if type(sizes[1]) is int else int(sizes[1])

    return lambda x: x * len(str(sizes)), change


def key_of_a_dict() -> Made:
    options = {"a": 1.0}

    def change() -> None:
        options["b" * len(options)] = 2.0

    return lambda x: x * sum(options.values()) * len(options), change


def key_that_is_not_there() -> Made:
    options = {"a": 1.0}

    def change() -> None:
        options["k"] = options.pop("a", 1.0) + options.get("k", 1.0)

    return lambda x: x * options.get("k", 1.0), change


def ordered_and_default_dicts_and_counters() -> Made:
    ordered = collections.OrderedDict(k=1.0)
    default: Any = collections.defaultdict(lambda: 1.0, k=1.0)
    counter = collections.Counter("aab")

    def change() -> None:
        ordered["k"] += 1
        default["k"] *= 2
        counter.update("abc")

    return lambda x: x * ordered["k"] * default["k"] * counter["a"], change


def deque_of_numbers() -> Made:
    window = collections.deque([1.0, 2.0, 3.0], maxlen=3)
    return lambda x: x * sum(window), lambda: window.append(window[-1] + 1)


def set_of_numbers() -> Made:
    known = {1.0, 2.0}
    return lambda x: x * sum(known), lambda: known.add(known.pop() * 7 + 1)


def bytes_and_numbers() -> Made:
    raw, numbers = bytearray(b"abc"), array.array("d", [1.0, 2.0])

    def change() -> None:
        raw[0] += 1
        numbers[1] += 1.0

    return lambda x: x * raw[0] * numbers[1], change


def view_of_a_dict() -> Made:
    options = {"k": 1.0}
    view = types.MappingProxyType(options)
    return lambda x: x * view["k"], lambda: options.update(k=options["k"] + 1)


def chain_of_dicts() -> Made:
    options = {"k": 1.0}
    chain = collections.ChainMap(options, {"k": 9.0})
    return lambda x: x * chain["k"], lambda: options.update(k=options["k"] + 1)


def user_dict() -> Made:
    options = collections.UserDict(k=1.0)
    return lambda x: x * options["k"], lambda: options.update(k=options["k"] + 1)


def dict_with_methods() -> Made:
    class Options(dict):  # type: ignore[type-arg]
        factor = 1.0

        def __getattr__(self, name: str) -> Any:
            return self[name] * self.factor

    options = Options(k=1.0)

    def change() -> None:
        options["k"] += 1
        Options.factor += 1

    return lambda x: x * options.k, change


def nested_containers() -> Made:
    table: Any = {"a": [Box(k=1.0), {"b": (Box(k=2.0), [3.0])}]}

    def change() -> None:
        table["a"][0].k += 1
        table["a"][1]["b"][1][0] += 1

    return lambda x: x * table["a"][0].k * table["a"][1]["b"][1][0], change


def member_of_an_enumeration() -> Made:
    box = Box(kind=Kind.ONE)
    return (
        lambda x: x * (2.0 if box.kind is Kind.ONE else 3.0),
        lambda: setattr(box, "kind", Kind.TWO if box.kind is Kind.ONE else Kind.ONE),
    )


def object_by_identity() -> Made:
    first, second = Box(), Box()
    box = Box(best=first)
    return (
        lambda x: x * (2.0 if box.best is second else 3.0),
        lambda: setattr(box, "best", second if box.best is first else first),
    )


def zero_with_a_sign() -> Made:
    box = Box(k=0.0)

    def change() -> None:
        box.k = -box.k

    return lambda x: wg.atan2(x * box.k, -x), change


def not_a_number() -> Made:
    box = Box(k=1.0)

    def change() -> None:
        box.k = float("nan") if box.k == 1.0 else 1.0

    return lambda x: x * box.k, change


def number_of_numpy() -> Made:
    box = Box(k=np.float32(1.0))
    return lambda x: x * box.k, lambda: setattr(box, "k", np.float32(box.k + 1))


def array_that_is_replaced() -> Made:
    box = Box(k=np.ones(2, np.float32))
    return lambda x: x * box.k, lambda: setattr(box, "k", box.k + 1)


def tensor_that_is_replaced() -> Made:
    box = Box(k=wg.ones(2), other=[wg.ones(2)])

    def change() -> None:
        box.k = box.k + 1
        box.other[0] = box.other[0] * 2

    return lambda x: x * box.k * box.other[0], change


def function_that_is_replaced() -> Made:
    box = Box(act=wg.sin)
    functions = iter([wg.cos, wg.exp, wg.tanh, wg.sin])
    return lambda x: box.act(x), lambda: setattr(box, "act", next(functions))


def option_of_a_module() -> Made:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(wg.ones(2))
            self.k = 1.0
            self._hidden = {"a": 1.0}

        def forward(self, x: Any) -> Any:
            return x * self.w * self.k * self._hidden["a"]

    net = Net()

    def change() -> None:
        net.k += 1
        net._hidden["a"] *= 2

    return net, change


def option_of_a_module_inside_modules() -> Made:
    class Scale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.k = 1.0

        def forward(self, x: Any) -> Any:
            return x * self.k

    scale = Scale()
    return nn.Sequential(nn.Sequential(nn.ReLU(), scale)), lambda: setattr(scale, "k", scale.k + 1)


def option_that_a_module_gets_later() -> Made:
    class Net(nn.Module):
        def forward(self, x: Any) -> Any:
            return x * (self.k if hasattr(self, "k") else 1.0)

    net = Net()
    return net, lambda: setattr(net, "k", getattr(net, "k", 1.0) + 1)


def attribute_of_a_layer() -> Made:
    layer = nn.LeakyReLU(0.5)
    return lambda x: layer(-x), lambda: setattr(layer, "negative_slope", layer.negative_slope + 0.25)


def hook_of_a_module() -> Made:
    layer, k = nn.ReLU(), Box(k=1.0)

    def change() -> None:
        k.k += 1
        layer.register_forward_hook(lambda m, args, out: out * k.k)

    return lambda x: layer(x), change


def rule_of_the_users_own() -> Made:
    class Rule(optim.Optimizer):
        def __init__(self, params: Any) -> None:
            super().__init__(params, {"lr": 0.1})
            self.damping = 1.0

        def _update(self, value: Any, grad: Any, state: Any, group: Any, step: Any) -> Any:
            return -group["lr"] * grad * self.damping * OPTIONS["scale"]

    w = wg.ones(2).requires_grad_()
    rule = Rule([w])

    def fn(x: Any) -> Any:
        rule.zero_grad()
        (w * x).sum().backward()
        rule.step()
        return w.detach() * 1

    def change() -> None:
        rule.damping += 1
        OPTIONS["scale"] += 1

    return fn, change


READ = [
    attribute, attribute_of_attribute, attribute_by_a_helper, attribute_in_a_list, attribute_of_a_method, by_a_property,
    by_a_cached_property, by_getattr, by_getattr_of_getattr, by_getattr_of_a_computed_name, by_getattr_by_another_name,
    by_getattr_with_a_default, by_hasattr, by_trying,
    by_vars, by_dict, by_attrgetter, by_copy, by_matching, by_an_operator, by_getattr_method, record, record_as_a_dict,
    record_by_its_fields, record_with_slots, frozen_record, slots_and_dict, private_slots, simple_namespace,
    arguments_of_a_program, thread_local, context_variable, weak_reference, attribute_of_a_class, attribute_of_a_base,
    attribute_that_hides_that_of_a_class, attribute_that_hides_one_in_place_of_another, method_that_is_overridden,
    list_of_a_class, class_method,
    static_method_that_is_replaced, method_that_is_replaced, code_that_is_replaced, defaults, keyword_defaults,
    attribute_of_a_function, closure, partial, method_of_a_container, global_variable, global_dict, global_by_globals,
    global_by_a_text, weak_values, linked_list,
    global_class, global_of_a_module, imported_inside, entry_of_a_list, long_list, list_of_other_numbers_that_are_equal,
    key_of_a_dict, key_that_is_not_there, ordered_and_default_dicts_and_counters, deque_of_numbers, set_of_numbers,
    bytes_and_numbers, view_of_a_dict, chain_of_dicts, user_dict, dict_with_methods, nested_containers,
    member_of_an_enumeration, object_by_identity, zero_with_a_sign, not_a_number, number_of_numpy,
    array_that_is_replaced, tensor_that_is_replaced, function_that_is_replaced, option_of_a_module,
    option_of_a_module_inside_modules, option_that_a_module_gets_later, attribute_of_a_layer, hook_of_a_module,
    rule_of_the_users_own,
]  # fmt: skip


@pytest.mark.parametrize("make", READ, ids=lambda f: f.__name__)
def test_what_is_read_is_seen_when_it_changes(make: Callable[[], Made]) -> None:
    x = wg.tensor([1.0, 2.0])
    wanted = []
    eager, change = make()
    for _ in range(3):
        wanted.append([eager(x) for _ in range(CALLS)])
        change()
    restart()
    fn, change = make()
    compiled = wg.jit(fn)
    for results in wanted:
        for want in results:
            close(compiled(x), want)
        change()


def restart() -> None:
    """The globals as they were at first."""
    global FACTOR
    FACTOR = 1.0
    OPTIONS["scale"] = 1.0
    Settings.scale = 1.0


# -- whose code it is

TRAINER = """
import wengert as wg
from {config} import Config

class Trainer:
    rate = 1.0

    def __init__(self):
        self.config = Config()

    def run(self, x):
        return x * self.config.k * self.rate
"""


@pytest.mark.parametrize("where", ["__main__", "no module", "an installed package"])
def test_classes_are_the_users_wherever_they_are(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site-packages" / "some_trainer"
    package.mkdir(parents=True)
    # Beside what uses Wengert a part that does not name it.
    (package / "config.py").write_text("class Config:\n    def __init__(self):\n        self.k = 1.0\n")
    (package / "trainer.py").write_text(TRAINER.format(config="some_trainer.config"))
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    names: dict[str, Any] = {"__name__": "__main__"} if where == "__main__" else {}
    if where == "an installed package":
        names = vars(importlib.import_module("some_trainer.trainer"))
    else:
        exec((package / "config.py").read_text(), names)
        exec(TRAINER.replace("from {config} import Config", ""), names)
    trainer = names["Trainer"]()
    fn = wg.jit(trainer.run)
    for i in range(4):
        for _ in range(CALLS):
            close(fn(wg.ones(2)), wg.full((2,), (1.0 + i) ** 2))
        trainer.config.k += 1
        type(trainer).rate += 1
    for name in [n for n in sys.modules if n.startswith("some_trainer")]:
        del sys.modules[name]


# -- what is not read


def a_log_beside_a_method() -> Made:
    class Thing:
        def __init__(self) -> None:
            self.log: list[float] = []
            self.w = wg.ones(2)

        def run(self, x: Any) -> Any:
            return x * self.w

        def note(self) -> None:
            self.log.append(1.0)

    thing = Thing()
    return thing.run, thing.note


def a_log_of_a_name_that_is_called() -> Made:
    class Thing:
        def __init__(self) -> None:
            self.log: list[float] = []
            self.sum = 0

        def run(self, x: Any) -> Any:
            return wg.log(x.log() + x.sum() + 2)

        def note(self) -> None:
            self.log.append(1.0)
            self.sum += 1

    thing = Thing()
    return thing.run, thing.note


def a_step_that_shares_its_name() -> Made:
    class Trainer:
        def __init__(self) -> None:
            self.w = wg.ones(2).requires_grad_()
            self.opt = optim.SGD([self.w], lr=0.1)
            self.steps = 0
            self.history: dict[str, list[float]] = {"loss": []}
            self.seen: Any = collections.deque(maxlen=3)

        def update(self, x: Any) -> Any:
            self.opt.zero_grad()
            loss = ((self.w * x) ** 2).sum()
            loss.backward()
            self.opt.step()
            return loss

        def step(self) -> None:
            self.steps += 1
            self.history["loss"].append(0.1 * self.steps)
            self.seen.append(self.steps)

    trainer = Trainer()
    return trainer.update, trainer.step


def tensors_that_are_kept() -> Made:
    class Thing:
        def __init__(self) -> None:
            self.results: list[Any] = []
            self.best: Any = None

        def run(self, x: Any) -> Any:
            return x * 2

        def note(self) -> None:
            self.results.append(wg.ones(2))
            self.best = self.results[-1]

    thing = Thing()
    return thing.run, thing.note


def an_attribute_that_comes_later() -> Made:
    class Thing:
        k = 2.0

        def run(self, x: Any) -> Any:
            return x * self.k

    thing = Thing()
    return thing.run, lambda: setattr(thing, "last", 1.0)


def counters_of_modules() -> Made:
    class Part(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(2, 2)
            self.calls = 0
            self.losses: list[float] = []

        def forward(self, x: Any) -> Any:
            return self.inner(x)

    model = nn.Sequential(Part(), nn.ReLU(), Part())

    def note() -> None:
        for part in model.modules():
            if isinstance(part, Part):
                part.calls += 1
                part.losses.append(0.5)

    return model, note


def a_log_in_a_branch_that_is_not_taken() -> Made:
    class Thing:
        def __init__(self) -> None:
            self.verbose = False
            self.lines: list[str] = []

        def report(self, x: Any) -> Any:
            return x * len(self.lines)

        def run(self, x: Any) -> Any:
            return self.report(x) if self.verbose else x * 2

    thing = Thing()
    return thing.run, lambda: thing.lines.append("line")


def a_global_log() -> Made:
    def log() -> None:
        LOSSES.append(1.0)

    def run(x: Any) -> Any:
        return x * 2 if OPTIONS["scale"] == 1.0 else log()

    return run, log


def a_global_of_an_attributes_name() -> Made:
    def note() -> None:
        global scale
        scale += 1

    box = Box(scale=2.0)
    return lambda x: x * box.scale, note


def a_closure_that_does_not_run() -> Made:
    count = 0

    def note() -> None:
        nonlocal count
        count += 1

    def show() -> int:
        return count

    return lambda x: x * 2 if callable(show) else x, note


def another_part_of_a_shared_object() -> Made:
    shared = Box(model=nn.Linear(2, 2), epoch=0, losses=[0.5])

    def note() -> None:
        shared.epoch += 1
        shared.losses.append(0.5)

    return lambda x: shared.model(x), note


def a_name_of_a_module_of_the_users() -> Made:
    module = types.ModuleType("some_settings")
    module.SCALE, module.COUNT = 1.0, 0  # type: ignore[attr-defined]
    sys.modules["some_settings"] = module
    box = Box(COUNT=2.0)
    return lambda x: x * module.SCALE * 2, lambda: setattr(module, "COUNT", module.COUNT + 1) or setattr(box, "n", 1)


scale = 0
IDLE = [
    a_log_beside_a_method, a_log_of_a_name_that_is_called, a_step_that_shares_its_name, tensors_that_are_kept,
    an_attribute_that_comes_later, counters_of_modules, a_log_in_a_branch_that_is_not_taken, a_global_log,
    a_global_of_an_attributes_name, a_closure_that_does_not_run, another_part_of_a_shared_object,
    a_name_of_a_module_of_the_users,
]  # fmt: skip


@pytest.mark.parametrize("make", IDLE, ids=lambda f: f.__name__)
def test_what_is_not_read_does_not_matter(make: Callable[[], Made]) -> None:
    wg.manual_seed(0)
    eager, _ = make()
    wg.manual_seed(0)
    fn, change = make()
    compiled = wg.jit(fn)
    x = wg.tensor([[1.0, 2.0]])
    for _ in range(20):
        close(compiled(x), eager(x))
        change()
    # The second one is watched: what it reads decides from then on.
    assert compiled.cache_info().traces <= 2


# -- what Python code does outside


def counting_inside() -> Made:
    class Thing:
        def __init__(self) -> None:
            self.n, self.last = 0, -1.0

        def run(self, x: Any) -> Any:
            self.n += 1
            self.last = self.n * 0.5
            return x * self.n

    thing = Thing()
    return thing.run, lambda: setattr(thing, "n", 0)


def flipping_inside() -> Made:
    class Thing:
        def __init__(self) -> None:
            self.is_even = True
            self.first = True

        def run(self, x: Any) -> Any:
            self.is_even = not self.is_even
            if self.first:
                self.first = False
                x = x + 10
            return x * (2 if self.is_even else 3)

    thing = Thing()
    return thing.run, lambda: setattr(thing, "first", True)


def a_global_that_is_written() -> Made:
    def run(x: Any) -> Any:
        global FACTOR
        FACTOR = 3.0 - FACTOR
        return x * FACTOR

    return run, lambda: None


def a_variable_that_is_written() -> Made:
    k = 1.0

    def run(x: Any) -> Any:
        nonlocal k
        k = 3.0 - k
        return x * k

    return run, lambda: None


def items_that_are_written() -> Made:
    table: dict[str, Any] = {"n": 0}
    numbers = [0, 1]

    def run(x: Any) -> Any:
        table["n"] = (table["n"] + 1) % 3
        table["seen"] = True
        numbers[0], numbers[1] = numbers[1], numbers[0]
        return x * table["n"] + numbers[0]

    return run, lambda: table.pop("seen", None)


def a_list_that_grows() -> Made:
    seen: list[int] = []

    def run(x: Any) -> Any:
        seen.append(len(seen))
        return x * len(seen)

    return run, seen.clear


def a_window_that_moves() -> Made:
    window = collections.deque([1.0, 2.0], maxlen=2)

    def run(x: Any) -> Any:
        window.append(window[0])
        return x * window[0]

    return run, lambda: None


def a_cache_that_fills() -> Made:
    class Thing:
        def __init__(self) -> None:
            self.masks: dict[int, Any] = {}

        def run(self, x: Any) -> Any:
            if len(x) not in self.masks:
                self.masks[len(x)] = np.tril(np.ones((len(x), len(x)), np.float32))
            return self.masks[len(x)] @ x

    thing = Thing()
    return thing.run, thing.masks.clear


def a_tensor_that_is_set_again() -> Made:
    box = Box(h=wg.ones(2))

    def run(x: Any) -> Any:
        out = box.h * x
        box.h = wg.zeros(2)
        return out

    return run, lambda: setattr(box, "h", wg.ones(2))


WRITTEN = [
    counting_inside, flipping_inside, a_global_that_is_written, a_variable_that_is_written, items_that_are_written,
    a_list_that_grows, a_window_that_moves, a_cache_that_fills, a_tensor_that_is_set_again,
]  # fmt: skip


@pytest.mark.parametrize("make", WRITTEN, ids=lambda f: f.__name__)
def test_what_python_code_does_outside_is_done_in_every_call(make: Callable[[], Made]) -> None:
    test_what_is_read_is_seen_when_it_changes(make)


def test_a_trace_that_is_begun_anew_has_done_nothing() -> None:
    hidden = iter([Box(w=wg.ones(2))] * 20)  # an iterator is not looked into
    box, log = Box(n=0, calls=Box(n=0)), [0]

    def fn(x: Any, size: float) -> Any:
        box.n += 1
        box.calls.n += 1
        log[0] += 1
        return next(hidden).w * x + wg.zeros(int(size))

    compiled = wg.jit(fn)
    for i in range(1, 4):
        compiled(wg.ones(2), 2.0)
        assert (box.n, box.calls.n, log[0]) == (i, i, i)


def test_places_are_those_of_the_object_that_is_given() -> None:
    class Net(nn.Module):
        def __init__(self, k: float) -> None:
            super().__init__()
            self.w = nn.Parameter(wg.full((2,), k))

        def forward(self, x: Any) -> Any:
            self.seen = x * self.w
            return self.seen.sum()

    nets = [Net(1.0), Net(5.0), Net(7.0)]
    fn = wg.jit(lambda net, x: net(x))
    for i in range(1, 9):
        for net in nets:
            x = wg.full((2,), float(i))
            close(fn(net, x), (x * net.w).sum())
            close(net.seen, x * net.w)
    assert fn.cache_info().traces == 2  # without `seen`, and with it


# -- all of it, drawn


class Drawn:
    """A program that reads from a pytree of objects and containers, and changes of the pytree, made of a seed.

    Two made of one seed are alike. Some of what is read is read by a helper, some by a method, all of it only on some
    condition.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.holders: list[Any] = []
        self.names: dict[str, Any] = {f"o{i}": self.object(2) for i in range(3)}
        self.names["wg"] = wg
        lines = ["class Reader:"]
        for k in range(3):
            lines += [f"    def m{k}(self, x):", f"        return {self.expression()}"]
        for k in range(3):
            lines += [f"def h{k}(x):", f"    return {self.expression()}"]
        lines += ["reader = Reader()", "def f(x):", "    out = x"]
        for _ in range(4):
            term = [self.expression(), *(f"h{k}(x)" for k in range(3)), *(f"reader.m{k}(x)" for k in range(3))][
                int(self.rng.integers(7))
            ]
            lines.append(f"    if {self.path()} is not None and {self.number()} < 4.0: out = out + {term}")
        exec(compile("\n".join([*lines, "    return out"]), f"drawn {seed}", "exec"), self.names)

    def value(self, depth: int) -> Any:
        kind = int(self.rng.integers(10 if depth else 4))
        if kind < 3:
            return float(self.rng.integers(6))
        if kind == 3:
            return wg.full((2,), float(self.rng.integers(6)))
        if kind < 6:
            return self.kept([float(self.rng.integers(6)) for _ in range(3)])
        if kind == 6:
            return self.kept({c: float(self.rng.integers(6)) for c in "abc"})
        if kind == 7:
            return self.kept(collections.deque([float(self.rng.integers(6)) for _ in range(3)]))
        return self.object(depth - 1)

    def kept(self, holder: Any) -> Any:
        self.holders.append(holder)
        return holder

    def object(self, depth: int) -> Any:
        kind = (Box, types.SimpleNamespace, Record)[int(self.rng.integers(3))]
        return self.kept(kind(**{c: self.value(depth) for c in "abc"}))

    def path(self) -> str:
        """A way to something in the pytree."""
        name = f"o{self.rng.integers(3)}"
        value, text = self.names[name], name
        while isinstance(value, (Box, types.SimpleNamespace, Record)):
            c = "abc"[int(self.rng.integers(3))]
            value = getattr(value, c)
            text = f"getattr({text}, {c!r})" if self.rng.random() < 0.2 else f"{text}.{c}"
        if isinstance(value, dict):
            return f"{text}[{'abc'[int(self.rng.integers(3))]!r}]"
        return text if isinstance(value, (float, wg.Tensor)) else f"sum({text})"

    def number(self) -> str:
        while True:
            text = self.path()
            if not isinstance(eval(text, self.names), wg.Tensor):
                return text

    def expression(self) -> str:
        return f"x * {self.path()} + {self.path()}"

    def change(self) -> None:
        holder = self.holders[int(self.rng.integers(len(self.holders)))]
        at = "abc"[int(self.rng.integers(3))] if not isinstance(holder, (list, collections.deque)) else 1
        old = holder[at] if isinstance(holder, (dict, list, collections.deque)) else getattr(holder, at)
        if isinstance(old, wg.Tensor):
            if self.rng.random() < 0.5:
                old.add_(1.0)
                return
            new: Any = old + 1.0
        elif isinstance(old, float):
            new = float(self.rng.integers(6))
        else:
            return
        if isinstance(holder, (dict, list, collections.deque)):
            holder[at] = new
        else:
            setattr(holder, at, new)


@dataclasses.dataclass
class Record:
    a: Any
    b: Any
    c: Any


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 20))])
def test_drawn_programs(seed: int) -> None:
    run_drawn(seed)


def run_drawn(seed: int) -> None:
    eager, compiled = Drawn(seed), Drawn(seed)
    fn = wg.jit(compiled.names["f"])
    x = wg.tensor([1.0, 2.0])
    for i in range(60):
        close(fn(x), eager.names["f"](x))
        for drawn in (eager, compiled) if i % 3 == 2 else ():
            drawn.change()


# -- objects among the arguments


def test_functions_and_objects_among_the_arguments() -> None:
    k = 1.0
    box = Box(k=1.0)

    def scale(x: Any) -> Any:
        return x * k

    class Thing:
        def __init__(self) -> None:
            self.k = 1.0

        def scale(self, x: Any) -> Any:
            return x * self.k

    thing = Thing()
    fn = wg.jit(lambda f, b, x: f(x) * b.k)
    x = wg.ones(2)
    for i in range(4):
        k, box.k, thing.k = 1.0 + i, 2.0 + i, 3.0 + i
        for _ in range(CALLS):
            close(fn(scale, box, x), x * k * box.k)
            close(fn(thing.scale, box, x), x * thing.k * box.k)
    traces = fn.cache_info().traces
    for i in range(10):  # other functions of the same code, with equal values around them
        close(fn(lambda x, i=i % 2: x * i, Box(k=4.0), x), x * 4 * (i % 2))
    assert fn.cache_info().traces == traces + 2


# -- the warning


def warned(run: Callable[[], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        run()
    assert all(w.filename == __file__ for w in seen)
    return [str(w.message) for w in seen]


def test_a_fourth_trace_for_one_reason_warns_once() -> None:
    class Thing:
        def __init__(self) -> None:
            self.n, self.log = 0, [0.0]

        def count(self, x: Any) -> Any:
            self.n += 1
            return x * self.n

        def read(self, x: Any) -> Any:
            return x * len(self.log)

    thing = Thing()
    counting, reading = wg.jit(thing.count), wg.jit(thing.read)
    x = wg.ones(2)

    def count() -> None:
        for _ in range(10):
            counting(x)

    def log() -> None:
        for _ in range(10):
            reading(x)
            thing.log.append(1.0)

    for run, name, what, mend in (
        (count, "count", "self.n", r"argument.*tensor"),
        (log, "read", "self.log", r"belongs outside"),
    ):
        (text,) = warned(run)
        first, rest = text.split("\n")
        assert first.startswith(f"{name} was traced 4 times because {what} changed, the last time: {what}: "), first
        assert " where it was " in first
        assert __file__ in first
        assert re.search(mend, rest)
        assert not warned(run)
    assert counting.cache_info().traces == 20


def test_values_of_arguments_and_new_objects_warn_too() -> None:
    x = wg.ones(2)
    words = wg.jit(lambda x, word: x * len(word))
    (text,) = warned(lambda: [words(x, "a" * i) for i in range(1, 9)])
    assert "because word changed, the last time: word: 'aaaaa' where it was 'aaaa'" in text
    sizes = wg.jit(lambda x, n: x.sum() * wg.zeros(n))
    (text,) = warned(lambda: [sizes(x, i) for i in range(1, 9)])
    assert "because n changed" in text
    box = Box(f=None)
    fresh = wg.jit(lambda x: box.f(x))
    codes = [compile(f"lambda x: x * {i}", "a file", "eval") for i in range(8)]
    (text,) = warned(lambda: [setattr(box, "f", eval(c)) or fresh(x) for c in codes])
    assert "because box.f changed" in text
    assert "Make it once" in text


def test_a_few_shapes_are_no_reason_to_warn_but_many_are() -> None:
    fn = wg.jit(lambda x: x * 2)
    assert not warned(lambda: [fn(wg.ones(i)) for i in range(1, 30)])
    (text,) = warned(lambda: [fn(wg.ones(i)) for i in range(30, 50)])
    assert "because x changed" in text
    assert "pad to a few sizes" in text


def test_a_warning_that_is_an_error_leaves_what_was_computed() -> None:
    total = wg.zeros(())
    box = Box(n=0)

    def step(x: Any) -> Any:
        box.n += 1
        total.add_(x * box.n)
        return total * 1

    compiled = wg.jit(step)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            compiled(wg.ones(()))
        with pytest.raises(RuntimeWarning, match=r"because box\.n changed"):
            compiled(wg.ones(()))
    assert float(total) == 15


def test_elements_of_numpy_arrays_outside_are_part_of_the_program() -> None:
    table = np.arange(6.0).reshape(2, 3)
    strided, whole = np.arange(20.0)[::2], np.array(3)
    holder = types.SimpleNamespace(table=np.ones(3))

    def fn(x: Any) -> Any:
        return (x * table).sum() + strided.sum() * x.sum() + int(whole) * (x * holder.table).sum()

    compiled = wg.jit(fn)
    x = wg.tensor([1.0, 2.0, 3.0], dtype=wg.float64)
    for k in range(4):
        for _ in range(6):
            np.testing.assert_array_equal(compiled(x), fn(x))
        table[1, k % 3] = 7.0 + k
        strided[k] -= 1.0
        whole[...] = k
        holder.table[0] = math.nan if k == 2 else k
        if k == 3:
            holder.table = np.zeros(3)
        np.testing.assert_array_equal(compiled(x), fn(x))
    for _ in range(20):
        np.testing.assert_array_equal(compiled(x), fn(x))
    assert compiled.cache_info().traces <= 5


def test_numpy_arrays_that_the_function_writes_to_are_written_in_every_call() -> None:
    flag = np.zeros(1)

    def fn(x: Any) -> Any:
        flag[0] = 1.0 - flag[0]
        return x + flag[0]

    compiled = wg.jit(fn)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [compiled(wg.zeros(1)).item() for _ in range(6)] == [1.0, 0.0] * 3
    tensors = np.array([wg.ones(1), None], dtype=object)
    picked = wg.jit(lambda x: x * tensors[0])
    assert picked(wg.ones(1)).item() == 1.0
    tensors[0] = wg.zeros(1)
    assert picked(wg.ones(1)).item() == 0.0


def test_arrays_that_no_trace_reads_are_no_reason_to_trace_again() -> None:
    class Logged:
        def __init__(self) -> None:
            self.history, self.calls = np.zeros(100), 0
            self.compiled = wg.jit(self.forward)

        def forward(self, x: Any) -> Any:
            return (x * 2.0).sum()

        def step(self, x: Any) -> None:
            self.history[self.calls] = self.compiled(x).item()
            self.calls += 1

    logged = Logged()
    for k in range(20):
        logged.step(wg.ones(2) * k)
    assert logged.history[:20].tolist() == [4.0 * k for k in range(20)]
    assert logged.compiled.cache_info().traces <= 3


def _appears_in_a_function() -> Made:
    def fn(x: Any) -> Any:
        return x * getattr(fn, "factor", 1)

    return fn, lambda: setattr(fn, "factor", getattr(fn, "factor", 1.0) + 1.0)


def _appears_in_a_class() -> Made:
    class Options:
        pass

    def fn(x: Any) -> Any:
        return x * (Options.factor if hasattr(Options, "factor") else 1)

    return fn, lambda: setattr(Options, "factor", getattr(Options, "factor", 1.0) + 1.0)


def _appears_in_a_base() -> Made:
    class Base:
        pass

    class Options(Base):
        pass

    options = Options()

    def fn(x: Any) -> Any:
        try:
            return x * options.factor
        except AttributeError:
            return x

    return fn, lambda: setattr(Base, "factor", getattr(Base, "factor", 1.0) + 1.0)


def _appears_in_a_module() -> Made:
    module = types.ModuleType("options_of_a_test")
    return lambda x: x * getattr(module, "factor", 1), lambda: setattr(
        module, "factor", getattr(module, "factor", 1.0) + 1.0
    )


def _appears_in_a_namespace() -> Made:
    options = types.SimpleNamespace()
    return lambda x: x * getattr(options, "factor", 1), lambda: setattr(
        options, "factor", getattr(options, "factor", 1.0) + 1.0
    )


def _appears_among_globals() -> Made:
    space: dict[str, Any] = {}
    exec("def fn(x):\n    try:\n        return x * LATER\n    except NameError:\n        return x", space)
    return space["fn"], lambda: space.__setitem__("LATER", space.get("LATER", 1.0) + 1.0)


def _hides_a_builtin() -> Made:
    space: dict[str, Any] = {}
    exec("def fn(x):\n    return x * len([1, 2])", space)
    return space["fn"], lambda: space.__setitem__("len", lambda _: 7)


@pytest.mark.parametrize(
    "make",
    [
        _appears_in_a_function,
        _appears_in_a_class,
        _appears_in_a_base,
        _appears_in_a_module,
        _appears_in_a_namespace,
        _appears_among_globals,
        _hides_a_builtin,
    ],
)
def test_what_was_not_there_and_appears_is_seen(make: Callable[[], Made]) -> None:
    fn, change = make()
    compiled = wg.jit(fn)
    x = wg.tensor([3.0])
    for _ in range(3):
        for _ in range(CALLS):
            assert compiled(x).item() == fn(x).item()
        change()
        assert compiled(x).item() == fn(x).item()


def test_attributes_of_a_function_that_the_code_makes_are_made_in_every_call() -> None:
    def fn(x: Any) -> Any:
        fn.calls = getattr(fn, "calls", 0) + 1  # type: ignore[attr-defined]
        return x * fn.calls  # type: ignore[attr-defined]

    compiled = wg.jit(fn)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [compiled(wg.ones(1)).item() for _ in range(6)] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert fn.calls == 6  # type: ignore[attr-defined]


class _Draws:
    def __init__(self, generator: Any, name: str) -> None:
        self.generator, self.name = generator, name

    def __call__(self, x: Any) -> Any:
        return x * float(getattr(self.generator, self.name)())


@pytest.mark.parametrize(
    ("make", "name"),
    [(lambda: random.Random(3), "random"), (lambda: np.random.default_rng(3), "random")]
    + [(lambda: np.random.RandomState(3), "rand"), (lambda: np.random.Generator(np.random.MT19937(3)), "normal")],
)
def test_numbers_that_python_draws_are_drawn_in_every_call(make: Callable[[], Any], name: str) -> None:
    compiled, eager = wg.jit(_Draws(make(), name)), _Draws(make(), name)
    x = wg.tensor(1.0, dtype=wg.float64)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(6):
            assert compiled(x).item() == eager(x).item()
    assert "draws of " in str(caught[0].message)
    assert "Draw with wg.random" in str(caught[0].message)


def test_numbers_of_the_global_generators_are_drawn_in_every_call() -> None:
    def fn(x: Any) -> Any:
        return x[random.randrange(4)] * np.random.rand()  # noqa: NPY002

    compiled, x = wg.jit(fn), wg.arange(4, dtype=wg.float64)
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for f in (fn, compiled):
            random.seed(0)
            np.random.seed(0)  # noqa: NPY002
            found.append([f(x).item() for _ in range(6)])
    assert found[0] == found[1]


def test_what_stands_before_an_error_is_done_as_in_eager_code() -> None:
    count, state, log = wg.zeros(()), {"n": 0}, []

    @wg.jit
    def step(x: Any) -> Any:
        count.add_(1.0)
        state["n"] += 1
        x.mul_(2.0)
        if x > 6:
            log.append("raised")
            raise ValueError(f"x is {float(wg.asarray(7.0))}")
        return x + 1

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k, value in enumerate((1.0, 5.0, 5.0, 1.0, 1.0, 1.0, 1.0, 5.0)):
            x = wg.tensor(value)
            if value > 3:
                with pytest.raises(ValueError, match="x is 7"):
                    step(x)
            else:
                assert step(x).item() == 2 * value + 1
            assert (count.item(), state["n"], x.item()) == (k + 1, k + 1, 2 * value)
    assert log == ["raised"] * 3


def test_an_error_of_the_trace_alone_leaves_the_call_to_eager_code() -> None:
    @wg.jit
    def fn(x: Any) -> Any:
        if x._array is None:
            raise RuntimeError("only here")
        return x * 2

    with pytest.warns(RuntimeWarning, match="fn raised RuntimeError while it was traced, and nothing when it ran"):
        assert fn(wg.ones(1)).item() == 2.0
    with pytest.raises(RuntimeError, match="only here"):
        fn.lower(wg.spec((1,)))


def test_objects_in_numpy_arrays_are_looked_at_and_put_back() -> None:
    kept = np.array([[wg.ones(1), None]], dtype=object)

    def fn(x: Any) -> Any:
        kept[0, 1] = x * 2
        return x + kept[0, 0]

    compiled = wg.jit(fn)
    with pytest.raises(wg.GraphError, match=r"ndarray .* outside it, which holds computed tensors"):
        compiled(wg.ones(1))
    assert kept[0, 1] is None
    picked = wg.jit(lambda x: x + kept[0, 0])
    for k in range(3):
        kept[0, 0] = wg.full((1,), float(k))
        for _ in range(CALLS):
            assert picked(wg.ones(1)).item() == 1.0 + k


@pytest.mark.parametrize("fn", [wg.tanh, wg.grad(lambda x: (x * x).sum())], ids=["values", "gradients"])
def test_context_variables_are_gone_again(fn: Fn) -> None:
    """NumPy looks variables of its own up for every array, which takes longer in a context with others in it."""
    context, compiled = contextvars.Context(), wg.jit(fn)
    for _ in range(CALLS):
        context.run(compiled, wg.ones(3))
    assert not list(context)


class Frozen(dict[str, float]):
    """A dictionary that is not written to, as some libraries have them for settings."""

    def update(self, *args: Any, **kwargs: Any) -> None:
        raise AttributeError("it is read-only")


def test_what_has_not_changed_is_not_written_when_a_call_begins_anew() -> None:
    settings, counts = Frozen(scale=2.0), {"calls": 1, "others": 2}
    held = [types.SimpleNamespace(items=items) for items in (settings, counts)]
    outside = Outside.__new__(Outside)
    outside.drawn = types.SimpleNamespace(undo=lambda: None)
    outside.captures = types.SimpleNamespace(containers=held, places=[])
    outside.containers, outside.places = [dict(settings), dict(counts)], []
    counts["calls"] = 3
    outside.undo()
    assert (settings, counts) == ({"scale": 2.0}, {"calls": 1, "others": 2})
    assert list(counts) == ["calls", "others"]
