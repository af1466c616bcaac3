"""The order of deferred calls: which run together, and when.

By *depth*, calls of one cell that are equally far from the values outside run together. By the *agenda* of DyNet
(Neubig, Goldberg and Dyer, "On-the-fly operation batching in dynamic computation graphs", 2017), of all cells with
calls that are ready the one with the least average depth runs next, with all of these. The way with fewer groups is
taken.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

Key = Hashable
Group = list[int]


def by_depth(keys: Sequence[Key], depths: Sequence[int]) -> list[Group]:
    """Return calls by their depths and keys."""
    found: dict[tuple[int, Key], Group] = {}
    for i, place in enumerate(zip(depths, keys)):
        group = found.get(place)
        if group is None:
            found[place] = [i]
        else:
            group.append(i)
    return [found[place] for place in sorted(found, key=lambda p: p[0])]


def by_agenda(keys: Sequence[Key], depths: Sequence[int], needs: Sequence[Sequence[int]]) -> list[Group]:
    """Return calls by what is ready; `needs` are the calls, of smaller numbers, that each call takes values of."""
    users: list[list[int]] = [[] for _ in keys]
    waiting = [0] * len(keys)
    total: dict[Key, int] = {}
    left: dict[Key, int] = {}
    ready: dict[Key, Group] = {}
    for i, (key, needed) in enumerate(zip(keys, needs)):
        total[key] = total.get(key, 0) + depths[i]
        left[key] = left.get(key, 0) + 1
        if needed:
            waiting[i] = len(needed)
            for j in needed:
                users[j].append(i)
        else:
            ready.setdefault(key, []).append(i)
    groups = []
    while ready:
        key = min(ready, key=lambda k: total[k] / left[k])
        group = ready.pop(key)
        groups.append(group)
        left[key] -= len(group)
        for i in group:
            total[key] -= depths[i]
            for user in users[i]:
                waiting[user] -= 1
                if not waiting[user]:
                    ready.setdefault(keys[user], []).append(user)
    return groups


def groups(keys: Sequence[Key], depths: Sequence[int], needs: Sequence[Sequence[int]]) -> tuple[str, list[Group]]:
    """Return the name of the better way, and the groups of calls in the order in which they run."""
    levels = by_depth(keys, depths)
    # No way has fewer groups than keys.
    if len(levels) == len(set(keys)):
        return "depth", levels
    agenda = by_agenda(keys, depths, needs)
    return ("depth", levels) if len(levels) <= len(agenda) else ("agenda", agenda)
