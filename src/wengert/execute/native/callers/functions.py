"""C functions of a compiled function: its value, its gradient and the products of its Hessian, by their addresses."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....core.errors import DTypeError, GradientError, GraphError, fail
from ....core.graph.graph import Graph
from ....core.ops.op import TABLE
from ....core.spec import Spec, category
from ....transforms.derivatives.functional import value_and_grad
from ....transforms.derivatives.tangents import jvp
from ....transforms.tracing.trace import trace
from ..compile import compile_graph
from ..plan.plan import HostCall
from ..run.runtime import Program
from .entry import CTYPES, SIGNATURES, Entry, Form, Kind

_FLOAT = np.dtype(np.float64)


class CFunction:
    """A C function: its `address`, its `signature`, and what SciPy, cffi and ctypes call it by.

    It needs nothing of Python: any number of threads may call it at once, with or without the interpreter's lock, and
    each call does all of its work on the calling thread. Its memory is the caller's, its stack, and where it needs more
    than 2 KiB a block of `malloc`, of which it keeps one. Arrays that it reads and writes are contiguous in C order,
    aligned as C aligns them, and share no memory with each other.

    The code lives as long as this object, and as what `scipy()`, `cffi()` and `ctypes()` return. An address alone
    keeps nothing alive.

    >>> import wengert as wg
    >>> square = wg.jit(lambda x: (x * x).sum()).lower(wg.spec(3, "float64")).compile().address().value
    >>> square.signature
    'double value(int n, const double *x, void *user)'
    """

    def __init__(self, kind: Kind, form: Form, entry: Entry) -> None:
        self.kind, self.form = kind, form
        self._entry = entry

    @property
    def address(self) -> int:
        """The function's address."""
        return self._entry.address

    @property
    def signature(self) -> str:
        """The function's declaration in C."""
        return SIGNATURES[self.form, self.kind].text(self.kind.value)

    def __repr__(self) -> str:
        return f"<C function {self.signature} at {self.address:#x}>"

    def ctypes(self) -> Any:
        """Return the function for ctypes, which calls it without the interpreter's lock.

        >>> import wengert as wg
        >>> f = wg.jit(lambda x: x * x).lower(wg.spec((), "float64")).compile().address("number")
        >>> f.value.ctypes()(3.0, None)
        9.0
        """
        signature = SIGNATURES[self.form, self.kind]
        kinds = (CTYPES[kind.strip()] for kind, _ in signature.arguments)
        made = ctypes.CFUNCTYPE(CTYPES[signature.result], *kinds)(self.address)
        made.function = self  # type: ignore[attr-defined]
        return made

    def scipy(self) -> Any:
        """Return the function as a `scipy.LowLevelCallable`, for `scipy.integrate.quad` and others of SciPy's.

        Raises GraphError for a function that SciPy has no signature for: it takes values of vectors and of numbers.
        Raises ImportError without SciPy.
        """
        if self.kind is not Kind.VALUE or self.form is Form.ARRAYS:
            fail(
                GraphError,
                f"a LowLevelCallable of {self.signature}",
                "SciPy calls functions of float64 numbers that return one: address().value.scipy().",
            )
        from scipy import LowLevelCallable

        # Its parts keep the function alive; the signature is told by ctypes' types.
        return LowLevelCallable(self.ctypes())

    def cffi(self, ffi: Any = None) -> Any:
        """Return the function as a pointer of cffi's, of the `ffi` given or of one of its own.

        Raises ImportError without cffi.
        """
        if ffi is None:
            from cffi import FFI

            ffi = FFI()
        signature = SIGNATURES[self.form, self.kind]
        kinds = ", ".join(kind for kind, _ in signature.arguments)
        plain = ffi.cast(f"{signature.result} (*)({kinds})", self.address)
        return ffi.gc(plain, lambda _, function=self: None)  # which holds the function as long as the pointer is held


