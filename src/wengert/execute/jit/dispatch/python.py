"""The dispatch program's Python interpreter: it compiles a program to a function of Python's, line for line.

It stands in where native code may not look at objects itself (other Pythons than those that were tested, no code
generator), and takes the calls that the native interpreter does not: in the midst of another one, with arrays that
are not laid out in order, with results that carry gradients.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from itertools import chain
from operator import setitem
from typing import Any

import numpy as np

from ....core.elsewhere import CPU
from ....core.mode import get_mode
from ....core.node import Hooked, Node
from ....core.ops.op import LEAF
from ....core.spec import Spec
from ....core.standins import weak
from ....core.state.at_once import at_once
from ....core.state.capture import open_variables
from ....core.state.cells import Cell, set_data, set_grad
from ....core.state.turns import holding
from ....core.storage import strides_of
from ....core.tensor import Tensor, like, new, of_class, wrap
from ....core.tree import Structure, unflatten
from ....ops.index.views import FromOwner
from ...engines import XLA
from ...xla.memory import settled
from .. import donation
from ..capture.captured import Captures
from ..recorded import Recorded
from ..signature import PLAIN, as_array, as_fed
from ..tracing import TRACING, epoch
from .program import MISS, Dispatch, Instruction, Register

# The names that the text of every function uses.
_NAMES: dict[str, Any] = {
    "MISS": MISS,
    "LEAF": LEAF,
    "TRACING": TRACING,
    "Hooked": Hooked,
    "Tensor": Tensor,
    "as_array": as_array,
    "at_once": at_once,
    "chain": chain,
    "copy": np.array,
    "epoch": epoch,
    "holding": holding,
    "killing": donation.killing,
    "is_viewed": donation.is_viewed,
    "like": like,
    "mode": get_mode,
    "new": new,
    "of_class": of_class,
    "set_data": set_data,
    "strides_of": strides_of,
    "setitem": setitem,
    "settled": settled,
    "set_grad": set_grad,
    "unflatten": unflatten,
    "variables": open_variables,
    "weak": weak,
    "wrap": wrap,
}


class _Elsewhere:
    """An answer of a path that holds turns: the call goes on with another one, once they are given back."""

    def __init__(self, number: int) -> None:
        self.number = number


def function(program: Dispatch, is_awaited: bool) -> Callable[..., Any]:
    """Return the function of a call's positional arguments: their result, or MISS.

    Paths are compiled when they are first taken, and the likeliest one at once where calls are awaited.
    """
    paths: list[Callable[..., Any]] = [_later(program, n) for n in range(len(program.paths))]
    for later in paths:
        later.paths = paths  # type: ignore[attr-defined]
    call: Callable[..., Any]
    if is_awaited:
        call = paths[0] = _Text(program, 0, paths).compile()
    else:

        def call(*args: Any) -> Any:
            return paths[0](*args)

    call.dispatch = program  # type: ignore[attr-defined]
    return call


def _later(program: Dispatch, n: int) -> Callable[..., Any]:
    def first(*args: Any) -> Any:
        paths = first.paths  # type: ignore[attr-defined]
        paths[n] = made = _Text(program, n, paths).compile()
        return made(*args)

    return first


class _Text:
    """The text of the function for one path."""

    def __init__(self, program: Dispatch, number: int, paths: Sequence[Callable[..., Any]]) -> None:
        self.program, self.code = program, program.paths[number]
        path = self.code.path
        self.take = donation.taking(path.engine, path.place)
        self.names = {**_NAMES, "paths": paths}
        if path.place != CPU:
            self.names["as_array"] = as_fed
        self.inputs: tuple[Register, ...] = ()
        self.run = ""
        self.may_fail = False
        # What stood where the path writes, and the calls that write: iterables, which are looked at when what is in the
        # outputs has been computed.
        self.old: list[str] = []
        self.calls: list[str] = []

    def value(self, value: Any) -> str:
        """Return a name for a value."""
        name = f"k{len(self.names)}"
        self.names[name] = value
        return name

    def compile(self) -> Callable[..., Any]:
        exec(compile("\n".join(self.lines()), "<wengert call>", "exec"), self.names)
        made: Callable[..., Any] = self.names["call"]
        return made

    def lines(self) -> list[str]:
        mode, *checks = self.program.checks
        turns, *code = self.code.code
        if turns.name != "turns":
            turns, code = Instruction("turns", ((),)), self.code.code
        feeds, rest = _until_run(code)
        arguments = "".join(f"a{i}, " for i in range(self.program.arguments))
        after = self.after(rest)
        return [
            "def call(*args):",
            *_indented(self.text([mode, turns])),
            *(["def held(args, old):"] if self.writes else []),
            "    e = epoch[0]",
            "    try:",
            f"        if len(args) != {self.program.arguments}: return MISS",
            *([f"        {arguments}= args"] if arguments else []),
            *_indented(self.text(checks), 2),
            *_indented(self.text(feeds), 2),
            "    except (AttributeError, KeyError, OverflowError):",  # an abstract tensor, another dict
            "        return MISS",
            "    if e & 1 or epoch[0] != e: return MISS",
            *_indented(after),
        ]

    def text(self, code: Sequence[Instruction]) -> list[str]:
        return [line for i in code for line in PYTHON[i.name](self, *i.operands)]

    def after(self, code: Sequence[Instruction]) -> list[str]:
        """Return the lines of the run, and of what follows: the decisions, the writes, the answer."""
        decides = [i for i in code if i.name == "decide"]
        lines = {
            "run": self.text([code[0]]),
            "decide": self.text(decides),
            "rest": self.text([i for i in code[1:] if i.name != "decide"]),
        }
        if self.writes:
            commit = [
                "def commit(o, calls):",
                f"    old.extend(({''.join(f'{x}, ' for x in self.old)}))",
                f"    with TRACING: at_once(chain({', '.join(('calls', *self.calls))}))()",
            ]
            if decides or self.carries:
                lines["decide"] = [*lines["decide"], *commit, "commit(o, ())"]
            else:
                lines["run"] = [*commit, *lines["run"]]
        if decides:
            # What fails may be on a path that this call does not take: the general way finds out.
            lines["run"] = ["try:", *_indented(lines["run"]), "except Exception:", "    return MISS"]
        return [*lines["run"], *lines["decide"], *lines["rest"]]

    @property
    def carries(self) -> bool:
        return self.code.path.carries

    @property
    def writes(self) -> bool:
        return self.code.path.writes


def _until_run(code: Sequence[Instruction]) -> tuple[Sequence[Instruction], Sequence[Instruction]]:
    at = next(n for n, i in enumerate(code) if i.name in ("run", "record"))
    return code[:at], code[at:]


def _indented(lines: Sequence[str], by: int = 1) -> list[str]:
    return ["    " * by + line for line in lines]


def _miss(condition: str) -> list[str]:
    return [f"if {condition}: return MISS"]


Lines = list[str]


def _mode(t: _Text, *known: Any) -> Lines:
    was = {name: t.value(value) for name, value in zip(("grad", "floats", "autocast", "engine"), known, strict=True)}
    changed = " or ".join(f"m.{name} is not {value}" for name, value in was.items())
    return ["m = mode()", *_miss(f"m.tracing or {changed}")]


def _parts(kind: str) -> Callable[..., Lines]:
    def parts(t: _Text, a: Register, parts: Sequence[Register]) -> Lines:
        unpacked = [f"{''.join(f'{p}, ' for p in parts)}= {a}"] if parts else []
        return [*_miss(f"type({a}) is not {kind} or len({a}) != {len(parts)}"), *unpacked]

    return parts


def _dict(t: _Text, a: Register, count: int) -> Lines:
    return _miss(f"type({a}) is not dict or len({a}) != {count}")


def _item(t: _Text, a: Register, key: Any, part: Register) -> Lines:
    return [f"{part} = {a}[{t.value(key)}]"]


def _same(t: _Text, a: Register, b: Register) -> Lines:
    return _miss(f"{a} is not {b}")


def _is(t: _Text, a: Register, value: Any) -> Lines:
    return _miss(f"{a} is not {t.value(value)}")


def _equal(t: _Text, a: Register, value: Any) -> Lines:
    kind = f"type({a}) is not {t.value(type(value))}"
    if type(value) in (float, complex) and (value == 0 or value != value):
        return _miss(f"{kind} or repr({a}) != {repr(value)!r}")
    return _miss(f"{kind} or not ({a} == {t.value(value)})")


def _identity(t: _Text, a: Register, number: int) -> Lines:
    return _miss(f"id({a}) != {number}")


def _method(t: _Text, a: Register, owner: int, fn: int) -> Lines:
    kind = t.value(types.MethodType)
    return _miss(f"type({a}) is not {kind} or id({a}.__self__) != {owner} or id({a}.__func__) != {fn}")


def _tensor(t: _Text, a: Register, kind: type, spec: Spec, tracked: bool) -> Lines:
    found = f"type({a}) is not {t.value(kind)} or {a}._spec is not {t.value(spec)}"
    return _miss(found if tracked else f"{found} or {a}.node is not None")


def _row_major(t: _Text, a: Register) -> Lines:
    return _miss(f"strides_of({a})")


def _weak(t: _Text, a: Register, kind: type, dtype: Any, shape: Any, tracked: bool) -> Lines:
    lines = _miss(f"type({a}) is not {t.value(kind)}" + ("" if tracked else f" or {a}.node is not None"))
    return [*lines, *_miss(f"{a}._array.dtype is not {t.value(dtype)} or {a}._array.shape != {shape!r}")]


def _tracked(t: _Text, a: Register, collects: bool) -> Lines:
    leaf = "n.op is not LEAF" if collects else "n.op is LEAF"
    return [f"n = {a}.node", *_miss(f"n is None or not n.requires_grad or {leaf} or type(n.saved) is Hooked")]


def _not_written(t: _Text, a: Register, tensors: Sequence[Tensor]) -> Lines:
    return _miss(f"id({a}) in {t.value(frozenset(map(id, tensors)))}")


def _array(t: _Text, a: Register, dtype: Any, shape: Any) -> Lines:
    kind = f"type({a}) is not {t.value(np.ndarray)} or {a}.dtype is not {t.value(dtype)} or {a}.shape != {shape!r}"
    return _miss(f"{kind} or {a}.flags.num & {PLAIN} != {PLAIN}")


def _number(t: _Text, a: Register, kind: type) -> Lines:
    return _miss(f"type({a}) is not {kind.__name__}")


def _alone(t: _Text, tensor: Tensor, of_gradient: bool) -> Lines:
    return _miss(f"is_viewed({t.value(tensor)}{'.grad' if of_gradient else ''})")


def _unobserved(t: _Text) -> Lines:
    return _miss("variables")


def _captured(t: _Text, captures: Captures) -> Lines:
    return _miss(f"not {t.value(captures.holds)}()")


def _turns(t: _Text, turns: Any) -> Lines:
    """Make the rest another function, which runs while the turns are held, so that no check comes early."""
    if not t.writes:
        return []
    elsewhere = any(i.name == "decide" and i.operands[-1] is not None for i in t.code.code)
    names = t.value(turns), t.value(_Elsewhere)
    end = f"return paths[found.number](*args) if type(found) is {names[1]} else found"
    held = f"holding({names[0]}, lambda: held(args, old))"
    return ["old = []", *([f"found = {held}", end] if elsewhere else [f"return {held}"])]


def _has_gradient(t: _Text, tensor: Tensor) -> Lines:
    return _miss(f"{t.value(tensor)}.grad is None")


def _no_gradient(t: _Text, tensor: Tensor) -> Lines:
    return _miss(f"{t.value(tensor)}.grad is not None")


def _plain(i: Register, array: str) -> Lines:
    """Make an input's array contiguous where it is not."""
    return [f"{i} = {array}", f"if {i}.flags.num & {PLAIN} != {PLAIN}: {i} = as_array({i})"]


