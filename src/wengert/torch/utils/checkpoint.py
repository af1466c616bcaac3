"""`torch.utils.checkpoint`: PyTorch's parameters over :func:`wengert.checkpoint`."""

from __future__ import annotations

import contextlib
import enum
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ...core.errors import DTypeError, GradientError, ShapeError, fail
from ...core.node import Node
from ...core.tensor import Tensor as Plain
from ...core.tensor import abstract, wrap
from ...transforms.checkpoint.checkpoint import checkpoint as plain_checkpoint
from .._ops import OPERATORS, Unmade, unmade
from ..absent import names_of

__all__ = [
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
]


def noop_context_fn() -> tuple[Any, Any]:
    """Return two contexts that do nothing, the default of `context_fn`."""
    return contextlib.nullcontext(), contextlib.nullcontext()


class CheckpointPolicy(enum.Enum):
    """An answer of a policy about the result of an operator; what is preferred is done."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4


class SelectiveCheckpointContext:
    """The context that a policy is given beside an operator: it is asked once, when the operator has run."""

    def __init__(self, *, is_recompute: bool) -> None:
        self.is_recompute = is_recompute


# PyTorch's operators for ops that are called otherwise: any of them stands for the op in a policy.
_OPERATORS: dict[str, tuple[str, ...]] = {
    "add": ("add.Tensor",),
    "subtract": ("sub.Tensor",),
    "multiply": ("mul.Tensor",),
    "divide": ("div.Tensor",),
    "negative": ("neg",),
    "concat": ("cat",),
    "convolve": ("convolution", "conv2d", "conv1d", "conv3d"),
    "linear": ("addmm", "mm", "linear"),
    "reshape": ("view", "reshape"),
    "dropout": ("native_dropout", "dropout"),
    "layer_norm": ("native_layer_norm", "layer_norm"),
    "group_norm": ("native_group_norm", "group_norm"),
    "softmax": ("_softmax", "softmax"),
    "log_softmax": ("_log_softmax", "log_softmax"),
    "attention": (
        "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_cudnn_attention",
        "scaled_dot_product_attention",
    ),
}


def _operators(node: Node) -> list[Any]:
    """Return PyTorch's operators that a recorded node stands for, the likeliest first."""
    name = node.op.name
    if name == "matmul":
        shapes = [getattr(e, "spec", None) for e in node.inputs]
        matrices = all(s is not None and len(s.shape) == 2 for s in shapes)
        names: tuple[str, ...] = ("mm", "matmul") if matrices else ("bmm", "matmul")
    else:
        names = _OPERATORS.get(name, (name,))
    made = [found for key, found in OPERATORS.items() if key.rpartition("::")[2] == name]
    return made or [unmade(f"aten::{n.partition('.')[0]}") for n in names]


