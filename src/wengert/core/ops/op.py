"""The op: one declaration of all that the library knows about it, as facts about its arguments.

A fact is a plain function whose parameter names say what it needs: names of arguments and
attributes, `out` for the result, `ct` for the cotangent, and `x_shape`, `x_dtype` (any argument,
or `out`) where the value itself is not needed. What a node saves for its backward pass, and what
it need not save, follows from those names.

Facts are written with operators and other ops. They run on NumPy arrays in a first-order
backward pass and on tensors where the derivative is itself differentiated or traced.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from time import perf_counter
from types import CodeType, MappingProxyType
from typing import Any, Literal, NamedTuple, Unpack

import numpy as np

from ..errors import GENERATED, GraphError, fail
from ..mode import get_mode
from ..spec import Spec, as_dtype, spec_of
from ..state.locks import imported
from ..state.observer import blame_observer, observer, observers
from .attributes import KIND_OF_NAME, ROLE_OF_NAME, is_kind, is_role, without_kinds
from .facets import Facets, Role

_NO_ATTRS: dict[str, Any] = {}
Rule = Callable[..., Any]
Kind = Literal["elementwise", "linear", "general", "source", "composite", "control", "collective", "leaf"]
Accepts = Literal["numeric", "floating", "real", "real_inexact", "bitwise", "logical", "anything"]
Result = Literal["same", "boolean", "magnitude"]


class Fact:
    """A statement about an op's derivative in one argument.

    `pull(ct, saved, node, index)` evaluates `fn` for a node: see the subclasses for what it gives.
    """

    __slots__ = ("fn", "pull", "needs", "needs_out")

    differentiable = True
    needs: frozenset[int]
    needs_out: bool
    pull: Rule

    def __init__(self, fn: Rule) -> None:
        self.fn = fn

    def compile(self, op: Op) -> None:
        """Resolve parameter names against the op's signature."""
        self.needs, self.needs_out = _resolve(self.fn, op, self, "pull")


class Partial(Fact):
    """An elementwise partial derivative: the cotangent is multiplied by its conjugate."""

    __slots__ = ()


class Route(Fact):
    """A fact: the argument passes through where the mask `fn(...)` holds and is absent elsewhere.

    `weight` scales what passes (ties share); the mask broadcasts to the result's shape.
    """

    __slots__ = ("weight_fn", "weight")

    weight: Rule | None

    def __init__(self, mask: Rule, weight: Rule | None = None) -> None:
        super().__init__(mask)
        self.weight_fn = weight
        self.weight = None

    def compile(self, op: Op) -> None:
        super().compile(op)
        if self.weight_fn is not None:
            needs, needs_out = _resolve(self.weight_fn, op, self, "weight")
            self.needs, self.needs_out = self.needs | needs, self.needs_out or needs_out


class Linear(Fact):
    """A fact: the op is linear in the argument; `fn(ct, ...)` is the transpose.

    `selects` marks transposes with coefficients 0 and 1 (reshape, index, sum): applied to a mask
    of where gradient flows they give the argument's mask. `covers` says that every element of the
    argument reaches the result (reshape, but not index), `fills` that every element of the result
    is made of elements of the argument (reshape and index, but not pad).
    """

    __slots__ = ("selects", "covers", "fills")

    def __init__(self, fn: Rule, selects: bool = False, covers: bool = False, fills: bool = False) -> None:
        super().__init__(fn)
        self.selects = selects
        self.covers = covers
        self.fills = fills


class Vjp(Fact):
    """A general derivative: `fn(ct, ...)` is the vector-Jacobian product, linear in `ct`.

    `present` gives a mask, in the argument's shape, of where the argument reaches the result at
    all (the elements that a maximum picked): elsewhere nothing flows.
    """

    __slots__ = ("present_fn", "present")

    present: Rule | None

    def __init__(self, fn: Rule, present: Rule | None = None) -> None:
        super().__init__(fn)
        self.present_fn = present
        self.present = None

    def compile(self, op: Op) -> None:
        super().compile(op)
        if self.present_fn is not None:
            needs, needs_out = _resolve(self.present_fn, op, self, "present")
            self.needs, self.needs_out = self.needs | needs, self.needs_out or needs_out