def _owner(t: _Text, owner: Any) -> str:
    return str(owner) if type(owner) is Register else t.value(owner)


def _feed_tensor(t: _Text, i: Register, owner: Any, dtype: Any, shape: Any) -> Lines:
    name = _owner(t, owner)
    path = t.code.path
    return _plain(i, f"settled({name})" if path.engine.name == XLA and path.place == CPU else f"{name}._array")


def _feed_array(t: _Text, i: Register, a: Register) -> Lines:
    return [f"{i} = {a}"]


def _feed_number(t: _Text, i: Register, a: Register) -> Lines:
    return [f"{i} = as_array({a})"]


def _gradient(t: _Text, tensor: Tensor, spec: Spec) -> Lines:
    cls = t.value(tensor.result_class)
    found = f"type(g) is not {cls} or g._spec is not {t.value(spec)} or g.node is not None"
    return [f"g = {t.value(tensor)}._grad", *_miss(found)]


def _feed_gradient(t: _Text, i: Register, tensor: Tensor, spec: Spec) -> Lines:
    return [*_gradient(t, tensor, spec), *_plain(i, "g._array")]


def _feed_item(t: _Text, i: Register, items: Any, key: str, dtype: Any, shape: Any) -> Lines:
    return _plain(i, f"{t.value(items)}[{key!r}]")


