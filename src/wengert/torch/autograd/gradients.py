"""Gradients of eager tensors with PyTorch's keywords: `backward` and `grad`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import wengert as wg

from ...core.errors import GradientError, fail
from ...core.tensor import Tensor as Plain
from ...transforms.derivatives.backward import backward as plain_backward
from ...transforms.derivatives.backward import gradients
from ..namespace import as_torch
from ..tensor import Tensor
from .anomaly_mode import check, leaves_of
from .engine import calling_back
from .graph import AtEdge, GradientEdge, at_edges


def _listed(value: Any) -> list[Any]:
    several = isinstance(value, Iterable) and not isinstance(value, (GradientEdge, Plain))
    return list(value) if several else [value]


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """Return the gradients of `outputs` (their sum, weighted by `grad_outputs`) in each of `inputs`.

    Parameters
    ----------
    inputs: a tensor, several, or a dict of them, for which a dict is returned.
    retain_graph, create_graph: keep what the pass needs for another one; record the pass itself.
    allow_unused: None for an input that the outputs do not depend on, instead of an error.
    materialize_grads: zeros instead of None.
    is_grads_batched: `grad_outputs` have one axis more in front, and the gradients are for each of them.

    Raises GradientError, ShapeError, DTypeError.

    >>> import wengert.torch as torch
    >>> x = torch.tensor(2.0, requires_grad=True)
    >>> (g,) = torch.autograd.grad(x**3, x, create_graph=True)
    >>> torch.autograd.grad(g, x)
    (tensor(12.),)
    """
    if not only_inputs:
        warnings.warn("only_inputs is not read: gradients are those of the inputs alone", FutureWarning, stacklevel=2)
    if materialize_grads and allow_unused is False:
        fail(GradientError, "grad(materialize_grads=True, allow_unused=False)", "Leave allow_unused out.")
    if isinstance(inputs, Mapping):
        names = list(inputs)
        found = grad(
            outputs,
            [inputs[n] for n in names],
            grad_outputs,
            retain_graph,
            create_graph,
            allow_unused=allow_unused,
            is_grads_batched=is_grads_batched,
            materialize_grads=materialize_grads,
        )
        return dict(zip(names, found, strict=True))
    if is_grads_batched:
        return _of_each(outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused, materialize_grads)
    unused = bool(allow_unused) or materialize_grads
    inputs, outputs = _listed(inputs), _listed(outputs)
    if not inputs:
        fail(GradientError, "grad() in no tensors", "Name at least one.")
    outputs = at_edges(outputs, outputs)
    wanted = at_edges(inputs, outputs)
    if materialize_grads and not any(isinstance(o, Plain) and o.requires_grad for o in outputs):
        return _zeros(inputs, (None,) * len(inputs))
    with calling_back():
        found = gradients(outputs, wanted, grad_outputs, retain_graph, create_graph, unused)
    found = tuple(as_torch(g) if isinstance(t, AtEdge) else g for g, t in zip(found, wanted))
    check(found)
    return _zeros(inputs, found) if materialize_grads else found


def _zeros(inputs: list[Any], found: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return gradients, with zeros in the place of None. Raises GradientError for such at an edge."""
    if any(g is None and isinstance(x, GradientEdge) for x, g in zip(inputs, found, strict=True)):
        fail(GradientError, "grad(materialize_grads=True) of an edge", "A place in the graph has no zeros.")
    pairs = zip(inputs, found, strict=True)
    return tuple(as_torch(wg.zeros_like(x)).requires_grad_() if g is None else g for x, g in pairs)


def _of_each(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any,
    retain_graph: bool | None,
    create_graph: bool,
    allow_unused: bool | None,
    materialize_grads: bool,
) -> tuple[Any, ...]:
    """Return gradients for each of several weights, one after the other, stacked."""
    weights = _listed(grad_outputs)
    rows = []
    count = weights[0].shape[0]
    for i in range(count):
        keep = True if i < count - 1 else retain_graph
        one = [None if w is None else w[i] for w in weights]
        rows.append(
            grad(
                outputs,
                inputs,
                one,
                keep,
                create_graph,
                allow_unused=allow_unused,
                materialize_grads=materialize_grads,
            )
        )
    return tuple(None if None in column else as_torch(wg.stack(column)) for column in zip(*rows, strict=True))


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Add the gradients of `tensors` to the `.grad` of the leaves they were computed from.

    `grad_tensors` are what multiplies their Jacobians, needed unless they are scalars; `inputs` the only leaves whose
    `.grad` is filled. Raises GradientError, ShapeError.
    """
    if grad_variables is not None:
        warnings.warn("grad_variables is an older name of grad_tensors", FutureWarning, stacklevel=2)
        grad_tensors = grad_variables if grad_tensors is None else grad_tensors
    if inputs is not None:
        inputs = list(inputs.values()) if isinstance(inputs, Mapping) else _listed(inputs)
        if not inputs:
            fail(GradientError, "backward(inputs=[])", "Name at least one tensor, or leave it out for all leaves.")
        inputs = at_edges(inputs, _listed(tensors))
    leaves = leaves_of(_listed(tensors))
    with calling_back():
        plain_backward(tensors, grad_tensors, retain_graph, create_graph, inputs)
    check(leaf.grad for leaf in leaves)


def _backward(
    self: Any,
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradients of the tensor to the `.grad` of the leaves it was computed from; see :func:`backward`."""
    backward(self, gradient, retain_graph, create_graph, inputs=inputs)


def _forget(self: Any) -> None:
    self.grad = None


Tensor.backward = _backward  # type: ignore[method-assign]
Tensor.grad = Plain.grad.deleter(_forget)  # type: ignore[attr-defined, method-assign]
