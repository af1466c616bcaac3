"""Ensembles of decision trees, of the domain ai.onnx.ml: all trees go down one level at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import wengert as wg

from ..errors import refuse
from ..registry import ML, operator
from ..values import Known
from .ml import labelled, post_transformed

_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
_LEAF = -1
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


class Forest(NamedTuple):
    """Nodes of all trees in one row. A leaf leads to itself, and `votes` has a row of targets for each."""

    roots: Known
    features: Known
    splits: Known
    modes: Known
    yes: Known
    no: Known
    nan_is_yes: Known
    members: list[Known]
    votes: Known
    voted: Known

    @property
    def depth(self) -> int:
        """The number of steps from a root to the farthest leaf. Raises OnnxError where paths meet themselves."""
        level = set(self.roots.tolist())
        steps = 0
        while True:
            inner = [i for i in level if self.modes[i] != _LEAF]
            if not inner:
                return steps
            level = {int(v) for i in inner for v in (self.yes[i], self.no[i])}
            steps += 1
            if steps > len(self.modes):
                refuse("a branch of a tree leads back to where it came from")


def _leaves(x: Any, forest: Forest) -> Any:
    """Return the leaf that each row reaches in each tree, (rows, trees)."""
    count = len(forest.modes)
    for part in (forest.yes, forest.no, forest.roots):
        if part.size and not (part.min() >= 0 and part.max() < count):
            refuse("a tree has a branch to a node that it does not have")
    if forest.features.size and not (forest.features.min() >= 0 and forest.features.max() < x.shape[1]):
        refuse(f"a tree asks for a feature that the {x.shape[1]} of the operand do not have")
    features, splits = wg.asarray(forest.features), wg.asarray(forest.splits.astype(x.dtype))
    modes, yes, no = wg.asarray(forest.modes), wg.asarray(forest.yes), wg.asarray(forest.no)
    nan_is_yes = wg.asarray(forest.nan_is_yes)
    used = sorted(set(forest.modes.tolist()) - {_LEAF})
    at = wg.broadcast_to(wg.asarray(forest.roots).reshape((1, -1)), (x.shape[0], len(forest.roots)))
    for _ in range(forest.depth):
        value = wg.take_along_axis(x, wg.take(features, at, 0), 1)
        split = wg.take(splits, at, 0)
        mode = wg.take(modes, at, 0)
        goes = wg.zeros_like(value, dtype=wg.bool)
        for m in used:
            goes = wg.where(mode == m, _compared(value, split, at, m, forest), goes)
        goes = wg.where(wg.isnan(value), wg.take(nan_is_yes, at, 0), goes)
        at = wg.where(goes, wg.take(yes, at, 0), wg.take(no, at, 0))
    return at


def _compared(value: Any, split: Any, at: Any, mode: int, forest: Forest) -> Any:
    if mode == 6:
        hit = wg.zeros_like(value, dtype=wg.bool)
        for node, members in enumerate(forest.members):
            if len(members):
                inside = wg.any(wg.expand_dims(value, -1) == wg.asarray(members.astype(value.dtype)), -1)
                hit = wg.where(at == node, inside, hit)
        return hit
    return (wg.less_equal, wg.less, wg.greater_equal, wg.greater, wg.equal, wg.not_equal)[mode](value, split)


def scored(x: Any, forest: Forest, aggregate: str, base: Any) -> Any:
    """Return the targets' scores, (rows, targets)."""
    if aggregate not in _AGGREGATES:
        refuse(f"aggregate_function is {aggregate!r}, and none of {', '.join(_AGGREGATES)}")
    if x.ndim != 2:
        refuse(f"an operand of shape {tuple(x.shape)} is no table")
    wide = x if x.dtype in (wg.float32, wg.float64) else x.astype(wg.float32)
    at = _leaves(wide, forest)
    votes = wg.take(wg.asarray(forest.votes.astype(wide.dtype)), at, 0)
    if aggregate in ("SUM", "AVERAGE"):
        out = wg.sum(votes, 1)
        out = out / len(forest.roots) if aggregate == "AVERAGE" else out
    else:
        voted = wg.take(wg.asarray(forest.voted), at, 0)
        far = np.inf if aggregate == "MIN" else -np.inf
        best = (wg.min if aggregate == "MIN" else wg.max)(wg.where(voted, votes, wg.full((), far, dtype=wide.dtype)), 1)
        out = wg.where(wg.any(voted, 1), best, wg.zeros_like(best))
    return out if base is None else out + wg.asarray(np.asarray(base, dtype=wide.dtype))


