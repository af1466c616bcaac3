"""Ops declared by a formula: elementwise functions, and reductions of such.

A formula is all that an op needs (see :mod:`wengert.core.ops.formula`): the op stays one node of graphs, and what is
inside it gives its derivatives, native code, cost, sparsity, symbolic form and picture. Library and users declare with
the same two functions, :func:`wengert.ops.elementwise` and :func:`wengert.ops.reduction`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from keyword import iskeyword
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np

from ..core.errors import GraphError, fail, user_frame
from ..core.ops import declare
from ..core.ops.attributes import without_kinds
from ..core.ops.declare import PUBLIC, public
from ..core.ops.formula import Formula
from ..core.ops.op import TABLE, Algebra, Call, Fact, Linear, Missing, Op, Partial, Rule, Samples, compiled
from ..core.ops.operands import are_numbers, promote_operands, to_operand
from ..core.ops.record import filled
from ..core.ops.sampling import SHAPES, Interval
from ..core.spec import show
from ..core.tensor import Tensor
from .reduce.common import reduced_axes, reductions
from .structure.shapes import as_operand, broadcast_to

Domain = Literal["real", "positive", "unit"]
Combine = Literal["sum", "mean", "prod", "max", "min"]

_INTERVALS: Mapping[str, Interval] = {"real": (-2.0, 2.0), "positive": (0.5, 2.0), "unit": (0.1, 0.9)}
_NO_ONNX = Missing("ONNX has no such operator: export expands the formula")


def elementwise(
    signature: str,
    formula: str | Sequence[str],
    *,
    forward: Callable[..., Any] | None = None,
    partials: Mapping[str, Rule | Fact] | None = None,
    domain: Domain | Sequence[Interval] = "real",
    doc: str = "",
    source: str = "",
    algebra: Algebra | None = None,
    reference: Callable[..., Any] | str | None = None,
    onnx: str | Missing = _NO_ONNX,
    export: str | None = None,
) -> Callable[..., Any]:
    """Declare an elementwise op by its formula; return the function.

    Parameters
    ----------
    signature: name and arguments, such as `"log_cosh(x)"`.
    formula: what the result is, written as Python with the arguments, numbers, `pi`, `e`, `inf`, arithmetic,
        comparisons, `a if c else b`, and calls of elementwise ops: `"logaddexp(x, -x) - log(2)"`. Several formulas
        give as many results.
    forward, partials: a faster way outside of compiled code, both or none: a function of NumPy arrays, and the partial
        derivative for each argument, a function by parameter names (arguments, and `out` for the result), in NumPy's
        operators and other ops. They are compared with the formula here.
    domain: where arguments are drawn for tests: "real", "positive", "unit" (between 0 and 1), or an interval for each.
    doc, source: a sentence, and where the function is from.
    algebra: symmetries that the simplifier may use (see :class:`wengert.core.ops.op.Algebra`).
    reference, onnx, export: for declarations inside the library: an oracle that is not the formula, the ONNX operator,
        and the submodule that exports the function, "special" say; "" is `wengert`, with a method of tensors.

    The function takes tensors, arrays and numbers, which broadcast and promote. It is differentiable to any order,
    batched, compiled and fused, counted by `wg.explain.cost`, opened by `graph.expand()` and SymPy, and shown in the
    explorer, whose page computes it where a value is dragged.

    Raises GraphError where the formula cannot be read, the name is one of the library's, or `forward` or `partials`
    are of another function.

    >>> import wengert as wg
    >>> log_cosh = wg.ops.elementwise("log_cosh(x)", "logaddexp(x, -x) - log(2)", doc="log(cosh(x)), without overflow.")
    >>> log_cosh(wg.tensor([0.0, 1.0, 100.0]))
    tensor([ 0. ,  0.4338, 99.3069])
    >>> wg.grad(log_cosh)(1.0)
    tensor(0.7616)
    """
    name, names = _read(signature)
    several = not isinstance(formula, str)
    texts = _texts(formula)
    formulas = [Formula(text, names) for text in texts]
    if export is None:  # the library's own may name ops that are not declared yet
        formulas = [_of_its_own(f) for f in formulas]
    if (forward is None) != (partials is None) or (several and forward is not None):
        fail(
            GraphError,
            f"{name} is declared with {'partials' if forward is None else 'forward'} alone"
            if not several
            else f"{name} is declared with several results and a forward",
            "Give forward and partials of one result, or neither: the formula is enough.",
        )
    draw = _drawing(names, domain)
    if partials is not None and (set(partials) != set(names) or not all(map(_is_partial, partials.values()))):
        fail(
            GraphError,
            f"partials of {name} in {', '.join(partials) or 'nothing'}: its arguments are {', '.join(names)}",
            "Give a function for each of them; wg.ops.op.NoDerivative(why) says that there is no derivative.",
        )
    declared: dict[str, Any] = {
        "doc": doc or f"{texts[0]}, element by element.",
        "source": source,
        "algebra": algebra,
        "samples": draw,
        "reference": reference if reference is not None else _oracle(formulas, several),
        "onnx": onnx,
    }
    if export is None:
        declared["declaration"] = f"{name}({', '.join(names)}) = {', '.join(f.normalized() for f in formulas)}"
    before = _make_room(name, export)
    if forward is not None and partials is not None:
        exported: dict[str, Any] = {
            "method": export == "",
            "public": "" if export is None else None,
            "home": export or "",
        }
        if export is None and not _takes_complex(forward, len(names)):
            exported["accepts"] = "real_inexact"
        try:
            op = declare.elementwise(
                signature, forward, partials=partials, formulas=tuple(formulas), **exported, **declared
            )
            if export is None:
                _compare(op, formulas[0], draw)
        except (GraphError, ValueError) as e:
            TABLE.pop(name, None)
            if before is not None:
                TABLE[name] = before
            if isinstance(e, GraphError):
                raise
            # A derivative asks for what is not there.
            fail(GraphError, str(e), f"A partial's parameters are of {', '.join(names)} and out.")
        front = op.front
    else:
        layout = ",".join("()" for _ in names) + "->" + ",".join("()" for _ in texts)
        body = (lambda *args: tuple(f(*args) for f in formulas)) if several else formulas[0]
        # Beside a tensor any operand may be a number.
        given = f"{name}({', '.join(f'{n}: value' for n in names)})"
        op = declare.composite(
            given, results=len(texts), formulas=tuple(formulas), layout=layout, accepts="numeric", **declared
        )(body)
        front = _front(op, names)
        if export is not None:
            public(front, method=export == "", home=export)
    _belongs(front, export)
    _retire(before, op)
    return front


def reduction(
    signature: str,
    formula: str,
    combine: Combine = "sum",
    finish: str = "out",
    *,
    domain: Domain | Sequence[Interval] = "real",
    doc: str = "",
    source: str = "",
    reference: Callable[..., Any] | str | None = None,
    onnx: str | Missing = _NO_ONNX,
    export: str | None = None,
) -> Callable[..., Any]:
    """Declare a reduction by a formula of the elements, how they are combined, and a formula of what that gives.

    Parameters
    ----------
    signature: name and arguments, such as `"sumsq(x)"`; several arguments broadcast.
    formula: what is combined, as for :func:`wengert.ops.elementwise`: `"x * x"`.
    combine: "sum", "mean", "prod", "max" or "min", along `axis`.
    finish: what the result is of `out`, the combined value: `"sqrt(out)"` makes a norm of a sum of squares.
    domain, doc, source, reference, onnx, export: as for :func:`wengert.ops.elementwise`.

    Returns the function, of the arguments, `axis` (an axis, several, or None for all) and `keepdims`. It is
    differentiable to any order, batched, compiled and fused, and counted, as its parts are. Raises GraphError where
    a formula cannot be read, or the name is one of the library's; the function raises ShapeError for axes that do not
    exist.

    >>> import wengert as wg
    >>> rms = wg.ops.reduction("rms(x)", "x * x", "mean", "sqrt(out)", doc="The root of the mean square.")
    >>> rms(wg.tensor([[3.0, 4.0], [6.0, 8.0]]), axis=1)
    tensor([3.5355, 7.0711])
    """
    name, names = _read(signature)
    if combine not in ("sum", "mean", "prod", "max", "min"):
        fail(GraphError, f"{name} combines by {combine!r}", "There are sum, mean, prod, max and min.")
    if not isinstance(formula, str) or not isinstance(finish, str):
        fail(
            GraphError,
            f"{name} is of {formula!r}, and then {finish!r}",
            "A reduction has one formula, and one to finish.",
        )
    reserved = {"axis", "keepdims"} & set(names)
    if reserved:
        fail(
            GraphError, f"{signature!r}: {', '.join(reserved)} is an argument of every reduction", "Call it otherwise."
        )
    inner, outer = Formula(formula, names), Formula(finish, ("out",))
    said: dict[str, Any] = {}
    if export is None:
        inner, outer = _of_its_own(inner), _of_its_own(outer)
        whole = outer.after(Formula(f"{combine}({inner.text})", names)).normalized()
        said = {"declaration": f"{name}({', '.join(names)}) = {whole}"}

    def body(*args: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
        return outer(PUBLIC[combine](inner(*args), axis=axis, keepdims=keepdims))

    def oracle(*args: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
        elements = _on_oracles(inner, dict(zip(names, args, strict=True)))
        return _on_oracles(outer, {"out": _reference(TABLE[combine])(elements, axis=axis, keepdims=keepdims)})

    intervals = _intervals(names, domain)

    def samples(rng: Any) -> Iterable[Call]:
        for call in reductions()(rng):
            shape = call.args[0].shape
            yield Call(tuple(np.asarray(rng.uniform(*i, shape)) for i in intervals), call.attrs)

    composed = outer.after(inner)
    if export is None:
        composed.read()  # now: a part may be declared anew
    before = _make_room(name, export)
    op = declare.composite(
        f"{without_kinds(signature)[:-1]}; axis: axes, keepdims)",
        doc=doc or f"The {combine} of {formula}.",
        source=source,
        samples=samples,
        reference=reference if reference is not None else oracle,
        onnx=onnx,
        formulas=(composed,),
        combine=combine,
        **said,
        layout=f"{','.join('(n)' for _ in names)}->()",
    )(body)
    _retire(before, op)

    def run(*args: Any) -> Tensor:
        *given, axis, keepdims = args
        operands = _met(name, [as_operand(a) for a in given])
        out: Tensor = op.front(*operands, axis=reduced_axes(axis, operands[0].ndim), keepdims=bool(keepdims))
        return out

    more = f"Along `axis` of {' and '.join(names)} (None: all axes), kept with size 1 where `keepdims`."
    reduce = _function(run, op, f"{', '.join(names)}, /, axis=None, keepdims=False", (*names, "axis", "keepdims"), more)
    if export is not None:
        public(reduce, method=export == "", home=export)
    _belongs(reduce, export)
    return reduce


# -- what is declared


def _read(signature: str) -> tuple[str, tuple[str, ...]]:
    """Return the name and the arguments of a signature."""
    plain = without_kinds(signature).strip()
    name, bracket, rest = plain.partition("(")
    names = tuple(n.strip() for n in rest.rstrip(")").split(","))
    if (
        not bracket
        or not plain.endswith(")")
        or any(not n.isidentifier() or iskeyword(n) for n in (name, *names))
        or len({*names}) < len(names)
    ):
        fail(GraphError, f"{signature!r} is no signature", 'Write name and arguments: "smooth_clip(x, low, high)".')
    return name, names


def _texts(formula: Any) -> tuple[str, ...]:
    """Return the formulas, one for each result."""
    texts = (formula,) if isinstance(formula, str) else tuple(formula) if isinstance(formula, (tuple, list)) else ()
    if not texts or not all(isinstance(text, str) for text in texts):
        fail(GraphError, f"{formula!r} is no formula", 'Write "x * x", or a tuple of texts for several results.')
    return texts


def _of_its_own(formula: Formula) -> Formula:
    """Return a formula whose result is none of its arguments, but a tensor of its own.

    Raises GraphError for one that cannot be read, or that is a number whatever the arguments are.
    """
    result = formula.read().result
    if type(result) is tuple:
        fail(GraphError, f"{formula.text!r} depends on none of {', '.join(formula.names)}", "A number needs no op.")
    if type(result) is not str:
        return formula
    own = Formula(f"+{result}", formula.names)
    own.read()
    return own


def _is_partial(given: Any) -> bool:
    return callable(given) or isinstance(given, Fact)


def _make_room(name: str, export: str | None) -> Op | None:
    """Take a user's op of this name out of the table (a notebook's cell may run again); refuse the library's."""
    if name in TABLE and (export is not None or "declaration" not in TABLE[name].facets):
        fail(GraphError, f"{name} is an op of the library", "Choose another name.")
    return TABLE.pop(name, None)