class Joint:
    """A rule for several arguments at once: `fn(ct, ...)` returns a cotangent (or None) for every argument.

    `push(ts, ...)` is the same derivative the other way: from a tuple of tangents, one for every
    argument and None where there is none, to the results' (one, or a tuple). Where it is not given
    it follows from `fn` by transposition.

    With `absent`, `fn` takes None in the place of a result's cotangent where no gradient reaches that
    result: eigenvalues have a derivative also where eigenvectors have none.
    """

    __slots__ = ("fn", "pull", "push_fn", "push", "absent", "needs", "needs_out")

    needs: frozenset[int]
    needs_out: bool
    pull: Rule
    push: Rule | None

    def __init__(self, fn: Rule, push: Rule | None = None, absent: bool = False) -> None:
        self.fn, self.push_fn, self.absent = fn, push, absent
        self.push = None

    def compile(self, op: Op) -> None:
        self.needs, self.needs_out = frozenset(), False
        for fn, name in ((self.fn, "pull"), (self.push_fn, "push")):
            if fn is not None:
                needs, needs_out = _resolve(fn, op, self, name)
                self.needs, self.needs_out = self.needs | needs, self.needs_out or needs_out


class NoDerivative(Fact):
    """A fact: the op does not depend differentiably on the argument; `why` is shown to whoever asks."""

    __slots__ = ("why",)
    differentiable = False

    def __init__(self, why: str) -> None:
        super().__init__(lambda: None)
        self.why = why


class Missing(NoDerivative):
    """A gap: a derivative exists and is not declared; reaching it is an error that says `why`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Algebra:
    """The algebraic properties that the simplifier and the property tests may rely on.

    `commutes`: op(x, y) == op(y, x) in every bit; "nearly" where it may be another zero, or another rounding. `unit`:
    op(x, unit) == x. `monotone`: +1 or -1 over the whole domain. `range`: an interval as text, such as "(0, inf)".
    `even`/`odd`: symmetry at 0. `involution`: op(op(x)) == x. `at_zero`: op(0), where it is not odd. `undoes`: the op
    whose value it takes back to the argument. `negation`: the op that is true of two numbers where it is false.
    """

    commutes: bool | Literal["nearly"] = False
    associates: bool = False
    unit: float | None = None
    zero: float | None = None
    monotone: int = 0
    range: str = "(-inf, inf)"
    even: bool = False
    odd: bool = False
    involution: bool = False
    idempotent: bool = False
    at_zero: float | None = None
    undoes: str = ""
    negation: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """A sample call of an op: arrays (or scalars) in order, and attributes.

    `order` is up to which order its derivatives exist at the sample, for the generated checks.
    """

    args: tuple[Any, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    order: int = 2


Samples = Callable[[Any], Iterable[Call]]

# Said of every argument that no fact is declared for.
NOT_DIFFERENTIABLE = "its result is not a differentiable function of its arguments"

_SIGNATURE = re.compile(r"(\w+)\(([^;)]*)(?:;([^)]*))?\)")


def _declared(text: str, known: Mapping[str, str], default: str) -> tuple[str, str]:
    """Return the name of an argument or attribute, and its kind: the signature's word, else by the name."""
    name, _, said = (part.strip() for part in text.partition(":"))
    return name, said or known.get(name, default)


