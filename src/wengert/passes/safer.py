"""Numerically safer forms: the same function of real numbers, without overflow or cancellation.

They change values where the plain form loses digits or overflows, so they are not among the rules
that keep every bit; compiled programs use them.

Sources: Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed. 2002, ch. 1; Blanchard,
Higham, Higham, "Accurately computing the log-sum-exp and softmax functions", 2021.
"""

from __future__ import annotations

from typing import Any

from ..core.node import Node
from .rewrite import Rule, RuleSet, build, is_op, number


def _is_float(node: Node) -> bool:
    return bool(node.spec.dtype.kind == "f")


def _log_of_one_plus(node: Node) -> Node | None:
    """Rewrite log(1 + x) to log1p(x), which loses nothing for small x."""
    x = node.inputs[0]
    if not _is_float(node) or not is_op(x, "add"):
        return None
    for one, other in (x.inputs, x.inputs[::-1]):
        if number(one) == 1 and isinstance(other, Node) and other.spec == node.spec:
            return build("log1p", (other,), node)
    return None


def _exp_minus_one(node: Node) -> Node | None:
    """Rewrite exp(x) - 1 to expm1(x)."""
    x, one = node.inputs
    if _is_float(node) and number(one) == 1 and is_op(x, "exp"):
        return build("expm1", (x.inputs[0],), node)
    return None


def _log_of_softmax(node: Node) -> Node | None:
    """Rewrite log(softmax(x)) to log_softmax(x), finite where softmax underflows."""
    x = node.inputs[0]
    return build("log_softmax", (x.inputs[0],), node, axis=x.attrs["axis"]) if is_op(x, "softmax") else None


def _log_of_sigmoid(node: Node) -> Node | None:
    x = node.inputs[0]
    return build("logsigmoid", (x.inputs[0],), node) if _is_float(node) and is_op(x, "sigmoid") else None


def _log_of_sum_of_exp(node: Node) -> Node | None:
    """Rewrite log(sum(exp(x))) to logsumexp(x)."""
    total = node.inputs[0]
    if not _is_float(node) or not is_op(total, "sum") or not is_op(total.inputs[0], "exp"):
        return None
    attrs: dict[str, Any] = total.attrs
    return build("logsumexp", (total.inputs[0].inputs[0],), node, axis=attrs["axis"], keepdims=attrs["keepdims"])


SAFER = RuleSet(
    [
        Rule("log1p of the rest", frozenset({"log"}), _log_of_one_plus),
        Rule("expm1", frozenset({"subtract"}), _exp_minus_one),
        Rule("log-softmax", frozenset({"log"}), _log_of_softmax),
        Rule("log-sigmoid", frozenset({"log"}), _log_of_sigmoid),
        Rule("log-sum-exp", frozenset({"log"}), _log_of_sum_of_exp),
    ]
)
