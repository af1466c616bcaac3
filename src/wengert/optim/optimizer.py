"""The base class `Optimizer`: parameter groups, per-parameter state, and the step that all rules share.

A rule is one formula, written with operators that NumPy arrays and tensors share. Eager steps run it on
the arrays, block by block; while a function is traced it runs on abstract tensors, and the step becomes
part of the graph.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from .. import view_as_complex, view_as_real, where
from ..core.dtypes import DType
from ..core.elsewhere import Elsewhere, here
from ..core.errors import DTypeError, GradientError, GraphError, RangeError, StateError, fail
from ..core.mode import enable_grad, get_mode, no_grad
from ..core.ops.record import same_value
from ..core.spec import category, float32, float64, real_dtype
from ..core.standins import present, weak
from ..core.state.capture import get_capture
from ..core.state.cells import ArrayCell, Cell, TensorCell
from ..core.state.looking import after_look, is_look
from ..core.state.observer import Observer, observer, observers
from ..core.state.refusals import refuse
from ..core.state.undisturbed import undisturbed
from ..core.storage import assign_data, laid_like, window_of
from ..core.tensor import Tensor, asarray, like, wrap
from ..ops.index.inplace import set_gradient
from .cells import CountCell, OptionCell, Options, changes_of
from .repeated import Repeated

Array = np.ndarray[Any, Any]
Group = dict[str, Any]
State = dict[str, Any]
Params = Iterable[Tensor] | Iterable[Group]
_Update = tuple[Tensor, Array, Group]  # a parameter, its gradient, the options

# The attributes that are no part of an optimiser's state, but there for compiled functions.
_FOR_COMPILED = ("_compiled", "_counts", "_static", "_seen", "_together", "_unless", "_unused", "_looks", "_repeated")

# What schedules add to a group.
_OF_SCHEDULES = {"initial_lr", "max_lr", "min_lr", "max_momentum", "base_momentum", "swa_lr"}

# Elements that a rule works on at a time: its dozen passes then run in the cache.
BLOCK = 1 << 16


class Optimizer:
    """The base of the optimisers. A rule gives the names of its buffers and one elementwise formula.

    `params` is an iterable of leaf tensors, or of dicts with `params` and options that differ from
    the defaults for this group. The options of every group stand in `param_groups`, where schedules
    and users change them; `state` maps a parameter to its buffers, NumPy arrays that only the
    optimiser writes.

    A step gives every parameter a new value; whatever holds the old one keeps it (a large buffer that
    nothing else holds is written in place). Complex parameters are updated as pairs of real ones, 16-bit
    ones in float32 (their buffers too). NaN gradients are not hidden: they reach the parameters.

    In a compiled function (`wg.jit`) the options of `numbers` are inputs: changing one, or a schedule's
    step, shows in the next call and costs nothing. Those in `switches` decide, by being 0 or not, what is
    computed; that and all other options are fixed in a trace, and changing them traces anew.

    Raises GradientError for an empty list, tensors that are not leaves or given twice, DTypeError for
    what is not a floating tensor, RangeError for options out of range.

    >>> import wengert as wg
    >>> w = wg.tensor(1.0, requires_grad=True)
    >>> opt = wg.optim.SGD([w], lr=0.5)
    >>> (w * w).backward()
    >>> opt.step()
    >>> w
    tensor(0., requires_grad=True)
    """

    numbers: tuple[str, ...] = ("lr",)
    switches: tuple[str, ...] = ()
    # Buffers that are one number for each parameter.
    scalars: tuple[str, ...] = ()
    # Whether an element's step depends on that element alone, so that a step may be made block by block.
    elementwise = True

    def __init__(self, params: Params, defaults: Mapping[str, Any]) -> None:
        self.defaults: Group = dict(defaults)
        self.param_groups: list[Group] = []
        self.state: dict[Tensor, State] = self._no_state()
        self._forget()
        if isinstance(params, (Tensor, Mapping)) or not isinstance(params, Iterable):
            fail(
                DTypeError,
                f"an optimiser takes a list of tensors, not {type(params).__name__}",
                "Write model.parameters(), or [w, b].",
            )
        given: list[Any] = list(params)
        if not given:
            fail(
                GradientError,
                "an optimiser without parameters",
                "An iterator such as model.parameters() is empty after its first use; a module's parameters "
                "must be attributes of type wg.nn.Parameter.",
            )
        for group in given if isinstance(given[0], dict) else [{"params": given}]:
            self.add_param_group(group)
        if observers and (seen := observer()) is not None:
            seen.optimizing(self, False)

    def _forget(self) -> None:
        """Drop what compiled functions keep here, a trace's cells, and the values behind the static part."""
        self._compiled: Any = None
        self._counts: list[CountCell] = []
        self._static: tuple[Any, ...] = ()
        self._seen: list[Any] = []
        self._together: list[list[State]] = []
        self._unless: Tensor | None = None
        # The states that looks at functions have made, without buffers: programs know them by what they are.
        self._unused: dict[Tensor, State] = {}
        self._looks = 0
        # The program of steps outside of compiled functions.
        self._repeated: Repeated | None = None

    def _no_state(self) -> dict[Tensor, State]:
        """Return the mapping of parameters to their buffers, empty."""
        return {}

    # -- what a rule defines

    def _names(self, group: Group) -> tuple[str, ...]:
        """Return the names of the per-parameter buffers that the rule needs with these options."""
        return ()

    def _names_of(self, p: Tensor, group: Group) -> tuple[str, ...]:
        """Return the names of the buffers that the rule needs for this parameter."""
        return self._names(group)

    def _initial(self, name: str, group: Group) -> float:
        """Return the number that a new buffer is filled with."""
        return 0.0

    def _shape(self, name: str, p: Tensor) -> tuple[int, ...]:
        """Return the shape of a buffer of the parameter."""
        return () if name in self.scalars else p.shape

    def _dtype(self, name: str, p: Tensor) -> DType:
        """Return the dtype of a buffer of the parameter."""
        return float64 if name in self.scalars else working_dtype(p.dtype)

    def _rounded(self, number: Any) -> Any:
        """Return a scalar buffer's new value as it will be read at the next step."""
        return number

    def _check(self, group: Group) -> None:
        """Raise RangeError for options that make no sense."""
        for name in ("lr", "weight_decay"):
            if name in group:
                require(group, name, lambda v: v >= 0, "at least 0")

    def _update(self, value: Any, grad: Any, state: State, group: Group, step: Any) -> Any:
        """Return the number to add to the value, and bring the buffers, by name in `state`, up to date.

        `value`, `grad` and the buffers are real NumPy arrays of one shape, or tensors in a trace; options
        and `step`, which counts from 1, are Python numbers or stand for some. Buffers are changed by
        augmented assignment, `state["momentum"] *= 0.9`, which writes into an array and rebinds a tensor.
        `value` and `grad` must not be written to, and the result is an array of its own. The value is to
        decrease along `grad`. The buffers among `scalars` are numbers, and are assigned. For a choice by an
        option among `switches` ask :func:`is_on`; a choice by `step` is arithmetic.
        """
        fail(GraphError, f"{type(self).__name__} defines no update", "Override _update in the class.")

    # -- groups

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Add parameters with their own options: `{"params": [...], "lr": 0.01}`.

        Raises like the constructor; then nothing is added.
        """
        if not isinstance(group, Mapping) or "params" not in group:
            fail(DTypeError, f"a parameter group is a dict with 'params', not {group!r}")
        unknown = [k for k in group if k not in self.defaults and k != "params" and k not in _OF_SCHEDULES]
        if unknown:
            fail(
                StateError,
                f"{type(self).__name__} has no option {', '.join(map(repr, unknown))}",
                f"Its options are: {', '.join(self.defaults)}.",
            )
        given = group["params"]
        params = [given] if isinstance(given, Tensor) else list(given)
        known = {id(p) for g in self.param_groups for p in g["params"]}
        for p in params:
            _check_parameter(p)
            if id(p) in known:
                fail(GradientError, f"a parameter is given to the optimiser twice, {p.spec}", "Give each one once.")
            known.add(id(p))
        made = Options({**self.defaults, **group, "params": params})
        self._check(made)
        self.param_groups.append(made)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters (or set those there are to 0)."""
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    # Without a look at it: what a compiled step does not read may be there or not.
                    p.grad = None
                elif p.grad is not None:
                    set_gradient(p, like(p, wrap(np.zeros(p.shape, p.grad.dtype))))

    # -- the step

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient; `wg.explain.missing(w, loss)` tells why one has none.

        `closure`, where given, is called first to compute the loss and the gradients; its result is
        returned. Ctrl-C, as every signal that has a handler, is seen to before or after the update: all
        parameters and buffers have made the step, or none. Raises DTypeError for a gradient that does not
        fit, before anything is updated.

        Steps that repeat are made by native code, as :func:`wengert.set_eager_kernels` says.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        if not self._step_natively():
            self.step_by_rule()
        if observers and (seen := observer()) is not None:
            seen.optimizing(self, True)
        return loss

    def _step_natively(self) -> bool:
        """Make the step by a program, where it has repeated so often that this pays; return whether it is made."""
        if observers or get_capture() is not None or get_mode().tracing:
            return False
        if self._repeated is None:
            self._repeated = Repeated(type(self), self.elementwise, self._all())
        return self._repeated.step(self)

    def step_by_rule(self) -> None:
        """Update every parameter that has a gradient: what `step` does, without a closure, in Python or in a trace."""
        todo: list[_Update] = []
        for group in self.param_groups:
            options = self._resolved(group)
            for p in group["params"]:
                grad = p.grad
                if grad is None:
                    continue
                if grad._array is None or p._array is None:
                    with no_grad():
                        self._trace_one(p, -grad if group.get("maximize", False) else grad, options)
                else:
                    todo.append((p, _array(grad, p), options))
        if todo:
            if observers and (seen := observer()) is not None:
                self._observed_step(seen, todo)
            else:
                undisturbed(lambda: self._step_all(todo, self._step_one))

    def step_unless(self, skip: Tensor) -> Any:
        """Make a step unless `skip`, a boolean without axes, holds: then parameters, buffers and counts stay.

        In a compiled function they are selected, so that nothing depends on a decision; but for a `step` of a
        subclass's own, which is traced for either. Returns what `step` does, None where it is left out.

        >>> import wengert as wg
        >>> w = wg.tensor(1.0, requires_grad=True)
        >>> opt = wg.optim.SGD([w], lr=0.5)
        >>> (w * w).backward()
        >>> opt.step_unless(wg.tensor(True))
        >>> w
        tensor(1., requires_grad=True)
        """
        if not (skip.is_abstract and self._steps_by_rule()):
            return None if bool(skip) else self.step()
        self._unless = skip
        try:
            return self.step()
        finally:
            self._unless = None

    def _steps_by_rule(self) -> bool:
        """Return whether `step` is the one that all rules share."""
        return type(self).step is Optimizer.step

    def _step_all(self, todo: Sequence[_Update], step_one: Callable[[Tensor, Array, Group], None]) -> None:
        # Overflow and NaN are values that the parameters show, not warnings.
        with np.errstate(all="ignore"):
            for p, g, group in todo:
                step_one(p, -g if group.get("maximize", False) else g, group)

    def _observed_step(self, seen: Observer, todo: Sequence[_Update]) -> None:
        """Update as `_step_all` does, and tell an observer when all of it is done, whatever it makes of that."""
        found: list[tuple[Tensor, Array, Array, Array, float, float]] = []

        def step_one(p: Tensor, grad: Array, group: Group) -> None:
            before, start = p._array, perf_counter()
            self._step_one(p, grad, group)
            found.append((p, before, grad, p._array, start, perf_counter()))

        seen.quiet += 1
        try:
            undisturbed(lambda: self._step_all(todo, step_one))
        finally:
            seen.quiet -= 1
        for update in found:
            seen.updated(*update)

    def _step_one(self, p: Tensor, grad: Array, group: Group) -> None:
        owned = is_sole_owner(p)
        value = value_of(p)
        dtype = working_dtype(value.dtype)
        if dtype != value.dtype:
            value, grad, owned = value.astype(dtype), grad.astype(dtype), True
        state = self._state_of(p, group)
        step = self._counted(p, state)
        buffers = self._opened(state, self._names_of(p, group))
        if not self.elementwise or (value.size <= BLOCK and value.dtype.kind != "c"):
            new = self._update(value, grad, buffers, group, step)
            new += value
            if not value.shape:  # arithmetic on 0-d arrays gives scalars
                new = np.asarray(new)
        else:
            new = value if owned else np.empty(value.shape, value.dtype)
            out, old, g = _flat(new), _flat(value), _flat(grad)
            arrays = {name: _flat(b) for name, b in buffers.items() if name not in self.scalars}
            after = scalars = {name: buffers[name] for name in self.scalars if name in buffers}
            for start in range(0, out.size, BLOCK):
                part = slice(start, start + BLOCK)
                found = {k: b[part] for k, b in arrays.items()}
                after = self._step_part(out[part], old[part], g[part], found, scalars, group, step)
            buffers.update(after)
        self._closed(state, buffers)
        new = new if new.dtype == p.dtype else new.astype(p.dtype)
        assign_data(p, laid_like(new, window_of(p)))

    def _step_part(
        self,
        out: Array,
        value: Array,
        grad: Array,
        buffers: dict[str, Array],
        scalars: State,
        group: Group,
        step: int,
    ) -> State:
        """Apply the rule to parts of arrays, which are written to. Return what becomes of the scalars."""
        found: State = {**buffers, **scalars}
        np.add(value, self._update(value, grad, found, group, step), out=out)
        for name, buffer in buffers.items():
            if found[name] is not buffer:
                buffer[...] = found[name]
        return {name: found[name] for name in scalars}

    # -- where the state is kept

    def _resolved(self, group: Group) -> Group:
        """Return the options as a rule is given them."""
        return group

    def _counted(self, p: Tensor, state: State) -> int:
        """Count another step of the parameter; return its number, from 1."""
        step: int = state["step"] + 1
        state["step"] = step
        return step

    def _opened(self, state: State, names: tuple[str, ...]) -> State:
        """Return the buffers of these names: arrays to be written into, scalars as numbers."""
        # Parameters that came back from a device bring their state along when it is next used.
        found = {name: here(state[name], "an optimiser's step") for name in names}
        scalars = self.scalars
        return {name: float(a) if name in scalars else _writeable(a) for name, a in found.items()}

    def _closed(self, state: State, buffers: State) -> None:
        """Keep what a step has made of the buffers."""
        for name, new in buffers.items():
            # Arithmetic on 0-d arrays gives scalars.
            state[name] = new if type(new) is np.ndarray else np.asarray(new, state[name].dtype)

    def _state_of(self, p: Tensor, group: Group) -> State:
        """Return the parameter's state, with all buffers that these options need."""
        state = self.state.get(p)
        if state is None:
            state = self.state[p] = self._unused.pop(p, {"step": 0})
        for name in self._names_of(p, group):
            if name not in state:
                state[name] = self._new_buffer(name, p, group)
        return state

    def _new_buffer(self, name: str, p: Tensor, group: Group) -> Any:
        """Return a buffer before the first step. In a complex one real and imaginary parts are both the number."""
        if name in self.scalars:
            return np.asarray(self._initial(name, group), self._dtype(name, p))
        number, dtype, shape = self._initial(name, group), self._dtype(name, p), self._shape(name, p)
        first = complex(number, number) if dtype.kind == "c" else number
        if isinstance(p._array, Elsewhere) and shape == p.shape:
            return p._array.full(first, dtype)
        return np.full(shape, first, dtype)

    # -- in a trace

    def _trace_one(self, p: Tensor, grad: Tensor, group: Group) -> None:
        if p not in self.state and self._counts:
            refuse(
                f"a step of a parameter that was frozen when the function was traced, {p.spec}",
                "Call requires_grad_() before the compiled function, not inside it.",
                p,
            )
        if category(grad.dtype) > category(p.dtype):
            fail(DTypeError, f"a gradient of dtype {grad.dtype} for a parameter of dtype {p.dtype}")
        state = self._state_of(p, group)
        names = self._names_of(p, group)
        dtype = working_dtype(p.dtype)
        # Objects of the step's own, which it writes to.
        value, g = (same_value(_real(asarray(t, dtype=dtype))) for t in (present(p), grad))
        before: State = {name: same_value(asarray(state[name])) for name in names} if self._unless is not None else {}
        parts = self._opened_in_trace(state, names, dtype)
        count = self._counted_in_trace(p, state)
        change = self._update(value, g, parts, group, count)
        p.assign_(self._chosen(_as_before(value + change, dtype).astype(p.dtype), present(p)))
        for name, new in self._closed_in_trace(state, parts, dtype).items():
            self._keep(state, name, self._chosen(new, before.get(name)))

    def _opened_in_trace(self, state: State, names: tuple[str, ...], dtype: DType) -> State:
        """Return the buffers of these names as objects of the step's own: tensors of this dtype, scalars weak."""
        return {
            name: weak(asarray(state[name], dtype=float64))
            if name in self.scalars
            else same_value(_real(asarray(state[name], dtype=dtype)))
            for name in names
        }

    def _closed_in_trace(self, state: State, buffers: State, dtype: DType) -> dict[str, Tensor]:
        """Return what is kept of the buffers that a traced step has changed."""
        return {
            name: asarray(t.wide() if t.is_weak else t, dtype=state[name].dtype)
            if name in self.scalars
            else _as_before(t, dtype)
            for name, t in buffers.items()
        }

    def _chosen(self, new: Tensor, old: Tensor | None) -> Tensor:
        """Return what a traced step has made, or what was there before where the step is to be left out."""
        if self._unless is None or old is None:
            return new
        return where(self._unless, asarray(old, dtype=new.dtype), new)

    def _counted_in_trace(self, p: Tensor, state: State) -> Any:
        """Count another step of the parameter; return its number, which stands for an int."""
        step = next((after for c in self._counts if (after := c.after(state["step"], self._unless)) is not None), None)
        if step is None:
            step = state["step"] + 1
        state["step"] = step
        return step

    def _keep(self, state: State, name: str, value: Tensor) -> None:
        """Keep what a traced step has made of a buffer."""
        state[name] = value

    def __jit_cells__(self) -> Iterable[Cell]:
        if is_look():
            known = {p: tuple(state) for p, state in self.state.items()}
            after_look(lambda: self._put_away(known))
        cells: list[Cell] = []
        for group in self.param_groups:
            for name in self.numbers:
                if name in group and self._enters(name, group):
                    cells += self._option_cells(group, name)
            for p in group["params"]:
                cells.append(TensorCell(p))
                if p in self.state or p.requires_grad:
                    cells += self._buffer_cells(self._state_of(p, group), self._names_of(p, group))
        self._seen = []
        return [*cells, *(CountCell(states, self._counts) for states in self._by_count())]

    def _put_away(self, known: Mapping[Tensor, Sequence[str]]) -> None:
        """Remove the states and buffers that are not `known` and no step has used."""
        for p, state in list(self.state.items()):
            if p in known:
                for name in [name for name in state if name not in known[p]]:
                    del state[name]
            elif not state.get("step"):
                self._unused[p] = self._without_buffers(self.state.pop(p))
        self._looks += 1

    def _without_buffers(self, state: State) -> State:
        """Return the state of a parameter, the same object, as it is kept until the first step."""
        for name in [name for name in state if name != "step"]:
            del state[name]
        return state

    def _option_cells(self, group: Group, name: str) -> Iterable[Cell]:
        if isinstance(group[name], tuple):
            return [OptionCell(group, name, i) for i in range(len(group[name]))]
        return [OptionCell(group, name)]

    def _buffer_cells(self, state: State, names: tuple[str, ...]) -> Iterable[Cell]:
        return [ArrayCell(state, name) for name in names]

    def _by_count(self) -> list[list[State]]:
        """Return the states of parameters that have made equally many steps, together."""
        parts: dict[int, list[State]] = {}
        for p in self._all():
            if "step" in self.state.get(p, ()):
                parts.setdefault(self.state[p]["step"], []).append(self.state[p])
        return list(parts.values())

    # What users put there beside numbers and buffers is theirs to read and write, in compiled functions too.
    __jit_open__ = ("param_groups", "state")

    def __jit_static__(self) -> tuple[Any, ...]:
        seen = self._signs()
        if seen != self._seen or not self._still_together():
            self._together = self._by_count()
            self._static, self._seen = self._fixed(), seen
        return self._static

    def _signs(self) -> list[Any]:
        """Return what tells, by being what it was, that :meth:`_fixed` is so too."""
        seen = [id(self.state), len(self.state), self._looks]
        for group in self.param_groups:
            seen += id(group), changes_of(group)
        return seen

    def __jit_watched__(self) -> list[tuple[str, Any, Any]] | None:
        if any(type(group) is not Options for group in self.param_groups):
            return None
        own, groups = self.__dict__, self.param_groups
        watched: list[tuple[str, Any, Any]] = [("item", own, "state"), ("length", self.state, None)]
        watched += [("item", own, "param_groups"), ("length", groups, None)]
        watched += [("entry", groups, i) for i in range(len(groups))]
        watched += [("slot", group, "changes") for group in groups]
        return watched + [("equal", [(s, "step") for s in states], None) for states in self._by_count()]

    def _still_together(self) -> bool:
        # Asked before every call of a compiled function: a plain loop is the quickest way.
        for states in self._together:
            step = states[0]["step"]
            for state in states:
                if state["step"] != step:
                    return False
        return True

    def _fixed(self) -> tuple[Any, ...]:
        """Return all that a trace takes for granted: parameters, options, which step counts are equal, and buffers."""
        groups = []
        for group in self.param_groups:
            options = tuple(
                (name, self._enters(name, group) if name in self.numbers else group[name]) for name in self.defaults
            )
            groups.append((id(group), tuple(map(id, group["params"])), options))
        states = self.state.values()
        return tuple(groups), tuple(tuple(map(id, s)) for s in self._together), frozenset(map(tuple, states))

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in _FOR_COMPILED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def _enters(self, name: str, group: Group) -> bool:
        """Return whether a number enters the computation: not where its being 0 leaves a part out."""
        return name not in self.switches or group[name] != 0

    # -- state

    def state_dict(self) -> dict[str, Any]:
        """Return options and buffers as plain data, with parameters numbered in order (PyTorch's layout)."""
        numbers = {id(p): i for i, p in enumerate(self._all())}
        groups = [{**without_params(g), "params": [numbers[id(p)] for p in g["params"]]} for g in self.param_groups]
        state = {numbers[id(p)]: {k: _saved(v) for k, v in s.items()} for p, s in self.state.items()}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take options and buffers from a result of :meth:`state_dict`.

        All of it is checked first: when anything is wrong nothing is loaded. Raises StateError listing
        what does not fit.
        """
        name = type(self).__name__
        if not isinstance(state_dict, Mapping) or not {"state", "param_groups"} <= set(state_dict):
            fail(StateError, f"{name}: a state dict has the keys 'state' and 'param_groups'")
        groups, state = state_dict["param_groups"], state_dict["state"]
        wrong = []
        if len(groups) != len(self.param_groups):
            wrong.append(f"{len(groups)} parameter groups in the state dict, {len(self.param_groups)} in the optimiser")
        for i, (new, old) in enumerate(zip(groups, self.param_groups)):
            found, own = len(new["params"]), len(old["params"])
            if found != own:
                wrong.append(f"group {i} has {found} parameters in the state dict, {own} in the optimiser")
            for kind, keys in (("missing", set(old) - set(new)), ("unexpected", set(new) - set(old))):
                # Either side may be without a schedule.
                wrong += [f"group {i}: {kind} option {k!r}" for k in sorted(keys - _OF_SCHEDULES)]
        loaded: dict[Tensor, dict[str, Any]] = {}
        if not wrong:
            order = [n for g in groups for n in g["params"]]
            params = dict(zip(order, self._all()))
            wrong += [f"state of parameter {n}, which no group holds" for n in state if n not in params]
            for n, entries in state.items():
                if n in params:
                    loaded[params[n]] = self._loaded(entries, params[n], f"parameter {n}", wrong)
        if wrong:
            fail(StateError, f"state dict does not fit {name}", "\n".join([*wrong, "Nothing was loaded."]))
        for new, old in zip(groups, self.param_groups):
            old.update(without_params(new))
        self.state = loaded

    def _loaded(self, entries: Mapping[str, Any], p: Tensor, what: str, wrong: list[str]) -> State:
        made: State = {}
        for key, value in entries.items():
            if key == "step":
                made[key] = int(value)
                continue
            found = value._array if isinstance(value, Tensor) else value
            array: Any = found.copy() if isinstance(found, Elsewhere) else np.array(found)
            dtype = self._dtype(key, p)
            if array.shape != self._shape(key, p):
                wrong.append(f"{what}: {key} has shape {array.shape}, the parameter {p.shape}")
                continue
            if array.dtype != dtype:
                array = array.cast(dtype) if isinstance(array, Elsewhere) else array.astype(dtype)
            made[key] = array
            if isinstance(p._array, Elsewhere) and not isinstance(array, Elsewhere) and array.shape == p.shape:
                made[key] = p._array.taken(made[key])
        made.setdefault("step", 0)
        return made

    def _all(self) -> list[Tensor]:
        return [p for g in self.param_groups for p in g["params"]]

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {k}: {group[k]}" for k in sorted(group) if k != "params"]
        return "\n".join([*lines, ")"])


def _saved(value: Any) -> Any:
    """Return a copy of what a state holds, with tensors in the place of arrays."""
    if isinstance(value, (np.ndarray, Elsewhere)):
        return wrap(value.copy())
    return list(map(_saved, value)) if isinstance(value, list) else value


def value_of(x: Tensor) -> Array:
    """Return the array of a parameter or a gradient for a step outside of compiled functions, which needs one here."""
    if isinstance(x._array, Elsewhere):
        x._array.refuse("an optimiser's step")
    return np.asarray(x._value("an optimiser's step"))


def is_on(option: Any) -> bool:
    """Return whether an option whose 0 leaves a part out is another number. Only such a one is abstract in a trace."""
    return isinstance(option, Tensor) or option != 0


def without_params(group: Mapping[str, Any]) -> Group:
    """Return a group's options alone, lists and tensors among them as copies."""
    return {k: copy.copy(v) for k, v in group.items() if k != "params"}