class Op:
    """An entry of the op table.

    Parameters of the declaration are documented at :func:`op` and :func:`elementwise`. `roles` says of each
    argument what its dtype must be, `kinds` of each attribute what it may be: see :mod:`wengert.core.ops.attributes`;
    `facets` what single concerns know of it: see :mod:`wengert.core.ops.facets`.

    >>> import wengert as wg
    >>> op = wg.sin(wg.tensor(1.0, requires_grad=True)).node.op
    >>> op.name, op.kind, op.doc
    ('sin', 'elementwise', 'The sine of an angle in radians.')
    """

    __slots__ = (
        "name",
        "kind",
        "params",
        "roles",
        "variadic",
        "attr_names",
        "kinds",
        "forward",
        "facts",
        "joint",
        "differentiable",
        "infer",
        "accepts",
        "view",
        "result",
        "results",
        "front",
        "reflected",
        "body",
        "formulas",
        "combine",
        "doc",
        "source",
        "signature",
        "layout",
        "algebra",
        "samples",
        "reference",
        "onnx",
        "facets",
        "role",
        "by_kernel",
        "_save_plans",
    )

    name: str
    kind: Kind
    params: tuple[str, ...]
    roles: dict[str, str]
    attr_names: tuple[str, ...]
    kinds: dict[str, str]
    forward: Callable[..., Any]
    infer: Callable[..., Any]
    front: Callable[..., Any]
    # The method by which a right operand of a class of its own computes, such as `__radd__`; "" for no operator.
    reflected: str

    def __init__(
        self,
        signature: str,
        kind: Kind,
        forward: Callable[..., Any],
        *,
        facts: Mapping[str, Fact] | Joint | None = None,
        infer: Callable[..., Any] | None = None,
        accepts: Accepts = "anything",
        view: bool = False,
        result: Result = "same",
        results: int = 1,
        body: Callable[..., Any] | None = None,
        formulas: tuple[Any, ...] = (),
        combine: str = "",
        doc: str = "",
        source: str = "",
        layout: str = "",
        algebra: Algebra | None = None,
        samples: Samples | None = None,
        reference: Callable[..., Any] | str | None = None,
        onnx: str | Missing | None = None,
        front: Callable[..., Any] | None = None,
        listed: bool = True,
        **facets: Unpack[Facets],
    ) -> None:
        match = _SIGNATURE.fullmatch(signature.strip())
        if match is None:
            raise ValueError(f"bad op signature {signature!r}")
        self.name = match[1]
        names = [p.strip() for p in match[2].split(",") if p.strip()]
        self.variadic = bool(names) and names[-1].startswith("*")
        self.roles = dict(_declared(n.lstrip("*"), ROLE_OF_NAME, "same") for n in names)
        self.params = tuple(self.roles)
        self.kinds = dict(_declared(a, KIND_OF_NAME, "") for a in (match[3] or "").split(",") if a.strip())
        self.attr_names = tuple(self.kinds)
        self.kind = kind
        self.forward = forward
        self.signature = without_kinds(signature.strip())
        self.accepts, self.result, self.results = accepts, result, results
        # Whether what it gives are elements of its first argument, which elsewhere (NumPy, PyTorch) share its memory.
        self.view = view
        self.body = body
        # What each result is of single numbers, where the op is declared by that (see formula.py), and the reduction
        # that combines several.
        self.formulas, self.combine = formulas, combine
        self.doc, self.source, self.layout = doc, source, layout
        self.algebra = algebra if algebra is not None else Algebra()
        self.samples, self.reference = samples, reference
        self.onnx = onnx
        self.facets = facets
        self.reflected = ""
        self.role = facets.get("role", Role.BY_ELEMENT if kind == "elementwise" else Role.OTHER)
        # Whether kernels are asked wherever its forward would run. Composites ask for themselves, before that.
        self.by_kernel = facets.get("kernels", False)
        if infer is not None:
            self.infer = infer
        self.joint = facts if isinstance(facts, Joint) else None
        table = facts if isinstance(facts, Mapping) else {}
        unknown = set(table) - set(self.params)
        if unknown:
            raise ValueError(f"{self.name}: facts about {sorted(unknown)}, which are not arguments")
        if unknown := facets.keys() - Facets.__annotations__.keys():
            raise ValueError(f"{self.name}: {sorted(unknown)}, which no declaration says")
        default = NoDerivative(NOT_DIFFERENTIABLE)
        self.facts = tuple(table.get(p, default) for p in self.params)
        for fact in (*self.facts, self.joint):
            if fact is not None:
                fact.compile(self)
        self.differentiable = self.joint is not None or any(f.differentiable for f in self.facts)
        self._save_plans: dict[tuple[bool, ...], tuple[frozenset[int], bool]] = {}
        if front is not None:
            self.front = front
        if not listed:
            return
        if self.name in TABLE:
            raise ValueError(f"op {self.name} is declared twice")
        odd = {p: r for p, r in self.roles.items() if not is_role(r)} | {
            a: k for a, k in self.kinds.items() if not is_kind(k)
        }
        if odd:
            raise ValueError(f"{self.name}: what these are is not known: {odd}")
        TABLE[self.name] = self

    @property
    def draws(self) -> bool:
        """True where the op draws random numbers: it has a position in a stream, as an attribute or as an argument."""
        return "counter" in self.attr_names or "counter" in self.params

    def fact(self, index: int) -> Fact:
        """Return the fact about argument `index` (the last declared one for a variadic op)."""
        return self.facts[min(index, len(self.facts) - 1)]

    def save_plan(self, tracked: tuple[bool, ...]) -> tuple[frozenset[int], bool]:
        """Return which inputs, and whether the result, must be kept when these arguments are tracked."""
        plan = self._save_plans.get(tracked)
        if plan is None:
            facts: list[Fact | Joint] = [self.fact(i) for i, t in enumerate(tracked) if t]
            if self.joint is not None:
                facts = [self.joint]
            needs: set[int] = set()
            for fact in facts:
                needs |= fact.needs
            if self.variadic and len(self.params) - 1 in needs:
                needs |= set(range(len(self.params) - 1, len(tracked)))
            # Of an optional argument that is not there nothing is kept.
            plan = frozenset(i for i in needs if i < len(tracked)), any(f.needs_out for f in facts)
            self._save_plans[tracked] = plan
        return plan

    def __call__(self, *args: Any, **attrs: Any) -> Any:
        """Run the op on the values that a derivative rule holds: arrays give arrays, a tensor gives a tensor."""
        for a in args:
            if hasattr(a, "node"):
                return self.front(*args, **attrs)
        if self.kind == "source" and get_mode().tracing:
            return self.front(**attrs)
        return self.told(args, attrs) if observers else self.forward(*args, **attrs)

    def told(self, values: Sequence[Any], attrs: Mapping[str, Any] = _NO_ATTRS) -> Any:
        """Return the forward's result for values, of which whoever observes this thread is told."""
        seen, forward = observer(), self.forward
        if seen is None or self.kind == "control":  # a loop is many steps
            return as_kept(forward(*values, **attrs))
        start = perf_counter()
        seen.quiet += 1  # a composite's forward may run other ops: one operation is one step
        try:
            out = forward(*values, **attrs) if attrs else forward(*values)
            if type(out) is not np.ndarray:
                out = as_kept(out)
        finally:
            seen.quiet -= 1
        try:
            seen.step(self, values, out, partial(forward, **attrs) if attrs else forward, attrs, start)
        except BaseException as e:
            blame_observer(e)
            raise
        return out

    def __repr__(self) -> str:
        return f"<op {self.signature}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        return _lookup, (self.name,)