class CFunctions:
    """The C functions of a compiled function, as `compiled.address()` returns them.

    `value`, `value_and_grad` and `hvp` (the Hessian's product with a vector) are compiled when first asked for. Where
    something is wrong, those that return a `double` return NaN, those that return an `int` another number than 0: -1
    for no memory, -2 for another `n`, and i + 1 where step i of the plan found what it would have raised an error for
    (an index out of range, say). What was written then means nothing.
    """

    def __init__(
        self, fn: Callable[..., Sequence[Any]], specs: Sequence[Spec], names: Sequence[str], name: str, form: str | None
    ) -> None:
        self._fn, self._specs, self._names, self._name = fn, tuple(specs), tuple(names), name
        self._graph = trace(lambda *xs: list(fn(*xs)), self._specs, {})
        self.form = self._chosen(form).value
        self._found: dict[Kind, CFunction] = {}

    def __repr__(self) -> str:
        return f"<C functions of {self._name}, {self.form}>"

    def _chosen(self, form: str | None) -> Form:
        outputs = [n.spec for n in self._graph.outputs]
        is_scalar = len(outputs) == 1 and outputs[0].shape == () and outputs[0].dtype == _FLOAT
        is_vector = is_scalar and all(s.dtype == _FLOAT for s in self._specs)
        is_number = is_vector and sum(s.size for s in self._specs) == 1
        if form is None:
            return Form.VECTOR if is_vector else Form.ARRAYS
        known = {f.value: f for f in Form}
        if form not in known:
            fail(GraphError, f"C functions of the form {form!r}", f"The forms are {', '.join(map(repr, known))}.")
        if not {"arrays": True, "vector": is_vector, "number": is_number}[form]:
            given = ", ".join(f"{n}: {s}" for n, s in zip(self._names, self._specs))
            fail(
                DTypeError,
                f"{self._name}({given}) -> {', '.join(map(str, outputs))} as a C function of a {form}",
                f"It takes {'one float64' if form == 'number' else 'float64 alone'} and returns one float64. "
                'Write address("arrays") for any shapes and dtypes.',
            )
        return known[form]

    @property
    def value(self) -> CFunction:
        """The function itself: in the form of arrays, results come in the order in which it returns them."""
        return self._of(Kind.VALUE, lambda: self._graph)

    @property
    def value_and_grad(self) -> CFunction:
        """The value, and the gradient by all floating arguments: in the form of arrays, these follow it in order.

        In the forms of a vector and of a number the gradient may be a null pointer, as NLopt gives where it wants none.

        Raises GradientError for a function of several results, of one that is no real number, or without such
        arguments.
        """
        # The other forms call the value alone where no gradient is wanted.
        inner = self.value if self.form != "arrays" else None
        return self._of(Kind.VALUE_AND_GRAD, lambda: trace(self._both, self._specs, {}), inner)

    @property
    def hvp(self) -> CFunction:
        """The Hessian's product with a vector: in the form of arrays, with one array for each floating argument.

        Its inputs are then all arguments, and after them these; its outputs are the products, in the same order.

        Raises GradientError as `value_and_grad` does.
        """

        def products(*given: Any) -> list[Any]:
            count = len(self._specs)
            xs, vectors = given[:count], given[count:]
            found = jvp(
                lambda *moving: self._both(*self._moved(xs, moving))[1:], [xs[i] for i in self._moving], vectors
            )
            return list(found[1])

        vectors = (self._specs[i] for i in self._moving)
        return self._of(Kind.HVP, lambda: trace(products, (*self._specs, *vectors), {}))

    @property
    def _moving(self) -> tuple[int, ...]:
        """The arguments that there are derivatives by."""
        found = tuple(i for i, s in enumerate(self._specs) if category(s.dtype) == 2)
        outputs = [n.spec for n in self._graph.outputs]
        if not found or len(outputs) != 1 or outputs[0].shape != () or category(outputs[0].dtype) != 2:
            given = ", ".join(f"{n}: {s}" for n, s in zip(self._names, self._specs))
            fail(
                GradientError,
                f"the gradient of {self._name}({given}) -> {', '.join(map(str, outputs))} as a C function",
                "It has to return one real number, and take floating tensors.",
            )
        if self._graph.outputs[0].op is TABLE["stop_gradient"]:
            fail(
                GradientError,
                f"the gradient of {self._name} as a C function: no gradient flows to its result",
                "It ends in stop_gradient, or was lowered inside wg.no_grad(): lower it outside.",
            )
        return found

    def _moved(self, xs: Sequence[Any], moving: Sequence[Any]) -> list[Any]:
        full = list(xs)
        for i, x in zip(self._moving, moving, strict=True):
            full[i] = x
        return full

    def _both(self, *xs: Any) -> list[Any]:
        def scalar(*moving: Any) -> Any:
            return self._fn(*self._moved(xs, moving))[0]

        moving = [xs[i] for i in self._moving]
        value, grads = value_and_grad(scalar, tuple(range(len(moving))))(*moving)
        return [value, *grads]

    def _of(self, kind: Kind, graph: Callable[[], Graph], inner: CFunction | None = None) -> CFunction:
        found = self._found.get(kind)
        if found is None:
            found = self._found[kind] = c_function(graph(), kind, Form(self.form), self._name, inner)
        return found


def c_function(graph: Graph, kind: Kind, form: Form, name: str, inner: CFunction | None = None) -> CFunction:
    """Return a graph, whose inputs and outputs suit the kind and the form, as a C function.

    `inner` is the value alone, for the gradients of vectors and numbers. Raises GraphError for what needs Python.
    """
    compiled = compile_graph(graph)
    plan = compiled.program.plan
    for at, step in enumerate(plan.steps):
        if isinstance(step.kernel, HostCall) and step.kernel.when is None:
            nodes = compiled.plan.steps[at].nodes
            found = [n for node in nodes for n in (node, *compiled.ancestors(node))]
            source = next((n.source for n in found if n.source is not None), None)
            where = None if source is None else f"{source.file}:{source.line}"
            fail(
                GraphError,
                f"{kind.value} of {name} as a C function: its node {step.label} is computed by Python "
                f"(step {at} of the plan)",
                "A C function cannot call Python. Leave callbacks and prints out, and what has no native code.",
                where,
            )
    entry = Entry(Program(plan, is_guarded=False), form, kind, None if inner is None else inner._entry)
    return CFunction(kind, form, entry)