def _numbers(given: Any, dtype: Any = np.int64) -> Known:
    return np.asarray(given if given is not None else (), dtype=dtype)


@operator("TreeEnsemble", since=5, domain=ML)
def _tree_ensemble(
    x: Any,
    *,
    aggregate_function: int = 1,
    leaf_targetids: Any,
    leaf_weights: Any,
    membership_values: Any = None,
    n_targets: int,
    nodes_falseleafs: Any,
    nodes_falsenodeids: Any,
    nodes_featureids: Any,
    nodes_hitrates: Any = None,
    nodes_missing_value_tracks_true: Any = None,
    nodes_modes: Any,
    nodes_splits: Any,
    nodes_trueleafs: Any,
    nodes_truenodeids: Any,
    post_transform: int = 0,
    tree_roots: Any,
    context: Any,
) -> Any:
    inner, leaves = len(nodes_featureids), len(leaf_targetids)
    if not 0 <= aggregate_function < 4 or not 0 <= post_transform < 5:
        refuse(f"aggregate_function is {aggregate_function} and post_transform {post_transform}")
    lengths = {
        len(v)
        for v in (nodes_falseleafs, nodes_falsenodeids, nodes_modes, nodes_splits, nodes_trueleafs, nodes_truenodeids)
    }
    if lengths != {inner} or len(leaf_weights) != leaves:
        refuse(f"the lists of {inner} nodes and {leaves} leaves are not of one length")
    targets = _numbers(leaf_targetids)
    if n_targets < 1 or (targets.size and not (targets.min() >= 0 and targets.max() < n_targets)):
        refuse(f"a leaf is of none of {n_targets} targets")
    context.run.room(n_targets * (inner + leaves))
    itself = np.arange(inner, inner + leaves)

    def branch(at: Any, leaf: Any) -> Known:
        return np.concatenate([_numbers(at) + np.where(_numbers(leaf) != 0, inner, 0), itself])

    votes = np.zeros((inner + leaves, n_targets), dtype=leaf_weights.dtype)
    votes[itself, targets] = leaf_weights
    voted = np.zeros(votes.shape, dtype=bool)
    voted[itself, targets] = True
    modes = np.concatenate([nodes_modes.astype(np.int64), np.full(leaves, _LEAF)])
    if inner and not (modes[:inner].min() >= 0 and modes[:inner].max() <= 6):
        refuse("a node has a comparison that is not defined")
    members: list[Known] = [np.zeros(0)] * (inner + leaves)
    if membership_values is not None:
        sets = np.split(membership_values, np.flatnonzero(np.isnan(membership_values)) + 1)
        for node, values in zip(np.flatnonzero(modes[:inner] == 6), sets):
            members[node] = values[~np.isnan(values)]
    nan = _numbers(nodes_missing_value_tracks_true if nodes_missing_value_tracks_true is not None else [0] * inner)
    forest = Forest(
        _numbers(tree_roots),
        np.concatenate([_numbers(nodes_featureids), np.zeros(leaves, np.int64)]),
        np.concatenate([nodes_splits, np.zeros(leaves, nodes_splits.dtype)]),
        modes,
        branch(nodes_truenodeids, nodes_trueleafs),
        branch(nodes_falsenodeids, nodes_falseleafs),
        np.concatenate([nan != 0, np.zeros(leaves, bool)]),
        members,
        votes,
        voted,
    )
    scores = scored(x, forest, _AGGREGATES[aggregate_function], None)
    how = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")[post_transform]
    return post_transformed(scores, how).astype(x.dtype)