def as_kept(out: Any) -> Any:
    """Return a forward's result in the form that tensors keep, so that a value is recognised by its identity."""
    if type(out) is np.ndarray:
        return out
    return tuple(map(as_kept, out)) if type(out) in (tuple, list) else np.asarray(out)


class Meaning(NamedTuple):
    """A record of what elementwise ops, by their names, and losses mean of their operands in a namespace."""

    # The ops that take the place of others where all operands are booleans.
    on_booleans: Mapping[str, str] = MappingProxyType({})
    # The ops that refuse booleans, by whether they refuse `any` or `all` operands that are such.
    no_booleans: Mapping[str, Callable[[Iterable[bool]], bool]] = MappingProxyType({})
    # The ops in which an integer that does not fit the dtype counts modulo its size.
    wrapping: frozenset[str] = frozenset()
    # The ops that compute in float32 with a number that a 16-bit dtype does not hold.
    wide: frozenset[str] = frozenset()
    # Whether convolutions and attention take operands of two dtypes.
    mixes_dtypes: bool = True
    # Whether losses broadcast an input and a target of two shapes, with a warning.
    losses_broadcast: bool = False
    # Whether results lie in memory as their operands do, with channels last.
    keeps_formats: bool = False


TABLE: dict[str, Op] = {}
# Ops of modules that are loaded when they are first used: name to module.
DEFERRED: dict[str, str] = {}


