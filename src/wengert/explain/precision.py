"""Loss of precision by node: first-order rounding-error analysis by adjoints.

To first order, the error of a result is the sum over nodes of adjoint times local rounding error
(Linnainmaa, "Taylor expansion of the accumulated rounding error", 1976; Iri, "Simultaneous computation
of functions, partial derivatives and estimates of rounding errors", 1984). The local error of a node is
its value minus the same operation on the same rounded inputs in a wider dtype; the adjoint is what one
backward pass gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.errors import DTypeError, GradientError, WengertError, fail
from ..core.mode import get_mode, reset_mode, set_mode
from ..core.node import Node
from ..core.ops.autocast import is_half
from ..core.source import Source
from ..core.spec import category
from ..core.tensor import Tensor
from ..transforms.derivatives.reverse import backward_pass
from .observing.arguments import arguments, tensors_of
from .observing.events import Step, observed
from .observing.replayed import opened, replay

_SHOWN = 8
# Numbers that are multiples of a part so small of the power of two above them are taken for exact.
_SHORT = 1 << 8


@dataclass(frozen=True)
class Loss:
    """One node's part in the result's error.

    `local` is the largest rounding error of its value, `adjoint` the largest derivative of the result
    in it, `error` the signed sum of their products over its elements (what it adds to the result's
    error), `share` its part of the sum of all |error|. `cancels` is how many times larger than the
    result its operands are (1 for an operation that cancels nothing): of two nodes, a cancelling one
    loses nothing itself and brings out what was lost before.
    """

    op: str
    source: Source | None
    path: str
    error: float
    local: float
    adjoint: float
    share: float
    cancels: float

    def __str__(self) -> str:
        where = f" at {self.source}: {self.source.text}" if self.source is not None else ""
        note = f"   (cancels: operands {self.cancels:.3g} times its result)" if self.cancels > 100 else ""
        return (
            f"{self.share:6.1%}  {self.error:+.2e} = {self.local:.1e} rounded, times slope {self.adjoint:.1e}"
            f"  {self.op}{where}{note}"
        )


@dataclass(frozen=True)
class Narrow:
    """A place where values of a narrower dtype enter the computation, without further digits.

    `dtype` is theirs, `digits` how many decimal digits that has, `into` the dtype that they are taken to. Values of few
    binary digits (0.5, 3.0), which are exact in both, do not count.
    """

    dtype: str
    into: str
    digits: float
    source: Source | None
    path: str

    def __str__(self) -> str:
        where = f" at {self.source}: {self.source.text}" if self.source is not None else ""
        return (
            f"{self.dtype} enters {self.into}{where}   ({self.digits:.1f} digits: make it with dtype=wg.{self.into}, "
            "or under wg.set_default_dtype)"
        )


@dataclass(frozen=True)
class Lowered:
    """An operation that was computed in half precision, against the same one in the shadow run.

    `relative` is the largest difference of its values, relative to the largest of them, with all that was lost
    before it; `share` what its own rounding adds to the result's error. `overflows` says that finite numbers became
    infinite or NaN, `vanishes` which part of its numbers became 0.
    """

    op: str
    dtype: str
    source: Source | None
    path: str
    relative: float
    share: float
    overflows: bool
    vanishes: float

    @property
    def needs_float32(self) -> bool:
        """Return whether float32 is better: its numbers leave the range, or much of the result's error is its."""
        return self.overflows or self.vanishes > 0.01 or self.share > 0.25

    @property
    def advice(self) -> str:
        """Return what to do about it; empty where it may stay as it is."""
        if self.overflows:
            return f"overflows {self.dtype}: compute it in float32, or in bfloat16, which has float32's range"
        if self.vanishes > 0.01:
            return f"{self.vanishes:.0%} vanish below {self.dtype}'s range: compute it in float32, or scale it"
        if self.share > 0.25:
            return "most of the error is its: compute it in float32, under wg.autocast(enabled=False)"
        return ""

    def __str__(self) -> str:
        where = f" at {self.source}: {self.source.text}" if self.source is not None else ""
        note = f"   ({self.advice})" if self.advice else ""
        return f"{self.relative:8.1e} off, {self.share:6.1%} of the error  {self.op} in {self.dtype}{where}{note}"