def _retire(before: Op | None, op: Op) -> None:
    """Have the text of graphs with an op that was declared before not be read as one of another function."""
    if before is not None and _identity(before) != _identity(op):
        before.name = f"{op.name} before it was declared anew"


def _identity(op: Op) -> tuple[Any, ...]:
    return op.params, op.combine, repr([f.described() for f in op.formulas])


def _intervals(names: Sequence[str], domain: Domain | Sequence[Interval]) -> Sequence[Interval]:
    if isinstance(domain, str) and domain not in _INTERVALS:
        fail(GraphError, f"domain={domain!r}", f"There are {', '.join(_INTERVALS)}, or an interval for each argument.")
    intervals = [_INTERVALS[domain]] * len(names) if isinstance(domain, str) else list(domain)
    if len(intervals) != len(names):
        fail(GraphError, f"{len(intervals)} intervals for the arguments {', '.join(names)}", "Give one for each.")
    return intervals


def _drawing(names: Sequence[str], domain: Domain | Sequence[Interval]) -> Samples:
    intervals = _intervals(names, domain)

    def samples(rng: Any) -> Iterable[Call]:
        return [Call(tuple(np.asarray(rng.uniform(*i, shape)) for i in intervals)) for shape in SHAPES]

    return samples


def _on_oracles(formula: Formula, values: Mapping[str, Any]) -> Any:
    return formula.evaluate(values, lambda op, operands: _reference(op)(*operands))