def find_op(name: str) -> Op | None:
    """Return the op table's entry of this name, or None."""
    if name not in TABLE and name in DEFERRED:
        imported(DEFERRED[name])
    return TABLE.get(name)


def _lookup(name: str) -> Op:
    found = find_op(name)
    if found is None:
        fail(
            GraphError,
            f"{name} is not an op of the table",
            "An op of one's own is declared before what names it is read.",
        )
    return found


def _resolve(fn: Rule, op: Op, holder: Any, name: str) -> tuple[frozenset[int], bool]:
    """Make `fn` the holder's function of (ct, saved, node, index); return the values that it needs saved."""
    needs: set[int] = set()
    needs_out = False
    parts: list[str] = []
    for parameter in _parameter_names(fn):
        base, _, suffix = parameter.rpartition("_")
        if parameter in ("ct", "ts"):
            parts.append("ct")
        elif parameter in ("index", "node", "saved"):
            parts.append(parameter)
        elif parameter == "out":
            needs_out = True
            parts.append("saved[-1]")
        elif parameter in op.attr_names:
            parts.append(f"node.attrs[{parameter!r}]")
        elif parameter in op.params:
            i = op.params.index(parameter)
            needs.add(i)
            last = op.variadic and i == len(op.params) - 1
            parts.append(f"saved[{i}:-1]" if last else f"saved[{i}]")
        elif base == "out" and suffix in ("shape", "dtype"):
            parts.append(f"node.spec.{suffix}")
        elif base in op.params and suffix in ("shape", "dtype"):
            i = op.params.index(base)
            if op.variadic and i == len(op.params) - 1:
                parts.append(f"tuple(spec_of_input(n).{suffix} for n in node.inputs[{i}:])")
            else:
                parts.append(f"spec_of_input(node.inputs[{i}]).{suffix}")
        else:
            raise ValueError(f"{op.name}: a fact asks for {parameter!r}, which is neither argument nor attribute")
    source = f"lambda ct, saved, node, index: fn({', '.join(parts)})"

    def first(ct: Any, saved: Any, node: Any, index: int) -> Any:
        # Most of the table's rules are never called in a program: each is compiled when it first is.
        rule: Rule = eval(compiled(source, "eval"), {"fn": fn, "spec_of_input": spec_of_input})
        if getattr(holder, name) is first:
            setattr(holder, name, rule)
        return rule(ct, saved, node, index)

    setattr(holder, name, first)
    return frozenset(needs), needs_out


def _parameter_names(fn: Rule) -> tuple[str, ...]:
    code = getattr(fn, "__code__", None)
    if code is None:
        return tuple(inspect.signature(fn).parameters)
    # Several hundred facts are read at import, where a signature object for each would be felt.
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return names


@cache
def compiled(source: str, mode: str = "exec") -> CodeType:
    """Return code for generated source. Few texts serve many ops, so that import stays quick."""
    return compile(source, f"{GENERATED}generated>", mode)


def spec_of_input(entry: Any) -> Spec:
    """Return the spec of an entry of `Node.inputs`: a node, a constant or a literal."""
    if isinstance(entry, (np.ndarray, np.generic)):
        return spec_of(entry.shape, entry.dtype)
    if isinstance(entry, (bool, int, float, complex)):
        return spec_of((), as_dtype(type(entry)))
    spec: Spec = entry.spec
    return spec


# -- the ops that graphs have of themselves

# The op of a leaf's node, which computes nothing: its value is the leaf tensor's.
LEAF = Op("leaf()", "leaf", forward=lambda: None, doc="A tensor that gradients are collected for.")
INPUT = Op("input(;name)", "leaf", forward=lambda: None, doc="An input of a graph.")
# A second name for a value, which a transform can differentiate with respect to apart from the
# first. Closing a graph looks through it.
ALIAS = Op(
    "alias(x)",
    "linear",
    forward=lambda x: x,
    infer=lambda x: x,
    facts={"x": Linear(lambda ct: ct, True, True, True)},
    role=Role.PASS,
    inserted=True,
    cost=0,
)