def _merged(group: Sequence[Loss]) -> Loss:
    first = group[0]
    return Loss(
        first.op if len(group) == 1 else f"{len(group)} x {first.op}",
        first.source,
        first.path,
        sum(n.error for n in group),
        max(n.local for n in group),
        max(n.adjoint for n in group),
        sum(n.share for n in group),
        max(n.cancels for n in group),
    )


@dataclass(frozen=True)
class Precision:
    """The loss of a result's digits, node by node.

    `value` is the result (the sum of its elements), `exact` that of the shadow run in a wider dtype,
    `error` their difference, `estimate` its first-order estimate (the sum over `nodes`, which stand in
    order of what they lose), `bound` the sum of the magnitudes. `digits` are the decimal digits that are
    right, of `available` in the dtype; what comes in with fewer digits than that, and counts as exact, stands in
    `narrow`. What was computed in half precision, as under `wg.autocast`, stands in `lowered`, what needs float32 first
    and then by relative error.

    >>> import wengert as wg
    >>> found = wg.explain.precision(lambda x: (x + 1.0) - 1.0, wg.tensor(1e-4))
    >>> found.worst.op, found.available - found.digits > 3
    ('add', True)
    """

    value: float
    exact: float
    error: float
    estimate: float
    bound: float
    digits: float
    available: float
    dtype: str
    shadow: str
    nodes: tuple[Loss, ...]
    narrow: tuple[Narrow, ...] = ()
    lowered: tuple[Lowered, ...] = ()

    @property
    def worst(self) -> Loss | None:
        """The node whose rounding the result suffers most from."""
        return self.nodes[0] if self.nodes else None

    @property
    def lines(self) -> tuple[Loss, ...]:
        """The nodes, with those of one op at one place in the source as one (a loop's, say), in order."""
        together: dict[tuple[str, Source | None, str], list[Loss]] = {}
        for node in self.nodes:
            together.setdefault((node.op, node.source, node.path), []).append(node)
        merged = [_merged(group) for group in together.values()]
        return tuple(sorted(merged, key=lambda n: -n.share))

    def __str__(self) -> str:
        lines = [
            f"{self.value:.9g} in {self.dtype}, {self.exact:.9g} in {self.shadow}: "
            f"{self.digits:.1f} of {self.available:.1f} digits are right",
            f"error {self.error:+.2e}, estimated {self.estimate:+.2e} (at most {self.bound:.1e} to first order)",
        ]
        lines += [f"  {entry}" for entry in self.narrow[:_SHOWN]]
        lines += [f"  {node}" for node in self.lines[:_SHOWN] if node.error]
        lines += ["in half precision:"] * bool(self.lowered) + [f"  {entry}" for entry in self.lowered[:_SHOWN]]
        worst = max(self.nodes, key=lambda n: n.cancels, default=None)
        if worst is not None and worst.cancels > 100 and self.digits < self.available / 2:
            lines.append(
                f"  {worst.op}{f' at {worst.source}' if worst.source else ''} cancels: it leaves what its operands "
                "had lost. Rewrite it so that nothing large is subtracted (log1p, expm1, the other root of the "
                "quadratic, the mean taken off first), or compute that part in a wider dtype."
            )
        return "\n".join(lines)


def precision(fn: Callable[..., Any], *args: Any) -> Precision:
    """Return which nodes' rounding errors the result of `fn(*args)` suffers from, against a wider shadow run.

    Parameters
    ----------
    fn: a function of pytrees of tensors, arrays and numbers with a real floating result; the elements of
        a result that is not a scalar are added up. A compiled one is taken as it is written, each operation
        rounding its result: fused kernels round less often.
    args: its arguments; floating ones are exact as they are given. What `fn` computes from none of
        them, or detached from them, counts as exact too.

    Under an autocast, around the call or inside `fn`, it says which operations in half precision need float32 instead.

    The shadow run is in float64, for a float64 result in NumPy's `longdouble`, which has more digits
    on x86 only and which some operations do not have: those count as exact.

    Raises DTypeError for a result that is not real and floating, GradientError for one that does not
    depend on floating arguments.

    >>> import wengert as wg
    >>> def f(x):
    ...     c = wg.cos(x)
    ...     return (1.0 - c) / x**2
    >>> found = wg.explain.precision(f, wg.tensor(1e-3))
    >>> found.worst.op, found.digits < 2
    ('cos', True)
    >>> w = wg.tensor([[300.0], [0.001]])
    >>> found = wg.explain.precision(wg.autocast("float16")(lambda x: x @ w), wg.tensor([[400.0, 1.0]]))
    >>> found.lowered[0].op, found.lowered[0].overflows
    ('matmul', True)
    """
    given = arguments(fn, args)
    token = set_mode(get_mode().with_grad(True))
    try:
        with observed() as seen:  # so that compiled functions run as they are written
            results = tensors_of(fn(*given.args))
    finally:
        reset_mode(token)
    tracked = [t for t in results if t.node is not None and t.requires_grad]
    if len(results) != 1 or category(results[0].dtype) != 2:
        fail(DTypeError, "precision of a function that does not return one real floating tensor")
    if not tracked:
        fail(GradientError, "precision of a result that does not depend on floating arguments")
    return replace(_analysed(tracked[0]), narrow=_narrow(seen.steps, tracked[0].dtype))