def _feed_numbers(t: _Text, i: Register, cell: Cell) -> Lines:
    return [f"{i} = {t.value(cell.get)}()"]


def _feed_cell(t: _Text, i: Register, cell: Cell, dtype: Any, shape: Any) -> Lines:
    return _plain(i, f"{t.value(cell.get)}()")


def _take_tensor(t: _Text, i: Register, owner: Any, dtype: Any, shape: Any) -> Lines:
    return [f"{i} = {t.value(t.take.of_tensor)}({_owner(t, owner)})"]


def _take_array(t: _Text, i: Register, a: Register) -> Lines:
    return [f"{i} = copy({a})"]


def _take_gradient(t: _Text, i: Register, tensor: Tensor, spec: Spec) -> Lines:
    return [*_gradient(t, tensor, spec), "del g", f"{i} = {t.value(t.take.of_gradient)}({t.value(tensor)})"]


def _take_item(t: _Text, i: Register, items: Any, key: str, dtype: Any, shape: Any) -> Lines:
    return [f"{i} = {t.value(t.take.of_item)}({t.value(items)}, {key!r})"]


def _take_cell(t: _Text, i: Register, cell: Cell, dtype: Any, shape: Any) -> Lines:
    return [f"{i} = {t.value(t.take.of_cell)}({t.value(cell)})"]


