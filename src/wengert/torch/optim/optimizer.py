"""`Optimizer`: the base of the optimisers, with PyTorch's state, groups and hooks.

The rules are those of :mod:`wengert.optim`. What is PyTorch's here is where their state is: dicts of tensors that a
program may read and write, a tensor `step` among them, and groups that hold whatever they are given.
"""

from __future__ import annotations

import functools
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ...core.elsewhere import CPU, Elsewhere, here, in_place_of, move_, place_of
from ...core.errors import DTypeError, GraphError, ShapeError, error, fail
from ...core.mode import no_grad
from ...core.spec import category, default_float, float64
from ...core.standins import WeakTensor, present, weak
from ...core.state.capture import get_capture
from ...core.state.cells import Cell, ItemCell, TensorCell
from ...core.storage import assign_data
from ...core.tensor import Tensor as Plain
from ...core.tensor import asarray, of_class, wrap
from ...optim import optimizer as plain
from ...optim.cells import OptionCell, Options
from ..absent import names_of
from ..tensor import Tensor

Group = dict[str, Any]
State = dict[str, Any]

# What an option is where a group has to be given it.
required: Any = object()

_KINDS = (
    "step_pre",
    "step_post",
    "state_dict_pre",
    "state_dict_post",
    "load_state_dict_pre",
    "load_state_dict_post",
)
# Hooks of all optimisers.
_EVERYWHERE: dict[str, dict[int, Any]] = {"step_pre": {}, "step_post": {}}