def refuse_in_trace(schedule: Any) -> None:
    """Raise TraceError for a schedule's step inside a compiled function."""
    if get_capture() is not None:
        refuse(
            f"{type(schedule).__name__}.step() inside a compiled function",
            "It would run once, when the function is traced. Call it after the compiled step: the next one sees the "
            "new rate.",
        )


def require(group: Group, name: str, test: Callable[[Any], bool], wanted: str) -> None:
    """Make an option a float. Raises DTypeError for a text, RangeError for what is no such number."""
    value = group[name]
    if isinstance(value, str):
        fail(DTypeError, f"{name}={value!r} is a text, not a number", f"Write the number without quotes: {name}=0.01.")
    # Written so that NaN, which fails every test, is refused.
    if isinstance(value, Tensor):
        value = group[name] = value.item()
    if not isinstance(value, (int, float, np.integer, np.floating)) or not test(value):
        fail(RangeError, f"{name} must be {wanted}, not {value!r}")
    # A NumPy float64 would turn float32 arithmetic into float64.
    group[name] = float(value)


def _check_parameter(p: Any) -> None:
    if not isinstance(p, Tensor):
        fail(
            DTypeError,
            f"an optimiser takes tensors, not {type(p).__name__}",
            "Write model.parameters(), or wrap the data: wg.nn.Parameter(data).",
        )
    if not p.is_leaf:
        fail(
            GradientError,
            f"an optimiser cannot update a tensor computed by {p.grad_fn}, {p.spec}",
            "Only leaves are parameters: wrap it as wg.nn.Parameter(x), or x.detach().requires_grad_().",
        )
    if category(p.dtype) < 2:
        fail(DTypeError, f"an optimiser cannot update a tensor of dtype {p.dtype}", "Use a floating dtype.")