class _Selecting(contextlib.nullcontext[None]):
    """A context that says by a policy what a checkpoint keeps."""

    def __init__(self, policy: Callable[..., Any]) -> None:
        super().__init__()
        self.policy = policy

    def keeps(self, node: Node) -> bool:
        """Return whether the result of a recorded node is kept."""
        told = SelectiveCheckpointContext(is_recompute=False)
        given = [abstract(e) if isinstance(e, Node) else e if isinstance(e, Plain) else wrap(e) for e in node.inputs]
        for operator in _operators(node):
            said = self.policy(told, operator, *given)
            if isinstance(said, bool):
                said = CheckpointPolicy.MUST_SAVE if said else CheckpointPolicy.PREFER_RECOMPUTE
            if said is CheckpointPolicy.MUST_CPU_OFFLOAD:
                fail(GradientError, "CheckpointPolicy.MUST_CPU_OFFLOAD", "Values are in the processor's memory: save.")
            if said in (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE):
                return True
        return False


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False
) -> tuple[Any, Any]:
    """Return what `context_fn` of :func:`checkpoint` gives, for a choice of the values that are kept.

    Parameters
    ----------
    policy_fn_or_list: operators whose results are kept, `[torch.ops.aten.mm.default]`, or a function of a context, an
        operator and its arguments, which have shapes and no values, that gives a :class:`CheckpointPolicy` or a bool.
    allow_cache_entry_mutation: not read: what is kept never changes.

    Raises DTypeError for another policy, ValueError for what is no operator.

    >>> import functools
    >>> import wengert.torch as torch
    >>> from wengert.torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
    >>> kept = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])
    >>> x = torch.ones(2, 2, requires_grad=True)
    >>> checkpoint(lambda v: (v @ v).exp().sum(), x, use_reentrant=False, context_fn=kept).backward()
    >>> x.grad
    tensor([[29.5562, 29.5562],
            [29.5562, 29.5562]])
    """
    policy = policy_fn_or_list
    if isinstance(policy, list):
        for operator in policy:
            if not isinstance(operator, Unmade) and operator not in OPERATORS.values():
                raise ValueError(f"Expected op in `op_list` to be an OpOverload, not {operator!r}")
        chosen = list(policy)
        policy = lambda ctx, op, *args, **kwargs: any(op is c for c in chosen)
    elif not callable(policy):
        what = f"create_selective_checkpoint_contexts of a {type(policy).__name__}"
        fail(DTypeError, what, "It takes either a function or a list of ops.")
    return _Selecting(policy), contextlib.nullcontext()


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Return `function(*args, **kwargs)`, whose inner values are computed again for the backward pass, not kept.

    See :func:`wengert.checkpoint`. What is computed again is what was recorded: random numbers are those of the first
    time, whatever `preserve_rng_state`. `use_reentrant` decides nothing but whether keywords for the function are
    taken; `determinism_check`, `debug` and `early_stop` are taken.

    `context_fn` gives two contexts, one around the function and one around what is computed again, which is not the
    function: the second does nothing. See :func:`create_selective_checkpoint_contexts` for what to keep.

    Raises GradientError for a second context that does something, and DTypeError for keywords, with
    `use_reentrant=True`.

    >>> import wengert.torch as torch
    >>> x = torch.tensor([0.5], requires_grad=True)
    >>> torch.utils.checkpoint.checkpoint(lambda a: a.exp().sin(), x, use_reentrant=False).backward()
    >>> x.grad
    tensor([-0.1283])
    """
    kwargs.pop("preserve_rng_state", None)
    if kwargs and use_reentrant:
        fail(DTypeError, f"checkpoint() with use_reentrant=True has no keyword {', '.join(kwargs)}")
    if context_fn is noop_context_fn:
        return plain_checkpoint(function)(*args, **kwargs)
    if use_reentrant:
        fail(GradientError, "checkpoint(use_reentrant=True) with a context_fn", "It goes with use_reentrant=False.")
    around, again = context_fn()
    if not isinstance(again, contextlib.nullcontext):
        fail(
            GradientError,
            f"checkpoint() with a context around what is computed again, a {type(again).__name__}",
            "That is the recorded graph, and not the function: let context_fn give contextlib.nullcontext() for it.",
        )
    with around:
        policy = around.keeps if isinstance(around, _Selecting) else None
        return plain_checkpoint(function, policy=policy)(*args, **kwargs)


def _in_turn(functions: Sequence[Callable[[Any], Any]], x: Any) -> Any:
    for function in functions:
        x = function(x)
    return x


def checkpoint_sequential(
    functions: Iterable[Callable[[Any], Any]],
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    **kwargs: Any,
) -> Any:
    """Return functions, or the layers of a `Sequential`, applied one after the other, in checkpointed segments.

    The last segment keeps its values: its backward pass comes first. Raises ShapeError for a number of segments that is
    none, DTypeError for other keywords than `preserve_rng_state`.
    """
    kwargs.pop("preserve_rng_state", None)
    if kwargs:
        fail(DTypeError, f"checkpoint_sequential() has no keyword {', '.join(kwargs)}")
    steps = list(functions)
    if segments < 1 or segments > max(len(steps), 1):
        fail(ShapeError, f"checkpoint_sequential() with {segments} segments of {len(steps)} functions")
    size = len(steps) // segments
    last = size * (segments - 1)
    for start in range(0, last, max(size, 1)):
        input = checkpoint(functools.partial(_in_turn, steps[start : start + size]), input, use_reentrant=use_reentrant)
    return _in_turn(steps[last:], input)


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Do nothing: what a derivative does not need is never computed again."""
    yield


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Do nothing: what is computed again is the recorded graph, which cannot be another one."""
    yield


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
