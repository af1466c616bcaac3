"""Records of kernels: words accessed by name."""

from __future__ import annotations

from ..codegen.builder import Builder, Value
from .plan import View


class Record:
    """The layout of a record: names in order, a buffer's marked with `*`.

    >>> Record("*x n").end
    3
    """

    def __init__(self, names: str) -> None:
        self.places: dict[str, int] = {}
        self._buffers: set[str] = set()
        self.end = 0
        for name in names.split():
            plain = name.removeprefix("*")
            self.places[plain] = self.end
            self.end += 1 + (plain != name)
            if plain != name:
                self._buffers.add(plain)

    def load(self, b: Builder) -> dict[str, Value]:
        """Return the values in a kernel: pointers of the buffers, words of the rest."""
        return {n: b.buffer(at) if n in self._buffers else b.word(at) for n, at in self.places.items()}

    def words(self, **given: int | View) -> list[int | View]:
        """Return the words of a step; every name has to be given."""
        if given.keys() != self.places.keys():
            raise TypeError(f"a record of {sorted(self.places)} was given {sorted(given)}")
        return [given[name] for name in self.places]