class RemovableHandle:
    """A handle that ends a hook: `handle.remove()`, or at the end of a `with`."""

    def __init__(self, hooks: dict[int, Any], hook: Any, prepend: bool = False) -> None:
        self.id = max(hooks, default=-1) + 1
        self._hooks = hooks
        others = dict(hooks) if prepend else {}
        if prepend:
            hooks.clear()
        hooks[self.id] = hook
        hooks.update(others)

    def remove(self) -> None:
        """End the hook. A second call does nothing."""
        self._hooks.pop(self.id, None)
        self._hooks = {}  # another hook may come to have the number

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *_: Any) -> None:
        self.remove()


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before the steps of all optimisers. Return the hook's handle."""
    return RemovableHandle(_EVERYWHERE["step_pre"], hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after the steps of all optimisers. Return the hook's handle."""
    return RemovableHandle(_EVERYWHERE["step_post"], hook)


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """Return a class's `step` with the optimiser's hooks around the outermost call."""

    @functools.wraps(step)
    def run(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if self._stepping or "_hooks" not in self.__dict__:  # as of one that wraps another, and calls no `__init__`
            return step(self, *args, **kwargs)
        self._stepping = True
        try:
            given: tuple[Any, ...] = (self, *args)
            for hook in (*_EVERYWHERE["step_pre"].values(), *self._hooks["step_pre"].values()):
                changed = hook(self, given, kwargs)
                if changed is not None:
                    if not isinstance(changed, tuple) or len(changed) != 2:
                        fail(GraphError, f"a hook before step() gave {changed!r}", "Return None, or (args, kwargs).")
                    given, kwargs = changed
            is_traced = get_capture() is not None and not self.is_rule
            known = {p: set(s) for p, s in self.state.items()} if is_traced else {}
            out = step(*given, **kwargs)
            if is_traced:
                self._check_trace(known)
            self._opt_called = True
            for hook in (*self._hooks["step_post"].values(), *_EVERYWHERE["step_post"].values()):
                hook(self, given, kwargs)
        finally:
            self._stepping = False
        return out

    return run


class Optimizer(plain.Optimizer):
    """The base of the optimisers: a subclass calls `super().__init__(params, defaults)` and defines `step()`.

    `params` is an iterable of leaf tensors, of pairs of a name and a tensor, or of dicts with `params` and options.
    `param_groups` holds the options, `state[p]` whatever is kept for a parameter: tensors, for the optimisers here.

    >>> import wengert.torch as torch
    >>> class Descent(torch.optim.Optimizer):
    ...     def __init__(self, params, lr=0.5):
    ...         super().__init__(params, {"lr": lr})
    ...     @torch.no_grad()
    ...     def step(self, closure=None):
    ...         for group in self.param_groups:
    ...             for p in group["params"]:
    ...                 p.add_(p.grad, alpha=-group["lr"])
    >>> w = torch.tensor([1.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> Descent([w]).step()
    >>> w
    tensor([0.], requires_grad=True)
    """

    # Whether the step is a rule of `wengert.optim`.
    is_rule = False
    # Whether the number of steps is a part of the state.
    counts = True
    _opt_called = False
    _stepping = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = _with_hooks(cls.__dict__["step"])  # type: ignore[method-assign]

    def __init__(self, params: Any, defaults: Mapping[str, Any]) -> None:
        self._hooks: dict[str, dict[int, Any]] = {kind: {} for kind in _KINDS}
        self._ticks: dict[Plain, Tensor] = {}
        if isinstance(params, Iterable) and not isinstance(params, (Plain, Mapping)):
            params = list(params)
            if not params:
                fail(
                    ShapeError,
                    "optimizer got an empty parameter list",
                    "An iterator such as model.parameters() is empty after its first use.",
                )
        # Not super(): a rule's constructor, which comes next, has parameters of its own.
        plain.Optimizer.__init__(self, params, defaults)

    def _no_state(self) -> dict[Plain, State]:
        return defaultdict(dict)

    # -- groups

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Add parameters with their own options: `{"params": [...], "lr": 0.01}`; it may hold anything besides.

        Raises TypeError and ValueError for what is no group, or holds parameters that others have; then nothing is
        added.
        """
        if not isinstance(param_group, dict):
            fail(DTypeError, f"param_group must be a dict, but got {type(param_group)}")
        given = param_group["params"]
        if isinstance(given, (set, frozenset)):
            fail(DTypeError, "the parameters of a group are a set, which has no order", "Give a list.")
        entries = [given] if isinstance(given, Plain) else list(given)
        names = [e[0] for e in entries if isinstance(e, tuple)]
        params = [e[1] if isinstance(e, tuple) else e for e in entries]
        if names and len(names) != len(params):
            fail(ShapeError, "all optimizer params should be with/without names. Some param names are missing")
        for p in params:
            self._check_parameter(p)
        made = Options({**param_group, "params": params})
        if names:
            made["param_names"] = names
        for name, default in self.defaults.items():
            if default is required and name not in made:
                fail(ShapeError, f"parameter group didn't specify a value of required optimization parameter {name}")
            made.setdefault(name, default)
        if len({id(p) for p in params}) < len(params):
            warnings.warn("optimizer contains a parameter group with duplicate parameters", stacklevel=3)
        for group in self.param_groups:
            if ("param_names" in made) != ("param_names" in group):
                fail(ShapeError, "all optimizer param groups should be with/without names")
            if {id(p) for p in group["params"]} & {id(p) for p in params}:
                fail(ShapeError, "some parameters appear in more than one parameter group")
        if self.is_rule:
            # What users put into a group is theirs to answer for.
            self._check({**_numbers_of(self.defaults), "params": params})
        self.param_groups.append(made)

    def _check_parameter(self, p: Any) -> None:
        if not isinstance(p, Plain):
            fail(DTypeError, f"optimizer can only optimize Tensors, but one of the params is {type(p).__name__}")
        if not (p.is_leaf or getattr(p, "retains_grad", False)):
            fail(
                ShapeError,
                f"can't optimize a non-leaf Tensor, {p.spec}",
                "Wrap it as torch.nn.Parameter(x), or x.detach().requires_grad_().",
            )

    # -- the step

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient; `closure`, where given, computes the loss before."""
        if not self.is_rule:
            raise NotImplementedError(f"{type(self).__name__} defines no step()")
        return super().step(closure)

    def _steps_by_rule(self) -> bool:
        return self.is_rule and type(self).step is Optimizer.step

    def _resolved(self, group: Group) -> Group:
        """Return the options with numbers in the place of tensors, which a program may change under our hands."""
        made: Group | None = None
        for name in self.numbers:
            value = group.get(name)
            if type(value) is float or isinstance(value, WeakTensor):
                continue
            number = _number(value)
            if number is not value:
                made = dict(group) if made is None else made
                made[name] = number
        return group if made is None else made

    def _rounded(self, number: Any) -> Any:
        dtype = _count_dtype()
        if dtype == float64:
            return number
        if isinstance(number, Plain):
            return weak(asarray(_wide(number), dtype=dtype).astype(float64))
        return float(np.asarray(number, dtype))

    def _check_trace(self, known: dict[Plain, set[str]]) -> None:
        """Raise GraphError where a user's step made new state while it was traced: it would be made at every call."""
        made = [(p, name) for p, s in self.state.items() for name in s if name not in known.get(p, ())]
        if made:
            for p, name in made:
                del self.state[p][name]
            found = error(
                GraphError,
                f"the first step of {type(self).__name__} in a compiled function, which makes its state",
                "Make one step before: compiled functions write to state that is there.",
            )
            found.is_of_first_call = True
            raise found from None

    # -- where the state is kept

    def _state_of(self, p: Plain, group: Group) -> State:
        names = self._names_of(p, group)
        if not names and not self.counts:
            return {}
        if p not in self.state and p in self._unused:
            self.state[p] = self._unused.pop(p)
        state = self.state[p]
        if self.counts and not _is_ours(state.get("step")):
            state["step"] = _tensor(np.asarray(_plain_number(state.get("step", 0)), _count_dtype()))
        if self._ticking(group) and p not in self._ticks:
            self._ticks[p] = _tensor(np.asarray(float(state.get(names[0]) is not None)))
        for name in names:
            if not _is_ours(state.get(name)):
                found = state.get(name)
                state[name] = _tensor(self._new_buffer(name, p, group)) if found is None else _tensor_of(found)
            if p._array is not None and name not in self.scalars and place_of(state[name]) != place_of(p):
                move_(state[name], place_of(p))
        return state

    def _without_buffers(self, state: State) -> State:
        return state  # programs know the tensors, too

    def _new_buffer(self, name: str, p: Plain, group: Group) -> Any:
        made = super()._new_buffer(name, p, group)
        return made.astype(_count_dtype()) if name in self.scalars else made

    def _ticking(self, group: Group) -> bool:
        """Return whether the rule asks for the number of steps though the state has none."""
        return False

    def _counter(self, p: Plain, state: State) -> Tensor | None:
        found: Tensor | None = state["step"] if self.counts else self._ticks.get(p)
        return found

    def _counted(self, p: Plain, state: State) -> int:
        counter = self._counter(p, state)
        if counter is None:
            return 1
        move_(counter, CPU)
        step = int(counter._array) + 1
        assign_data(counter, np.asarray(step, counter.dtype))
        return step

    def _opened(self, state: State, names: tuple[str, ...]) -> State:
        found: State = {}
        for name in names:
            t = state[name]
            move_(t, CPU)  # where its parameter has come back from a device
            if name in self.scalars:
                found[name] = float(t._array)
            else:
                found[name] = t._array if plain.is_sole_owner(t) else t._array.copy()
        return found

    def _closed(self, state: State, buffers: State) -> None:
        for name, new in buffers.items():
            t = state[name]
            assign_data(t, new if type(new) is np.ndarray and new.dtype == t.dtype else np.asarray(new, t.dtype))

    # -- in a trace

    def _counted_in_trace(self, p: Plain, state: State) -> Any:
        counter = self._counter(p, state)
        if counter is None:
            return 1
        counter.assign_(self._chosen(present(counter) + 1, present(counter)))
        return weak(asarray(present(counter), dtype=float64))

    def _keep(self, state: State, name: str, value: Plain) -> None:
        state[name].assign_(asarray(value, dtype=state[name].dtype))

    def __jit_cells__(self) -> Iterable[Cell]:
        if self.is_rule:
            cells = list(super().__jit_cells__())
            cells += [TensorCell(t) for p, t in self._ticks.items() if p in self.state]
            return cells
        # A rule of the user's: all that its step may read and write.
        cells = []
        state = getattr(self, "state", {})
        for group in getattr(self, "param_groups", ()):
            cells += [OptionCell(group, name) for name, value in group.items() if type(value) is float]
            for p in group["params"]:
                cells.append(TensorCell(p))
                if isinstance(state.get(p), dict):
                    cells += _cells_of(state[p])
        return cells

    def _option_cells(self, group: Group, name: str) -> Iterable[Cell]:
        value = group[name]
        if isinstance(value, Plain):
            return () if isinstance(value, WeakTensor) else (TensorCell(value),)
        if isinstance(value, tuple):
            found: list[Cell] = []
            for i, v in enumerate(value):
                if isinstance(v, Plain):
                    found.append(TensorCell(v))
                elif isinstance(v, (int, float)):
                    found.append(OptionCell(group, name, i))
            return found
        return (OptionCell(group, name),) if isinstance(value, (int, float)) else ()

    def _buffer_cells(self, state: State, names: tuple[str, ...]) -> Iterable[Cell]:
        return [TensorCell(state[name]) for name in (*(("step",) if self.counts else ()), *names)]

    def _by_count(self) -> list[list[State]]:
        return []

    def __jit_static__(self) -> tuple[Any, ...]:
        return super().__jit_static__() if self.is_rule else self._fixed()

    def _signs(self) -> list[Any]:
        return [*super()._signs(), *self._kept()]

    def _kept(self) -> list[int]:
        """Return the identities of all that the rule has in the state."""
        found = []
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state.get(p)
                if state is not None:
                    names = (*(("step",) if self.counts else ()), *self._names_of(p, group))
                    found.append(id(state))
                    found += [id(state[name]) for name in names if name in state]
        return found

    def _fixed(self) -> tuple[Any, ...]:
        groups: list[Any] = []
        for group in getattr(self, "param_groups", ()):
            if self.is_rule:
                options = [
                    (name, self._enters(name, group) if name in self.numbers else _hashable(group.get(name)))
                    for name in self.defaults
                ]
            else:
                options = []  # all that is in a group of the user's is looked at by itself
            groups.append((id(group), tuple(map(id, group["params"])), tuple(options)))
        return (*groups, *self._kept()) if self.is_rule else tuple(groups)

    def _enters(self, name: str, group: Group) -> bool:
        value = group.get(name)
        return value is not None and (isinstance(value, Plain) or super()._enters(name, group))

    def __jit_watched__(self) -> list[tuple[str, Any, Any]] | None:
        watched = super().__jit_watched__() if self.is_rule else None
        if watched is None:
            return None
        for p in self._all():
            state = self.state.get(p)
            if state is not None:
                watched += [("item", self.state, p), ("length", state, None)]
                watched += [("item", state, name) for name in state]
        return watched

    # -- state

    def __getstate__(self) -> dict[str, Any]:
        left = ("_hooks", "_stepping")
        return {k: v for k, v in super().__getstate__().items() if k not in left}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("_hooks", {kind: {} for kind in _KINDS})
        self.__dict__.setdefault("_ticks", {})

    def state_dict(self) -> dict[str, Any]:
        """Return the options and the state, with numbers in the place of parameters; the tensors are the state's own.

        Copy it (`copy.deepcopy`) to keep it as it is.
        """
        for hook in self._hooks["state_dict_pre"].values():
            hook(self)
        numbers: dict[int, int] = {}
        for p in self._all():
            numbers.setdefault(id(p), len(numbers))
        groups = []
        for group in self.param_groups:
            options = {k: v for k, v in group.items() if k != "params"}
            groups.append({**options, "params": [numbers[id(p)] for p in group["params"]]})
        # What stands under another name than a parameter's is whatever a program has put there.
        packed = {numbers[id(p)] if isinstance(p, Plain) else p: dict(s) if isinstance(p, Plain) else s
                  for p, s in self.state.items()}  # fmt: skip
        found: dict[str, Any] = {"state": packed, "param_groups": groups}
        for hook in self._hooks["state_dict_post"].values():
            changed = hook(self, found)
            found = found if changed is None else changed
        return found

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take options and state from a result of :meth:`state_dict`, of this or of PyTorch's optimiser.

        Raises ValueError for other numbers of groups or parameters; then nothing is loaded.
        """
        state_dict = dict(state_dict)
        for hook in self._hooks["load_state_dict_pre"].values():
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        saved = [dict(g) for g in state_dict["param_groups"]]
        if len(saved) != len(self.param_groups):
            fail(ShapeError, "loaded state dict has a different number of parameter groups")
        if any(len(a["params"]) != len(b["params"]) for a, b in zip(saved, self.param_groups)):
            fail(ShapeError, "loaded state dict contains a parameter group of another number of parameters")
        order = [n for g in saved for n in g["params"]]
        params = dict(zip(order, self._all()))
        state = self._no_state()
        for key, entries in state_dict["state"].items():
            p = params.get(key)
            state[key if p is None else p] = entries if p is None else _cast(entries, p, None, self.scalars)
        groups = []
        for old, new in zip(self.param_groups, saved):
            made = Options({k: _copied(v) for k, v in new.items()})
            made["params"] = old["params"]
            for name in ("param_names", *self.defaults):
                if name in old and name not in made:
                    made[name] = old[name]
            groups.append(made)
        self._ticks = {}
        self.__setstate__({"state": state, "param_groups": groups})
        for hook in self._hooks["load_state_dict_post"].values():
            hook(self)


# Subclasses that define a step of their own have theirs wrapped when they are made.
Optimizer.step = _with_hooks(Optimizer.step)  # type: ignore[method-assign]


def _registering(kind: str, when: str) -> Callable[..., RemovableHandle]:
    def register(self: Optimizer, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        return RemovableHandle(self._hooks[kind], hook, prepend)

    register.__name__ = f"register_{kind}_hook"
    register.__qualname__ = f"Optimizer.{register.__name__}"
    register.__doc__ = f"Call `hook` {when}; `prepend`: before other hooks. Return the hook's handle."
    return register


for _kind, _when in {
    "step_pre": "as hook(optimizer, args, kwargs) before a step; it may return other (args, kwargs)",
    "step_post": "as hook(optimizer, args, kwargs) after a step",
    "state_dict_pre": "as hook(optimizer) before state_dict()",
    "state_dict_post": "as hook(optimizer, state_dict) after state_dict(); it may return another",
    "load_state_dict_pre": "as hook(optimizer, state_dict) before load_state_dict(); it may return another",
    "load_state_dict_post": "as hook(optimizer) after load_state_dict()",
}.items():
    setattr(Optimizer, f"register_{_kind}_hook", _registering(_kind, _when))


def _count_dtype() -> Any:
    """Return the dtype in which numbers are a part of the state."""
    return float64 if default_float() == float64 else np.dtype("float32")


def _tensor(array: Any) -> Tensor:
    made = wrap(array) if isinstance(array, Elsewhere) else asarray(array, copy=False)
    found: Tensor = of_class(Tensor, made)
    return found


def _tensor_of(value: Any) -> Tensor:
    """Return what a program has put into the state as a tensor that steps may write to."""
    if isinstance(value, Plain) and isinstance(value._array, Elsewhere):
        return _tensor(value._array.copy())
    data = value.detach().numpy() if isinstance(value, Plain) else np.asarray(value)
    return _tensor(np.array(data))


def _cells_of(state: State) -> list[Cell]:
    found: list[Cell] = []
    for name, value in state.items():
        if isinstance(value, Plain):
            found.append(TensorCell(value))
        elif type(value) in (int, float):
            found.append(ItemCell(state, name, np.dtype(type(value))))
    return found


def _is_ours(value: Any) -> bool:
    """Return whether a step may give the tensor another value: it has no history and shows nobody else's value."""
    return type(value) is Tensor and (value._array is None or value.node is None)


def _plain_number(value: Any) -> float:
    return float(value.detach().numpy() if isinstance(value, Plain) else value or 0)


def _wide(x: Plain) -> Plain:
    return x.wide() if isinstance(x, WeakTensor) else x


def _number(value: Any) -> Any:
    """Return an option as Python's number, or as a weak one in a trace; what is no number as it is."""
    if isinstance(value, WeakTensor) or type(value) in (int, float, bool) or value is None:
        return value
    if isinstance(value, Plain):
        with no_grad():
            flat = value.detach().reshape(())
            return weak(asarray(flat, dtype=float64)) if flat._array is None else float(flat._array)
    if isinstance(value, (tuple, list)):
        made = tuple(map(_number, value))
        same = isinstance(value, tuple) and all(a is b for a, b in zip(made, value))
        return value if same else made
    return float(value) if isinstance(value, np.generic) else value


def _numbers_of(options: Mapping[str, Any]) -> Group:
    return {name: _number(value) for name, value in options.items()}


def _hashable(value: Any) -> Any:
    if isinstance(value, Plain):
        return id(value)
    return tuple(map(_hashable, value)) if isinstance(value, (list, tuple)) else value


def _copied(value: Any) -> Any:
    if isinstance(value, Plain):
        return value.detach().clone()
    return type(value)(value) if type(value) in (list, dict, set) else value


def _cast(value: Any, p: Plain, key: Any, scalars: tuple[str, ...]) -> Any:
    """Return a copy of what was saved for a parameter, buffers in the dtype that they have for it."""
    if isinstance(value, (Plain, np.ndarray)):
        made = _tensor_of(value)
        is_number = key == "step" or key in scalars
        if is_number or category(p.dtype) < 2:
            return made
        dtype = plain.working_dtype(p.dtype)
        if made.dtype == dtype:
            return made
        return _tensor(in_place_of(made._array, here(made._array, "another dtype").astype(dtype)))
    if isinstance(value, Mapping):
        return {k: _cast(v, p, k, scalars) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(v, p, key, scalars) for v in value)
    return value


__getattr__ = names_of(__name__)
