"""Nested lists, tuples and dicts taken apart, under PyTorch's inner path `torch.utils._pytree`; None is a leaf."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

from ...core import tree
from ..absent import names_of

Context: TypeAlias = Any
PyTree: TypeAlias = Any
Leaf = Callable[[Any], bool]


class TreeSpec(tree.Structure):
    """The structure in which leaves stand: what a node is, what its type needs to make it again, and its children."""

    __slots__ = ()

    def __init__(self, type: Any, context: Any, children_specs: Iterable[tree.Structure]) -> None:
        made = SUPPORTED_NODES[type].unflatten_fn if type is not None else None
        super().__init__(type, context, tuple(children_specs), made and (lambda aux, children: made(children, aux)))

    @property
    def type(self) -> Any:
        """The type of the node; None of a leaf."""
        return self.kind

    @property
    def context(self) -> Any:
        """The data that the type needs beside the children, such as a dict's keys."""
        return self.aux

    @property
    def children_specs(self) -> list[tree.Structure]:
        """The structures of the children."""
        return list(self.children)

    @property
    def num_leaves(self) -> int:
        """The number of leaves."""
        return self.count

    @property
    def num_children(self) -> int:
        """The number of children."""
        return len(self.children)

    def is_leaf(self) -> bool:
        """Return whether there is a leaf alone."""
        return self.kind is None


class LeafSpec(TreeSpec):
    """The structure of a leaf."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None, None, ())


class NodeDef(NamedTuple):
    """The functions that take instances of a type apart, to `(children, context)`, and make them again of both."""

    type: Any
    flatten_fn: Callable[[Any], tuple[list[Any], Any]]
    unflatten_fn: Callable[[Iterable[Any], Any], Any]


def _of_dict(kind: Any) -> NodeDef:
    def made(children: Iterable[Any], keys: Any) -> Any:
        return kind(zip(keys, children))

    return NodeDef(kind, lambda d: (list(d.values()), list(d)), made)


def _of_defaultdict(children: Iterable[Any], context: Any) -> Any:
    return defaultdict(context[0], zip(context[1], children))


SUPPORTED_NODES: dict[Any, NodeDef] = {
    dict: _of_dict(dict),
    OrderedDict: _of_dict(OrderedDict),
    defaultdict: NodeDef(defaultdict, lambda d: (list(d.values()), [d.default_factory, list(d)]), _of_defaultdict),
    list: NodeDef(list, lambda x: (list(x), None), lambda children, _: list(children)),
    tuple: NodeDef(tuple, lambda x: (list(x), None), lambda children, _: tuple(children)),
    deque: NodeDef(deque, lambda x: (list(x), x.maxlen), lambda children, size: deque(children, maxlen=size)),
    namedtuple: NodeDef(namedtuple, lambda x: (list(x), type(x)), lambda children, kind: kind(*children)),
}


def is_namedtuple_class(cls: Any) -> bool:
    """Return whether a class is one of named tuples."""
    return isinstance(cls, type) and issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def is_namedtuple(obj: Any) -> bool:
    """Return whether something is a named tuple, or a class of such."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


is_namedtuple_instance = is_namedtuple


def _get_node_type(x: Any) -> Any:
    """Return the type under which something is taken apart, if it is."""
    return namedtuple if type(x) not in SUPPORTED_NODES and is_namedtuple_class(type(x)) else type(x)


def _is_leaf(x: Any, is_leaf: Leaf | None = None) -> bool:
    """Return whether something is a leaf."""
    return (is_leaf is not None and is_leaf(x)) or _get_node_type(x) not in SUPPORTED_NODES


tree_is_leaf = _is_leaf


def register_pytree_node(cls: type, flatten_fn: Any, unflatten_fn: Any, **options: Any) -> None:
    """Register a class to be taken apart by `flatten_fn(x)` and made again by `unflatten_fn(children, context)`.

    `wengert`'s functions of trees, and compiled functions, know it then too.
    """
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn)
    tree.register(cls, flatten_fn, lambda context, children: unflatten_fn(children, context))


_register_pytree_node = register_pytree_node


def tree_flatten(tree_: Any, is_leaf: Leaf | None = None) -> tuple[list[Any], TreeSpec]:
    """Return the leaves and the structure that they stand in."""
    leaves: list[Any] = []
    return leaves, _flatten_into(tree_, is_leaf, leaves)


def _flatten_into(x: Any, is_leaf: Leaf | None, leaves: list[Any]) -> TreeSpec:
    if _is_leaf(x, is_leaf):
        leaves.append(x)
        return LeafSpec()
    kind = _get_node_type(x)
    children, context = SUPPORTED_NODES[kind].flatten_fn(x)
    return TreeSpec(kind, context, [_flatten_into(c, is_leaf, leaves) for c in children])


def tree_unflatten(leaves: Iterable[Any], treespec: tree.Structure) -> Any:
    """Return leaves in a structure."""
    return tree.unflatten(treespec, list(leaves))


def tree_leaves(tree_: Any, is_leaf: Leaf | None = None) -> list[Any]:
    """Return the leaves."""
    return tree_flatten(tree_, is_leaf)[0]


tree_iter = tree_leaves


def tree_structure(tree_: Any, is_leaf: Leaf | None = None) -> TreeSpec:
    """Return the structure that the leaves stand in."""
    return tree_flatten(tree_, is_leaf)[1]


def tree_map(fn: Callable[..., Any], tree_: Any, *rest: Any, is_leaf: Leaf | None = None) -> Any:
    """Return the structure with a function of the leaves, and of those of further trees at their places."""
    leaves, found = tree_flatten(tree_, is_leaf)
    others = [tree_flatten(t, is_leaf)[0] for t in rest]
    return tree_unflatten([fn(*each) for each in zip(leaves, *others, strict=True)], found)


def tree_map_(fn: Callable[..., Any], tree_: Any, *rest: Any, is_leaf: Leaf | None = None) -> Any:
    """Call a function with the leaves, and return the tree."""
    tree_map(fn, tree_, *rest, is_leaf=is_leaf)
    return tree_


def tree_map_only(kind: Any, fn: Callable[[Any], Any], tree_: Any, is_leaf: Leaf | None = None) -> Any:
    """Return the structure with a function of the leaves of a type, of types, or that a predicate holds for."""
    asked = kind if callable(kind) and not isinstance(kind, type) else lambda x: isinstance(x, kind)
    return tree_map(lambda x: fn(x) if asked(x) else x, tree_, is_leaf=is_leaf)


def tree_any(pred: Callable[[Any], bool], tree_: Any, is_leaf: Leaf | None = None) -> bool:
    """Return whether a predicate holds for any leaf."""
    return any(map(pred, tree_leaves(tree_, is_leaf)))


def tree_all(pred: Callable[[Any], bool], tree_: Any, is_leaf: Leaf | None = None) -> bool:
    """Return whether a predicate holds for all leaves."""
    return all(map(pred, tree_leaves(tree_, is_leaf)))


__all__ = [
    "LeafSpec",
    "TreeSpec",
    "register_pytree_node",
    "tree_all",
    "tree_any",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_structure",
    "tree_unflatten",
]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