def _narrow(steps: Sequence[Step], dtype: Any) -> tuple[Narrow, ...]:
    """Return where values of a narrower dtype than the result's were widened on the way, once for each line."""
    found: dict[tuple[str, Source | None], Narrow] = {}
    for step in steps:
        if step.op.name != "cast" or step.depth:
            continue
        value, out = step.inputs[0], step.out
        if category(out.dtype) < 2 or category(value.dtype) < 2:
            continue
        digits = -np.log10(_epsilon(_real_of(value)))
        narrower = _epsilon(_real_of(value)) > _epsilon(_real_of(out)) >= _epsilon(dtype)
        if narrower and not _is_short(value):
            at = str(value.dtype), step.source
            found.setdefault(at, Narrow(str(value.dtype), str(out.dtype), float(digits), step.source, step.path))
    return tuple(found.values())


def _real_of(array: Any) -> Any:
    return array.real.dtype if array.dtype.kind == "c" else array.dtype


def _is_short(array: Any) -> bool:
    """Return whether all numbers have so few binary digits that they are hardly rounded ones."""
    parts = (array.real, array.imag) if array.dtype.kind == "c" else (array,)
    mantissas = [np.frexp(np.asarray(part, np.float64))[0] for part in parts]
    return all(bool(np.all((m * _SHORT == np.floor(m * _SHORT)) | ~np.isfinite(m))) for m in mantissas)


def _analysed(out: Tensor) -> Precision:
    out = opened(out, "precision")
    root = out.node
    assert root is not None
    wide: Any = np.longdouble if out.dtype == np.float64 else np.float64
    steps = [s for s in replay([root]) if s.node is not None]
    adjoints = _adjoints(out, root)
    with np.errstate(all="ignore"):
        losses = [_loss(step, adjoints.get(step.node), wide) for step in steps]  # type: ignore[arg-type]
        shadow = _shadow(steps, wide)
        exact = float(np.sum(shadow[root], dtype=wide))
        value = np.sum(np.asarray(_widened(out._array, wide)), dtype=wide)
        error = float(value - np.sum(shadow[root], dtype=wide))
    total = sum(abs(e[0]) for e in losses)
    nodes = [
        Loss(s.name, s.source, s.path, e, local, slope, abs(e) / total if total else 0.0, cancels)
        for s, (e, local, slope, _, cancels) in zip(steps, losses, strict=True)
    ]
    lowered = [_lowered(s, n, shadow[s.node]) for s, n in zip(steps, nodes, strict=True) if _is_half(s.out)]  # type: ignore[index]
    lowered.sort(key=lambda n: (not n.needs_float32, -n.relative if n.relative == n.relative else -np.inf))
    nodes.sort(key=lambda n: -abs(n.error) if n.error == n.error else -np.inf)
    epsilon = _epsilon(out.dtype)
    available = -np.log10(epsilon)
    relative = abs(error) / abs(exact) if exact else (0.0 if error == 0 else 1.0)
    digits = available if relative <= epsilon else max(0.0, -float(np.log10(relative))) if relative == relative else 0.0
    return Precision(
        float(value), exact, error, sum(e[0] for e in losses), sum(e[3] for e in losses), min(digits, available),
        float(available), str(out.dtype), "longdouble" if wide is np.longdouble else "float64", tuple(nodes),
        lowered=tuple(lowered),
    )  # fmt: skip


def _is_half(value: Any) -> bool:
    return isinstance(value, (np.ndarray, np.generic)) and is_half(value.dtype)