def _array(grad: Tensor, p: Tensor) -> Array:
    value = value_of(grad)
    if value.dtype != p.dtype:
        if category(grad.dtype) > category(p.dtype):
            fail(DTypeError, f"a gradient of dtype {grad.dtype} for a parameter of dtype {p.dtype}")
        value = value.astype(p.dtype)
    return value


# References to an array that only its tensor holds, counted as `is_sole_owner` counts them.
_PROBE = wrap(np.zeros(1))
_SOLE = sys.getrefcount(_PROBE._array)
# Without the global lock another thread's references may come between the count and the writing.
_COUNTS_ARE_EXACT = getattr(sys, "_is_gil_enabled", lambda: True)()


def is_sole_owner(p: Tensor) -> bool:
    """Return whether nothing else holds or views the tensor's buffer, so that writing into it changes nobody's value.

    Views, saved values of a graph and arrays that share the memory all refer to the array that owns it.
    """
    if not _COUNTS_ARE_EXACT or sys.getrefcount(p._array) != _SOLE:
        return False
    data = p._array
    return isinstance(data, np.ndarray) and data.base is None and data.flags.carray and data.flags.owndata


def working_dtype(dtype: DType) -> DType:
    """Return the dtype of the arithmetic and the buffers: squares and eps vanish in 16 bits."""
    return float32 if category(dtype) == 2 and dtype.itemsize < 4 else dtype


def _real(t: Tensor) -> Tensor:
    """Return a tensor of real numbers, complex ones as pairs."""
    return view_as_real(t) if t.is_complex() else t


def _as_before(t: Tensor, dtype: DType) -> Tensor:
    return view_as_complex(t) if category(dtype) == 3 else t


def _flat(a: Array) -> Array:
    """Return `a` as one axis of real numbers: a view where its memory is contiguous."""
    flat = a.reshape(-1)
    return flat.view(real_dtype(flat.dtype)) if flat.dtype.kind == "c" else flat


def _writeable(a: Array) -> Array:
    """Return an array that may be written into: a copy of what several devices have."""
    return a.copy() if isinstance(a, np.ndarray) and not a.flags.writeable else a
