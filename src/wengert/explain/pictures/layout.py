"""A layered layout of boxes and arrows: the row of each box, its order in the row, its place.

After Sugiyama, Tagawa and Toda (1981): rows by longest path, tightened; arrows over several rows
run through a trunk of points that all arrows of one source share; the order within rows by
barycentres and swaps; places by Brandes and Köpf (2001). Sizes and places are `(across, along)`:
along the flow and across it, so that one layout serves both directions.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from typing import NamedTuple

Point = tuple[float, float]

BOX_GAP = 26.0
LINE_GAP = 16.0
ROW_GAP = 36.0
_LINE_WIDTH = 6.0
_SWEEPS = 24
# Where more points than this are to be ordered, swaps of neighbours cost more than they show.
_SWAP_LIMIT = 4000
_POINT_LIMIT = 30_000
# Ends of arrows at one box keep this distance, and this one from the box's corners.
_PORT_GAP = 16.0
_CORNER = 9.0


class Arrow(NamedTuple):
    """An arrow from a box to a later one; those into one box are in the order of its operands."""

    source: int
    target: int


class Layout(NamedTuple):
    """A layout: the boxes' centres, the arrows' points, and the size of it all.

    Of the arrows of one source the longest begins at the source, the others where they leave it.
    """

    centres: list[Point]
    routes: list[list[Point]]
    across: float
    along: float


class _Points:
    """The boxes, then the points that lead long arrows through the rows, and the lines between them."""

    def __init__(self, ranks: Sequence[int], arrows: Sequence[Arrow]) -> None:
        self.boxes = len(ranks)
        self.rank = list(ranks)
        self.above: list[list[int]] = [[] for _ in ranks]
        # Downward lines carry the place of their end among the lower box's operands, in (-0.5, 0.5).
        self.below: list[list[tuple[int, float]]] = [[] for _ in ranks]
        self.chains: list[list[int]] = []
        self._add_lines(arrows)
        self.rows: list[list[int]] = [[] for _ in range(max(self.rank, default=-1) + 1)]

    def _add_lines(self, arrows: Sequence[Arrow]) -> None:
        trunks: dict[int, list[int]] = {}
        count, seen = _fan_in(self.boxes, arrows), [0] * self.boxes
        for source, target in arrows:
            trunk = trunks.setdefault(source, [source])
            steps = self.rank[target] - self.rank[source]
            while len(trunk) < steps:
                trunk.append(self._add_point(trunk[-1]))
            place = (seen[target] + 0.5) / count[target] - 0.5
            seen[target] += 1
            self._add_line(trunk[steps - 1], target, place)
            self.chains.append([*trunk[:steps], target])

    def _add_point(self, over: int) -> int:
        point = len(self.rank)
        self.rank.append(self.rank[over] + 1)
        self.above.append([])
        self.below.append([])
        self._add_line(over, point, 0.0)
        return point

    def _add_line(self, upper: int, lower: int, place: float) -> None:
        self.above[lower].append(upper)
        self.below[upper].append((lower, place))

    def is_point(self, vertex: int) -> bool:
        return vertex >= self.boxes


def place(sizes: Sequence[Point], arrows: Sequence[Arrow]) -> Layout:
    """Lay out boxes of the given sizes; every arrow leads to a box of a higher index.

    The same input gives the same layout. No two boxes overlap.
    """
    if not sizes:
        return Layout([], [], 0.0, 0.0)
    points = _Points(_ranks(len(sizes), arrows), arrows)
    _order(points)
    widths = [w for w, _ in sizes] + [_LINE_WIDTH] * (len(points.rank) - len(sizes))
    across = _across(points, widths, _spine_of(points, arrows))
    along, depths = _along(points, sizes, across)
    centres = [(across[v], along[points.rank[v]]) for v in range(len(sizes))]
    routes = _routes(points, sizes, across, along, depths, arrows)
    return Layout(centres, routes, max(x + w / 2 for x, w in zip(across, widths)), along[-1] + depths[-1] / 2)


def _fan_in(count: int, arrows: Iterable[Arrow]) -> list[int]:
    out = [0] * count
    for arrow in arrows:
        out[arrow.target] += 1
    return out


# -- rows


def _ranks(count: int, arrows: Sequence[Arrow]) -> list[int]:
    """Return a row for every box: below all that it takes, near to what takes it; many last boxes fill several."""
    above: list[set[int]] = [set() for _ in range(count)]
    below: list[set[int]] = [set() for _ in range(count)]
    for source, target in arrows:
        above[target].add(source)
        below[source].add(target)
    limit = max(12, int(2 * math.sqrt(count)))
    ends: dict[int, int] = {}
    rank = [0] * count
    for v in range(count):
        rank[v] = 1 + max((rank[u] for u in above[v]), default=-1)
        if not below[v]:
            while ends.get(rank[v], 0) >= limit:
                rank[v] += 1
            ends[rank[v]] = ends.get(rank[v], 0) + 1
    for _ in range(4):
        if not _tighten(rank, above, below):
            break
    return _without_gaps(rank)


def _tighten(rank: list[int], above: Sequence[set[int]], below: Sequence[set[int]]) -> bool:
    """Move boxes down to what takes them where that does not lengthen more lines than it shortens."""
    moved = False
    for v in range(len(rank) - 1, -1, -1):
        if below[v]:
            lengthened = sum(1 for u in above[v] if max(rank[w] for w in below[u]) == rank[v])
            row = min(rank[w] for w in below[v]) - 1
            if lengthened <= 1 and row > rank[v]:
                rank[v] = row
                moved = True
    return moved


def _without_gaps(rank: Sequence[int]) -> list[int]:
    used = {row: i for i, row in enumerate(sorted(set(rank)))}
    return [used[row] for row in rank]


# -- the order within rows


def _order(points: _Points) -> None:
    """Fill `points.rows` with few crossings between neighbouring rows."""
    _first_order(points)
    position = _positions(points.rows)
    best = [list(row) for row in points.rows]
    fewest = _crossings(points, position)
    swapping = len(points.rank) <= _SWAP_LIMIT
    sweeps = _SWEEPS if swapping else 4 if len(points.rank) <= _POINT_LIMIT else 1
    stale = 0
    for sweep in range(sweeps):
        if fewest == 0 or stale == 6:
            break
        _sweep(points, position, downward=sweep % 2 == 0)
        if swapping:
            _swap(points, position)
        crossings = _crossings(points, position)
        stale += 1
        if crossings < fewest:
            fewest, stale = crossings, 0
            best = [list(row) for row in points.rows]
    points.rows = best


def _first_order(points: _Points) -> None:
    """Order operands from left to right, from the last boxes up."""
    seen = [False] * len(points.rank)
    ends = [v for v in range(points.boxes) if not points.below[v]]
    for end in ends:
        stack = [end]
        while stack:
            v = stack.pop()
            if not seen[v]:
                seen[v] = True
                points.rows[points.rank[v]].append(v)
                stack.extend(reversed(points.above[v]))


def _positions(rows: Sequence[Sequence[int]]) -> list[int]:
    position = [0] * sum(map(len, rows))
    for row in rows:
        for i, v in enumerate(row):
            position[v] = i
    return position


def _sweep(points: _Points, position: list[int], downward: bool) -> None:
    rows = points.rows
    for row in rows if downward else reversed(rows):
        keyed = []
        for v in row:
            if downward:
                ends = [float(position[u]) for u in points.above[v]]
            else:
                ends = [position[w] + place for w, place in points.below[v]]
            if ends:
                keyed.append((sum(ends) / len(ends), position[v], v))
        keyed.sort()
        moving = iter(keyed)
        free = {v for _, _, v in keyed}
        row[:] = [next(moving)[2] if v in free else v for v in row]
        for i, v in enumerate(row):
            position[v] = i


def _swap(points: _Points, position: list[int]) -> None:
    """Swap neighbours while that takes crossings away."""
    for _ in range(4):
        improved = False
        for row in points.rows:
            for i in range(len(row) - 1):
                v, w = row[i], row[i + 1]
                if _swap_gain(points, position, v, w) > 0:
                    row[i], row[i + 1] = w, v
                    position[v], position[w] = i + 1, i
                    improved = True
        if not improved:
            return


def _swap_gain(points: _Points, position: Sequence[int], v: int, w: int) -> int:
    """Return how many crossings fewer there are with `w` left of `v`."""
    gain = 0
    for a in points.above[v]:
        for b in points.above[w]:
            gain += (position[a] > position[b]) - (position[a] < position[b])
    for lower, p in points.below[v]:
        for other, q in points.below[w]:
            left, right = position[lower] + p, position[other] + q
            gain += (left > right) - (left < right)
    return gain


def _crossings(points: _Points, position: Sequence[int]) -> int:
    total = 0
    for row in points.rows:
        seen: list[float] = []
        for v in row:
            ends = sorted(position[w] + place for w, place in points.below[v])
            total += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return total


# -- places across the flow


def _across(points: _Points, widths: Sequence[float], spine: _Spine) -> list[float]:
    """Return the centre of every box and point: the mean of the middle two of four extreme alignments."""
    conflicts = _conflicts(points)
    runs = []
    for near in (spine.above, spine.below):
        for leftward in (True, False):
            rows = points.rows if near is spine.above else points.rows[::-1]
            run = _aligned(points, rows if leftward else [row[::-1] for row in rows], near, widths, conflicts)
            runs.append(run if leftward else [-x for x in run])
    spans = [_span(run, widths) for run in runs]
    narrow = min(range(4), key=lambda i: (spans[i][1] - spans[i][0], i))
    for i, run in enumerate(runs):
        # Runs to the left share their left edge with the narrowest one, runs to the right their right.
        side = i % 2
        shift = spans[narrow][side] - spans[i][side]
        runs[i] = [x + shift for x in run]
    places = [sum(sorted(four)[1:3]) / 2 for four in zip(*runs)]
    _settle(points, widths, spine, places)
    left = _span(places, widths)[0]
    return [x - left for x in places]


class _Spine(NamedTuple):
    """The lines that are to be straight: for every vertex its partners above and below.

    An operation stands below the operand that most was computed for, a value above the operation
    that most follows from; side branches depend on these.
    """

    above: list[list[int]]
    below: list[list[int]]


def _spine_of(points: _Points, arrows: Sequence[Arrow]) -> _Spine:
    weight, height = _weights(points, arrows), _heights(points, arrows)
    size = len(points.rank)
    heaviest: list[set[int]] = [set() for _ in range(size)]
    for v, above in enumerate(points.above):
        most = max((weight[u] for u in above), default=(0, 0.0))
        heaviest[v] = {u for u in above if weight[u] == most}
    spine = _Spine([[] for _ in range(size)], [[] for _ in range(size)])
    for u, below in enumerate(points.below):
        following = [w for w in dict.fromkeys(w for w, _ in below) if u in heaviest[w]]
        # A trunk goes on straight, whatever branches off; at a box it gives way to an operation.
        kept = [w for w in following if points.is_point(w) == points.is_point(u)] or following
        most_left = max((height[w] for w in kept), default=0)
        for w in kept:
            if height[w] == most_left:
                spine.below[u].append(w)
                spine.above[w].append(u)
    return spine


def _weights(points: _Points, arrows: Sequence[Arrow]) -> list[tuple[int, float]]:
    """Return how long the longest way to every vertex is, and about how much it was computed from."""
    above: list[set[int]] = [set() for _ in range(points.boxes)]
    for source, target in arrows:
        above[target].add(source)
    out: list[tuple[int, float]] = []
    for sources in above:
        depth = 1 + max((out[u][0] for u in sources), default=-1)
        out.append((depth, min(1.0 + sum(out[u][1] for u in sources), 1e12)))
    out += [(0, 0.0)] * (len(points.rank) - points.boxes)
    for chain in points.chains:
        for v in chain[1:-1]:
            out[v] = out[chain[0]]
    return out


def _heights(points: _Points, arrows: Sequence[Arrow]) -> list[int]:
    """Return how long the longest way from every box on is; 0 for points."""
    out = [0] * len(points.rank)
    for source, target in sorted(arrows, reverse=True):
        out[source] = max(out[source], out[target] + 1)
    return out


def _settle(points: _Points, widths: Sequence[float], spine: _Spine, places: list[float]) -> None:
    """Move side branches, within the room that they have, towards what they depend on."""
    loose = [False] * len(places)
    for row in reversed(points.rows):
        for i, v in enumerate(row):
            users = points.below[v]
            if len(users) != 1 or points.is_point(v):
                continue
            user, place = users[0]
            branch = user not in spine.below[v]
            loose[v] = branch or loose[user]
            if loose[v]:
                wanted = places[user] + (place * widths[user] if branch else 0.0)
                fixed = [places[u] for u in points.above[v] if points.is_point(u) or len(points.below[u]) > 1]
                _move(points, widths, places, row, i, (wanted + sum(fixed)) / (1 + len(fixed)))
    for row in points.rows:
        for i, v in enumerate(row):
            if not points.below[v] and points.above[v] and not spine.above[v]:
                sources = points.above[v]
                _move(points, widths, places, row, i, sum(places[u] for u in sources) / len(sources))


def _move(
    points: _Points, widths: Sequence[float], places: list[float], row: Sequence[int], i: int, wanted: float
) -> None:
    v = row[i]
    if i > 0:
        wanted = max(wanted, places[row[i - 1]] + _distance(points, widths, row[i - 1], v))
    if i + 1 < len(row):
        wanted = min(wanted, places[row[i + 1]] - _distance(points, widths, v, row[i + 1]))
    places[v] = wanted


def _distance(points: _Points, widths: Sequence[float], v: int, w: int) -> float:
    """Return the least distance of the centres of two neighbours."""
    gap = LINE_GAP if points.is_point(v) or points.is_point(w) else BOX_GAP
    return (widths[v] + widths[w]) / 2 + gap


def _span(places: Sequence[float], widths: Sequence[float]) -> tuple[float, float]:
    left = min(x - w / 2 for x, w in zip(places, widths))
    return left, max(x + w / 2 for x, w in zip(places, widths))


def _conflicts(points: _Points) -> set[tuple[int, int]]:
    """Return the lines (upper, lower) that cross a trunk: they yield to it, so that trunks stay straight."""
    out: set[tuple[int, int]] = set()
    position = _positions(points.rows)
    for upper, row in zip(points.rows, points.rows[1:]):
        start, left = 0, 0
        for i, v in enumerate(row):
            trunk = points.above[v][0] if points.is_point(v) and points.is_point(points.above[v][0]) else None
            if trunk is None and i + 1 < len(row):
                continue
            right = position[trunk] if trunk is not None else len(upper)
            for w in row[start : i + 1]:
                for u in points.above[w]:
                    inner = points.is_point(u) and points.is_point(w)
                    if not inner and not left <= position[u] <= right:
                        out.add((u, w))
            start, left = i + 1, right
    return out


def _aligned(
    points: _Points,
    rows: Sequence[Sequence[int]],
    near: Sequence[Sequence[int]],
    widths: Sequence[float],
    conflicts: set[tuple[int, int]],
) -> list[float]:
    """Return places with everything aligned to the middle one of `near` in the row before, packed to the left."""
    return _packed(points, rows, _blocks(rows, near, conflicts), widths)


def _blocks(rows: Sequence[Sequence[int]], near: Sequence[Sequence[int]], conflicts: set[tuple[int, int]]) -> list[int]:
    """Return for every vertex the first one of the straight line that it stands in."""
    position = _positions(rows)
    root = list(range(len(position)))
    taken = [False] * len(position)
    for row in rows:
        last = -1
        for v in row:
            partners = sorted(near[v], key=position.__getitem__)
            middle = (len(partners) - 1) / 2
            for i in dict.fromkeys((math.floor(middle), math.ceil(middle))) if partners else ():
                u = partners[i]
                crossing = (u, v) in conflicts or (v, u) in conflicts
                if root[v] == v and not taken[u] and last < position[u] and not crossing:
                    root[v] = root[u]
                    taken[u] = True
                    last = position[u]
    return root


def _packed(
    points: _Points, rows: Sequence[Sequence[int]], root: Sequence[int], widths: Sequence[float]
) -> list[float]:
    """Return the leftmost place of every line, then as near to its right neighbour as that allows."""
    gaps: dict[tuple[int, int], float] = {}
    for row in rows:
        for v, w in itertools.pairwise(row):
            key = root[v], root[w]
            gaps[key] = max(gaps.get(key, 0.0), _distance(points, widths, v, w))
    right: dict[int, list[tuple[int, float]]] = {}
    waiting = dict.fromkeys(root, 0)
    for (v, w), gap in gaps.items():
        right.setdefault(v, []).append((w, gap))
        waiting[w] += 1
    place = dict.fromkeys(waiting, 0.0)
    order = [v for v, count in waiting.items() if count == 0]
    for v in order:
        for w, gap in right.get(v, ()):
            place[w] = max(place[w], place[v] + gap)
            waiting[w] -= 1
            if waiting[w] == 0:
                order.append(w)
    for v in reversed(order):
        if v in right:
            place[v] = max(place[v], min(place[w] - gap for w, gap in right[v]))
    return [place[r] for r in root]


# -- places along the flow, and the arrows


def _along(points: _Points, sizes: Sequence[Point], across: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return the centre and depth of every row; rows between which lines run far across are further apart."""
    centres, depths = [], []
    edge = 0.0
    for row in points.rows:
        depth = max((sizes[v][1] for v in row if not points.is_point(v)), default=0.0)
        centres.append(edge + depth / 2)
        depths.append(depth)
        reach = max((abs(across[v] - across[w]) for v in row for w, _ in points.below[v]), default=0.0)
        edge += depth + ROW_GAP + min(48.0, reach * 0.05)
    return centres, depths