def _reference(op: Op) -> Callable[..., Any]:
    """Return an op's oracle; its forward where it has none."""
    if isinstance(op.reference, str):
        module, _, name = op.reference.rpartition(".")
        found: Callable[..., Any] = getattr(importlib.import_module(module), name)
        return found
    return op.forward if op.reference is None else op.reference


def _oracle(formulas: Sequence[Formula], several: bool) -> Callable[..., Any]:
    def oracle(*args: Any) -> Any:
        found = [np.asarray(_on_oracles(f, dict(zip(f.names, args, strict=True)))) for f in formulas]
        return tuple(found) if several else found[0]

    return oracle


def _met(name: str, operands: list[Any]) -> list[Any]:
    """Return the operands with every tensor in the shape that they broadcast to, by nodes of its own."""
    shape = declare.common_shape(name, [a.spec for a in operands if isinstance(a, Tensor)])
    return [broadcast_to(a, shape) if isinstance(a, Tensor) and a.shape != shape else a for a in operands]


def _front(op: Op, names: Sequence[str]) -> Callable[..., Any]:
    """Return the function of a composite by formula: tensors, arrays and numbers in."""

    def run(*args: Any) -> Any:
        operands = [to_operand(a, op.name) for a in args]
        if not are_numbers(operands):
            operands = _met(op.name, promote_operands(op, operands))
            for read in _read_by(op):
                # Of numbers alone a result would have another shape and dtype than the others.
                if not any(isinstance(operands[i], Tensor) for i in read):
                    spec = next(x.spec for x in operands if isinstance(x, Tensor))
                    operands[read[0]] = filled(operands[read[0]], spec)
        return op.front(*operands)

    return _function(run, op, f"{', '.join(names)}, /", names, "Elementwise; operands broadcast and promote.")