def _keep(t: _Text, a: Register) -> Lines:
    """Add nothing: the function's variables hold what they name."""
    return []


def _feed_tracked(t: _Text, i: Register, owner: Any) -> Lines:
    return [f"{i} = {_owner(t, owner)}"]


def _wrap(t: _Text, i: Register, copied: bool) -> Lines:
    return [f"{i} = wrap(copy({i}))" if copied else f"{i} = wrap({i})"]


def _feeds(inputs: Sequence[Register]) -> str:
    return f"[{', '.join(map(str, inputs))}]"


def _run(t: _Text, inputs: Sequence[Register]) -> Lines:
    executor, decides = t.code.path.executor, any(i.name == "decide" for i in t.code.code)
    if t.writes and not decides:
        return [f"o = {t.value(executor.run_at_once)}({_feeds(inputs)}, commit)"]
    return [f"o = {t.value(executor.run)}({_feeds(inputs)})"]


def _record(t: _Text, inputs: Sequence[Register], recorded: Recorded) -> Lines:
    return [f"c = {t.value(recorded)}({_feeds(inputs)})", "o = [x._array for x in c]"]


def _decide(t: _Text, o: Register, value: bytes, other: int | None) -> Lines:
    on = "MISS" if other is None else t.value(_Elsewhere(other)) if t.writes else f"paths[{other}](*args)"
    return [f"if {_output(o)}.tobytes() != {value!r}: return {on}"]


def _output(o: Register) -> str:
    return f"o[{o.number}]"


def _commit(t: _Text) -> Lines:
    """Add nothing: one call makes the writes, when all of them are known (`_Text.after`)."""
    return []


def _write(t: _Text, old: str, calls: str) -> Lines:
    t.old += [old] if old else []
    t.calls.append(calls)
    return []


def _write_tensor(t: _Text, tensor: Tensor, o: Register) -> Lines:
    name = t.value(tensor)
    return _write(t, f"{name}._array", f"((set_data, {name}, {_output(o)}),)")


def _write_item(t: _Text, items: Any, key: str, o: Register) -> Lines:
    name = t.value(items)
    return _write(t, f"{name}[{key!r}]", f"((setitem, {name}, {key!r}, {_output(o)}),)")


def _write_cell(t: _Text, cell: Cell, o: Register) -> Lines:
    return _write(t, f"{t.value(cell)}.get()", f"{t.value(cell)}.writes({_output(o)})")


def _write_numbers(t: _Text, cell: Cell, o: Register) -> Lines:
    return _write(t, "", f"{t.value(cell)}.writes({_output(o)})")


def _write_gradient(t: _Text, tensor: Tensor, spec: Spec, o: Register) -> Lines:
    name = t.value(tensor)
    return _write(t, f"{name}._grad", f"((set_grad, {name}, like({name}, wrap({_output(o)}, {t.value(spec)}))),)")


def _write_no_gradient(t: _Text, tensor: Tensor) -> Lines:
    name = t.value(tensor)
    return _write(t, f"{name}._grad", f"((set_grad, {name}, None),)")


def _consume(t: _Text, a: Register, where: str) -> Lines:
    return _write(t, f"{a}._array", f"killing({a}, {where!r})")


def _write_into_gradient(t: _Text, tensor: Tensor, spec: Spec, o: Register) -> Lines:
    name = t.value(tensor)
    return _write(t, f"{name}._grad._array", f"((set_data, {name}._grad, {_output(o)}),)")


def _make(t: _Text, r: Register, cls: type[Tensor], spec: Spec, o: Register) -> Lines:
    return _make_of(t, r, cls, spec, None, o)


