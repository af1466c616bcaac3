"""The order of a plan's blocks: what frees memory runs as early as it can.

A backward pass may make all gradients of activations first, by the order of its results, and then those of the
parameters, for which it keeps everything. Here a few blocks come forward whenever they leave less memory in use than
before: a parameter's gradient, and its update, right after the last value that they read.
"""

from __future__ import annotations

from collections.abc import Sequence

from .blocks import Blocks

# The most blocks that come forward together.
_TOGETHER = 8


def dependencies(blocks: Blocks) -> list[list[int]]:
    """Return for each block those that have to run before it: writers before readers, and readers before writers.

    What has effects keeps its order, and stays before what writes over an input, which cannot be undone after an error.
    """
    needs: list[dict[int, None]] = [{} for _ in blocks.blocks]
    writers: dict[object, int] = {}
    readers: dict[object, list[int]] = {}
    effects: list[int] = []
    for i, block in enumerate(blocks.blocks):
        read: list[object] = [*block.reads, *block.inputs]
        written: list[object] = [*block.writes, *block.changes]
        for thing in (*read, *written):
            if thing in writers:
                needs[i][writers[thing]] = None
        for thing in written:
            needs[i].update((r, None) for r in readers.pop(thing, ()) if r != i)
            writers[thing] = i
        for thing in read:
            readers.setdefault(thing, []).append(i)
        if block.has_effects:
            if effects:
                needs[i][effects[-1]] = None
            effects.append(i)
        elif block.changes and effects:
            needs[i][effects[-1]] = None
    return [list(n) for n in needs]


def frugal(blocks: Blocks) -> list[int]:
    """Return the blocks in an order in which what frees memory comes early."""
    return _Frugal(blocks).order()


class _Frugal:
    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks
        self.needs = dependencies(blocks)
        self.done = [False] * len(blocks.blocks)
        # The readers and writers of each value that have not run.
        self.left = [len({*w, *r}) for w, r in zip(blocks.writers, blocks.readers, strict=True)]
        self.found: list[int] = []

    def order(self) -> list[int]:
        for i in range(len(self.done)):
            if not self.done[i]:
                self._run([i])
        return self.found

    def _run(self, together: Sequence[int]) -> None:
        todo = list(together)
        while todo:
            touched: dict[int, None] = {}
            for i in todo:
                self.done[i] = True
                self.found.append(i)
                block = self.blocks.blocks[i]
                for v in dict.fromkeys((*block.reads, *block.writes)):
                    self.left[v] -= 1
                    touched[v] = None
            todo = self._freeing(touched)

    def _freeing(self, touched: dict[int, None]) -> list[int]:
        """Return blocks that leave less memory in use, among the readers of values that others have just touched."""
        seen: set[int] = set()
        best: tuple[int, list[int]] = (0, [])
        for v in touched:
            for i in self.blocks.readers[v]:
                if self.done[i] or i in seen:
                    continue
                seen.add(i)
                together = self._with_needs(i)
                if together is not None:
                    best = min(best, (self._change(together), together))
        return best[1]

    def _with_needs(self, i: int) -> list[int] | None:
        """Return a block and all that has to run before it, in order; None where that is too much."""
        found = {i}
        stack = [i]
        while stack:
            for n in self.needs[stack.pop()]:
                if not self.done[n] and n not in found:
                    if len(found) == _TOGETHER:
                        return None
                    found.add(n)
                    stack.append(n)
        return sorted(found)

    def _change(self, together: Sequence[int]) -> int:
        """Return by how many bytes more is in use after some blocks than before them."""
        uses: dict[int, int] = {}
        born: set[int] = set()
        for i in together:
            block = self.blocks.blocks[i]
            for v in dict.fromkeys((*block.reads, *block.writes)):
                uses[v] = uses.get(v, 0) + 1
            born.update(v for v in block.writes if not any(self.done[w] for w in self.blocks.writers[v]))
        change = 0
        for v, count in uses.items():
            size = self.blocks.sizes[v]
            if v in born:
                change += size
            if count == self.left[v] and v not in self.blocks.pinned:
                change -= size
        return change


def peak(blocks: Blocks, order: Sequence[int]) -> int:
    """Return the most bytes of values that are in use at one time."""
    left = [len({*w, *r}) for w, r in zip(blocks.writers, blocks.readers, strict=True)]
    here: set[int] = set()
    used = most = 0
    for i in order:
        block = blocks.blocks[i]
        for v in block.writes:
            if v not in here:
                here.add(v)
                used += blocks.sizes[v]
        most = max(most, used + block.held)
        for v in dict.fromkeys((*block.reads, *block.writes)):
            left[v] -= 1
            if not left[v] and v in here and v not in blocks.pinned:
                here.discard(v)
                used -= blocks.sizes[v]
    return most