@cache
def _read_by(op: Op) -> Sequence[Sequence[int]]:
    """Return for each formula of an op which arguments it reads."""
    return [[i for i, name in enumerate(op.params) if name in f.arguments()] for f in op.formulas]


def _function(run: Callable[..., Any], op: Op, parameters: str, given: Sequence[str], more: str) -> Callable[..., Any]:
    """Return `run` as a function with parameters of its own names: errors, graphs and help show them."""
    text = f"def {op.name}({parameters}):\n    return run({', '.join(given)})"
    namespace: dict[str, Any] = {"run": run}
    exec(compiled(text), namespace)
    front: Callable[..., Any] = namespace[op.name]
    front.__doc__ = f"{op.doc}\n\n{more}"
    front.__module__ = "wengert"
    return front


def _belongs(front: Callable[..., Any], export: str | None) -> None:
    """Have a user's function be pickled by the name that it has in its module."""
    frame = user_frame() if export is None else None
    if frame is not None:
        front.__module__ = frame.f_globals.get("__name__", "__main__")


# -- comparing what is said twice


class _Bare(NamedTuple):
    """A stand-in for a node, for the facts of a single op on arrays."""

    inputs: Sequence[Any]
    attrs: Mapping[str, Any]


def _compare(op: Op, formula: Formula, draw: Samples) -> None:
    """Refuse a forward, or partials, that are not of the formula's function. Corners may differ: the median decides."""

    def refuse(what: str, mend: str = "") -> NoReturn:
        fail(GraphError, what, mend)

    drawn = list(draw(np.random.default_rng(0)))[1].args
    for dtype in (np.float32, np.float64):
        args = [a.astype(dtype) for a in drawn]
        for a in args:
            a.setflags(write=False)
        said = np.asarray(formula.evaluate(dict(zip(formula.names, args, strict=True)), lambda part, xs: part(*xs)))
        if not np.isfinite(said).all():
            refuse(
                f"{formula.text} is not finite at numbers that were drawn for {', '.join(formula.names)}",
                'Say where the function is defined: domain="positive", "unit", or an interval for each argument.',
            )
        try:
            out = op.forward(*args)
        except Exception as e:
            refuse(
                f"forward of {op.name} raises {type(e).__name__}: {e}",
                "It takes NumPy arrays, which it must not write to.",
            )
        if not isinstance(out, np.ndarray) or (out.shape, out.dtype) != (said.shape, said.dtype):
            got = show(out.shape, out.dtype) if isinstance(out, np.ndarray) else type(out).__name__
            refuse(
                f"forward of {op.name} gives {got}, not {show(said.shape, said.dtype)}",
                "It keeps shape and dtype of its arguments: np.log(2) is float64, math.log(2) a number of any dtype.",
            )
        if not _agree(out, said):
            refuse(f"forward of {op.name} is not {formula.text}: {out.flat[0]:.6g}, not {said.flat[0]:.6g}")
    step = 1e-5
    for i, fact in enumerate(op.facts):
        if not fact.differentiable:
            continue
        up, down = (np.asarray(op.forward(*args[:i], args[i] + d, *args[i + 1 :])) for d in (step, -step))
        slope = (up - down) / (2 * step)
        found = fact.pull(np.ones_like(out), (*args, out), _Bare(args, {}), i)
        if isinstance(fact, (Partial, Linear)) and not _agree(np.broadcast_to(found, out.shape), slope):
            refuse(
                f"the partial derivative of {op.name} in {op.params[i]} is {np.ravel(found)[0]:.6g}, where differences "
                f"of its forward give {slope.flat[0]:.6g}",
                "wg.check_grads(f, x) compares at points of your own.",
            )


def _takes_complex(forward: Callable[..., Any], arguments: int) -> bool:
    """Return whether a forward computes with complex numbers; NumPy has functions that do not."""
    try:
        out = forward(*[np.full(1, 0.5 + 0.25j) for _ in range(arguments)])
    except Exception:
        return False
    return isinstance(out, np.ndarray) and out.dtype == np.complex128


def _agree(a: Any, b: Any) -> bool:
    return bool(np.median(np.abs(a - b) / (1e-6 + np.abs(b))) < 1e-3)