def _lowered(step: Step, loss: Loss, exact: Any) -> Lowered:
    """Return what half precision has made of an operation's values, which are `exact` in the shadow run."""
    value, wanted = np.asarray(_widened(step.out, np.float64)), np.asarray(exact, np.float64)
    finite = np.isfinite(wanted)
    scale = float(np.abs(wanted[finite]).max(initial=0.0))
    both = finite & np.isfinite(value)
    error = float(np.abs(value - wanted)[both].max(initial=0.0))
    gone = (value == 0) & (wanted != 0) & (np.abs(wanted) < _smallest(step.out.dtype))
    return Lowered(
        step.name, str(step.out.dtype), step.source, step.path, error / scale if scale else 0.0, loss.share,
        bool((finite & ~np.isfinite(value)).any()), float(gone.mean()) if gone.size else 0.0,
    )  # fmt: skip


def _smallest(dtype: Any) -> float:
    """Return the smallest positive number of float16; below it, numbers round to 0."""
    return 0.0 if dtype.kind == "V" else float(np.finfo(dtype).smallest_subnormal)


def _adjoints(out: Tensor, root: Node) -> dict[Node, Any]:
    """Return the derivative of the result's sum in every node, from one backward pass."""
    ones = np.ones(out.shape, out.dtype)
    with observed() as seen:
        backward_pass([(root, ones)], None, create_graph=False, retain_graph=True)
    return {root: ones} | {pull.node: pull.ct for pull in seen.pulls}


def _loss(step: Step, adjoint: Any, wide: Any) -> tuple[float, float, float, float, float]:
    """Return signed error, largest local error, largest adjoint, sum of magnitudes, cancellation."""
    if adjoint is None or isinstance(step.out, (tuple, list)) or isinstance(adjoint, tuple):
        return 0.0, 0.0, 0.0, 0.0, 1.0
    value = _widened(step.out, wide)
    again = _rerun(step, [_widened(v, wide) for v in step.inputs])
    local = np.zeros((), wide) if again is None else np.asarray(value - again)
    local = np.where(value == again, 0, local) if again is not None else local
    slope = _widened(adjoint, wide)
    product = np.where(local == 0, 0, np.real(slope * local))
    return (
        float(product.sum()),
        _largest(local),
        _largest(slope),
        float(np.abs(product).sum()),
        _cancellation(step),
    )


def _rerun(step: Step, inputs: Sequence[Any]) -> Any:
    """Run the operation in the wider dtype; None where NumPy does not have it there."""
    if step.op.name == "cast" and category(np.dtype(step.node.spec.dtype)) >= 2:  # type: ignore[union-attr]
        return inputs[0]
    try:
        return step.run(*inputs)
    except (TypeError, ValueError, WengertError):
        return None


def _shadow(steps: Sequence[Step], wide: Any) -> dict[Node, Any]:
    """Return every value, computed in the wider dtype from the leaves on."""
    values: dict[Node, Any] = {}
    for step in steps:
        node = step.node
        assert node is not None
        inputs = [
            values[e] if isinstance(e, Node) and e in values else _widened(v, wide)
            for e, v in zip(node.inputs, step.inputs, strict=True)
        ]
        again = _rerun(step, inputs)
        values[node] = _widened(step.out, wide) if again is None else again
    return values


def _cancellation(step: Step) -> float:
    """Return how many times larger an addition's operands are than its result (the largest over elements)."""
    infix = step.op.facets.get("infix")
    if infix is None or infix.binds != "sum":
        return 1.0
    x, y, out = (np.abs(np.asarray(_widened(v, np.float64))) for v in (*step.inputs, step.out))
    # Where nothing is left, all digits that there were are gone.
    ratio = np.maximum(x, y) / np.maximum(out, np.maximum(x, y) * _epsilon(np.asarray(step.out).dtype))
    ratio = ratio[np.isfinite(ratio)]
    return max(1.0, float(ratio.max())) if ratio.size else 1.0


def _widened(value: Any, wide: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return tuple(_widened(v, wide) for v in value)
    if isinstance(value, (np.ndarray, np.generic)):
        if value.dtype.kind in "fV":
            return value.astype(wide)
        if value.dtype.kind == "c":
            return value.astype(np.result_type(wide, np.complex64))
    return value


def _largest(array: Any) -> float:
    return float(np.max(np.abs(array), initial=0.0))


def _epsilon(dtype: Any) -> float:
    return 2.0**-8 if dtype.kind == "V" else float(np.finfo(dtype).eps)