def _of_lists(a: dict[str, Any], kind: str, count: int) -> Forest:
    """Return the forest that the older operators' lists say; `kind` is "target" or "class"."""

    def floats(name: str) -> Known:
        given = a.get(f"{name}_as_tensor")
        return np.asarray(a.get(name, ()), np.float32) if given is None else given.ravel()

    trees, ids = _numbers(a["nodes_treeids"]), _numbers(a["nodes_nodeids"])
    place = {(t, i): n for n, (t, i) in enumerate(zip(trees.tolist(), ids.tolist()))}
    if len(place) != len(trees) or any(m not in (*_MODES[:6], "LEAF") for m in a["nodes_modes"]):
        refuse("a node stands twice, or has a comparison that is not defined")
    modes = np.array([_LEAF if m == "LEAF" else _MODES.index(m) for m in a["nodes_modes"]], dtype=np.int64)
    if len(modes) != len(trees):
        refuse(f"{len(trees)} nodes have {len(modes)} comparisons")
    own = np.arange(len(trees))

    def branch(name: str) -> Known:
        found = [place.get((t, i), -1) for t, i in zip(trees.tolist(), a[name])]
        return np.where(modes == _LEAF, own, np.array(found, dtype=np.int64))

    weights = floats(f"{kind}_weights")
    votes = np.zeros((len(trees), count), dtype=weights.dtype)
    voted = np.zeros(votes.shape, dtype=bool)
    for t, i, target, weight in zip(a[f"{kind}_treeids"], a[f"{kind}_nodeids"], a[f"{kind}_ids"], weights):
        if (t, i) not in place or not 0 <= target < count:
            refuse("a leaf's weight is of a node or a target that does not exist")
        votes[place[t, i], target] += weight
        voted[place[t, i], target] = True
    nan = a.get("nodes_missing_value_tracks_true") or (0,) * len(trees)
    roots = [place[t, ids[trees == t].min()] for t in dict.fromkeys(trees.tolist())]
    return Forest(
        np.array(roots, dtype=np.int64),
        np.where(modes == _LEAF, 0, _numbers(a["nodes_featureids"])),
        floats("nodes_values"),
        modes,
        branch("nodes_truenodeids"),
        branch("nodes_falsenodeids"),
        _numbers(nan) != 0,
        [],
        votes,
        voted,
    )


def _base(a: dict[str, Any]) -> Any:
    given = a.get("base_values_as_tensor")
    return given.ravel() if given is not None else a.get("base_values") or None


@operator("TreeEnsembleRegressor", domain=ML)
def _tree_regressor(
    x: Any, *, n_targets: int, aggregate_function: str = "SUM", post_transform: str = "NONE", context: Any, **lists: Any
) -> Any:
    context.run.room(n_targets * len(lists.get("nodes_nodeids", ())))
    scores = scored(x, _of_lists(lists, "target", n_targets), aggregate_function, _base(lists))
    return post_transformed(scores, post_transform).astype(wg.float32)


@operator("TreeEnsembleClassifier", domain=ML)
def _tree_classifier(
    x: Any,
    *,
    classlabels_int64s: Any = (),
    classlabels_strings: Any = (),
    post_transform: str = "NONE",
    context: Any,
    **lists: Any,
) -> Any:
    labels = classlabels_strings or classlabels_int64s
    context.run.room(len(labels) * len(lists.get("nodes_nodeids", ())))
    # Where only one of two classes has votes, they are those of the second.
    binary = len(labels) == 2 and len(set(lists["class_ids"])) == 1
    if binary:
        lists["class_ids"] = (0,) * len(lists["class_ids"])
    scores = scored(x, _of_lists(lists, "class", 1 if binary else len(labels)), "SUM", _base(lists))
    if not binary:
        chosen = wg.argmax(scores, 1)
        return labelled(chosen, classlabels_int64s, classlabels_strings, context), post_transformed(
            scores, post_transform
        ).astype(wg.float32)
    positive = all(v >= 0 for v in lists.get("class_weights", ()))
    threshold = 0.5 if positive and post_transform == "NONE" else 0.0
    chosen = (scores[:, 0] > threshold).astype(wg.int64)
    if post_transform == "NONE" and positive:
        both = wg.concat([1 - scores, scores], 1)
    else:
        both = wg.concat([-scores, scores], 1)
    return labelled(chosen, classlabels_int64s, classlabels_strings, context), post_transformed(
        both, post_transform
    ).astype(wg.float32)