def _routes(
    points: _Points,
    sizes: Sequence[Point],
    across: Sequence[float],
    along: Sequence[float],
    depths: Sequence[float],
    arrows: Sequence[Arrow],
) -> list[list[Point]]:
    ports = _ports(points, sizes, across, arrows)
    longest: dict[int, int] = {}
    for i, chain in enumerate(points.chains):
        if len(chain) > len(points.chains[longest.setdefault(chain[0], i)]):
            longest[chain[0]] = i
    routes = []
    for i, (chain, port) in enumerate(zip(points.chains, ports)):
        source, target = chain[0], chain[-1]
        route = [(across[source], along[points.rank[source]] + sizes[source][1] / 2)]
        for v in chain[1:-1]:
            row = points.rank[v]
            # Straight through the row, so that the curve keeps off the boxes beside it.
            route += [(across[v], along[row] - depths[row] / 2), (across[v], along[row] + depths[row] / 2)]
        if longest[source] != i:
            route = route[-1:]  # another arrow draws the trunk up to here
        route.append((port, along[points.rank[target]] - sizes[target][1] / 2))
        routes.append(route)
    return routes


def _ports(points: _Points, sizes: Sequence[Point], across: Sequence[float], arrows: Sequence[Arrow]) -> list[float]:
    """Return where each arrow ends: below its origin, in the order of the operands."""
    incoming: dict[int, list[int]] = {}
    for i, arrow in enumerate(arrows):
        incoming.setdefault(arrow.target, []).append(i)
    out = [0.0] * len(arrows)
    for target, ends in incoming.items():
        centre, room = across[target], max(sizes[target][0] / 2 - _CORNER, 0.0)
        wanted = [across[points.chains[i][-2]] for i in ends]
        for i, x in zip(ends, _spread(wanted, centre - room, centre + room, centre)):
            out[i] = x
    return out


def _spread(wanted: Sequence[float], low: float, high: float, centre: float) -> list[float]:
    """Return increasing places near the wanted ones, at equal least distances, between `low` and `high`.

    Least squares by pooling neighbours that want to be closer; what comes straight down weighs most.
    """
    # A few ends leave room for the first or last of them to be in the middle.
    room = (high - low) / 2 if len(wanted) <= 3 else high - low
    gap = min(_PORT_GAP, room / max(len(wanted) - 1, 1))
    pools: list[tuple[float, float, int]] = []  # mean, weight, count
    for i, x in enumerate(wanted):
        weight = 50.0 if abs(x - centre) < 1.0 else 1.0
        pool = (min(max(x, low), high) - i * gap, weight, 1)
        while pools and pools[-1][0] > pool[0]:
            mean, mass, count = pools.pop()
            total = mass + pool[1]
            pool = ((mean * mass + pool[0] * pool[1]) / total, total, count + pool[2])
        pools.append(pool)
    last = high - (len(wanted) - 1) * gap
    flat = [min(max(mean, low), last) for mean, _, count in pools for _ in range(count)]
    return [x + i * gap for i, x in enumerate(flat)]