def _make_of(t: _Text, r: Register, cls: type[Tensor], spec: Spec, node: Node | None, o: Register) -> Lines:
    return [
        f"{r} = new({t.value(cls)})",
        f"{r}._data = {_output(o)}",
        f"{r}._spec = {t.value(spec)}",
        f"{r}.node = {t.value(node)}",
        f"{r}._share = None",
    ]


def _make_weak(t: _Text, r: Register, o: Register) -> Lines:
    return [f"{r} = weak(wrap({_output(o)}))"]


def _carried(t: _Text, r: Register, cls: type[Tensor], o: Register) -> Lines:
    carried = f"c[{o.number}]"
    return [f"{r} = {carried if cls is Tensor else f'of_class({t.value(cls)}, {carried})'}"]


def _carried_weak(t: _Text, r: Register, o: Register) -> Lines:
    return [f"{r} = weak(c[{o.number}])"]


def _argument(t: _Text, r: Register, a: Register) -> Lines:
    return [f"{r} = {a}"]


def _again(t: _Text, r: Register, other: Register) -> Lines:
    return [f"{r} = {other}"]


def _taken(t: _Text, r: Register, owner: Register, view: Register, taken: FromOwner) -> Lines:
    return [f"{r} = {t.value(taken.of)}({owner}, {view})"]


def _constant(t: _Text, r: Register, value: Any) -> Lines:
    return [f"{r} = {t.value(value)}"]


def _copy(t: _Text, r: Register, array: Any) -> Lines:
    return [f"{r} = {t.value(array)}.copy()"]


def _pack_tuple(t: _Text, r: Register, parts: Sequence[Register]) -> Lines:
    return [f"{r} = ({''.join(f'{p}, ' for p in parts)})"]


def _pack_list(t: _Text, r: Register, parts: Sequence[Register]) -> Lines:
    return [f"{r} = [{', '.join(map(str, parts))}]"]


def _pack_dict(t: _Text, r: Register, keys: Sequence[Any], parts: Sequence[Register]) -> Lines:
    items = (f"{t.value(key)}: {part}" for key, part in zip(keys, parts, strict=True))
    return [f"{r} = {{{', '.join(items)}}}"]


def _convert(t: _Text, r: Register, structure: Structure, parts: Sequence[Register]) -> Lines:
    return [f"{r} = unflatten({t.value(structure)}, [{', '.join(map(str, parts))}])"]


def _return(t: _Text, r: Register) -> Lines:
    return [f"return {r}"]


# The meaning of each instruction: the lines of Python that do it.
PYTHON: dict[str, Callable[..., Lines]] = {
    "mode": _mode,
    "tuple": _parts("tuple"),
    "list": _parts("list"),
    "dict": _dict,
    "item": _item,
    "same": _same,
    "is": _is,
    "equal": _equal,
    "identity": _identity,
    "method": _method,
    "tensor": _tensor,
    "row_major": _row_major,
    "weak": _weak,
    "tracked": _tracked,
    "not_written": _not_written,
    "array": _array,
    "number": _number,
    "alone": _alone,
    "unobserved": _unobserved,
    "captured": _captured,
    "turns": _turns,
    "has_gradient": _has_gradient,
    "no_gradient": _no_gradient,
    "feed_tensor": _feed_tensor,
    "feed_array": _feed_array,
    "feed_number": _feed_number,
    "feed_gradient": _feed_gradient,
    "feed_item": _feed_item,
    "feed_numbers": _feed_numbers,
    "feed_cell": _feed_cell,
    "take_tensor": _take_tensor,
    "take_array": _take_array,
    "take_gradient": _take_gradient,
    "take_item": _take_item,
    "take_cell": _take_cell,
    "keep": _keep,
    "feed_tracked": _feed_tracked,
    "wrap": _wrap,
    "run": _run,
    "record": _record,
    "decide": _decide,
    "commit": _commit,
    "write_tensor": _write_tensor,
    "write_item": _write_item,
    "write_numbers": _write_numbers,
    "write_cell": _write_cell,
    "write_gradient": _write_gradient,
    "write_into_gradient": _write_into_gradient,
    "write_no_gradient": _write_no_gradient,
    "consume": _consume,
    "committed": _commit,
    "make": _make,
    "make_of": _make_of,
    "make_weak": _make_weak,
    "carried": _carried,
    "carried_weak": _carried_weak,
    "argument": _argument,
    "again": _again,
    "taken": _taken,
    "constant": _constant,
    "copy": _copy,
    "pack_tuple": _pack_tuple,
    "pack_list": _pack_list,
    "pack_dict": _pack_dict,
    "convert": _convert,
    "return": _return,
}
