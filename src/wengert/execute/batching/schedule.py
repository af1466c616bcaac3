"""The order of deferred calls: which run together, and when.

Calls of one cell that are equally far from the values outside are a *bucket*. By *depth*, each bucket runs by itself.
By the *agenda* of DyNet (Neubig, Goldberg and Dyer, "On-the-fly operation batching in dynamic computation graphs",
2017), of all cells with buckets that are ready the one with the least average depth runs next, with all of these
together. The way with fewer groups is taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class Bucket:
    """Calls of one cell, `use`, of one depth.

    Once all calls are there, `needs` are the buckets that they take values of.
    `args`, `bases` and `places` have for each call the numbers of its inputs and of its first result, and its place.
    `entries` are those of a call's results in the list of all values: kind, depth, bucket.
    """

    __slots__ = ("args", "bases", "depth", "entries", "needs", "places", "use")

    def __init__(self, use: Any, depth: int, kinds: Iterable[Any]) -> None:
        self.use = use
        self.depth = depth
        self.entries = tuple([(kind, depth, self) for kind in kinds])
        self.args: list[tuple[int, ...]] = []
        self.bases: list[int] = []
        self.places: list[Any] = []
        self.needs: set[Any] = set()


Groups = list[list[Bucket]]


def by_agenda(buckets: Iterable[Bucket]) -> Groups:
    """Return buckets that run together, in the order in which they run."""
    users: dict[Bucket, list[Bucket]] = {}
    waiting: dict[Bucket, int] = {}
    depths: dict[Any, int] = {}
    counts: dict[Any, int] = {}
    ready: dict[Any, list[Bucket]] = {}
    for bucket in buckets:
        use, count = bucket.use, len(bucket.args)
        depths[use] = depths.get(use, 0) + bucket.depth * count
        counts[use] = counts.get(use, 0) + count
        waiting[bucket] = len(bucket.needs)
        for needed in bucket.needs:
            users.setdefault(needed, []).append(bucket)
        if not bucket.needs:
            ready.setdefault(use, []).append(bucket)
    groups = []
    while ready:
        use = min(ready, key=lambda u: depths[u] / counts[u])
        group = ready.pop(use)
        groups.append(group)
        for bucket in group:
            depths[use] -= bucket.depth * len(bucket.args)
            counts[use] -= len(bucket.args)
            for user in users.get(bucket, ()):
                waiting[user] -= 1
                if not waiting[user]:
                    ready.setdefault(user.use, []).append(user)
    return groups


def arranged(buckets: Iterable[Bucket]) -> tuple[str, Groups]:
    """Return the name of the better way, and the groups in the order in which they run."""
    levels = sorted(buckets, key=lambda b: b.depth)
    agenda = by_agenda(levels)
    return ("agenda", agenda) if len(agenda) < len(levels) else ("depth", [[bucket] for bucket in levels])
