"""The progress bar: rich's where it is installed, else a plain line."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import Any, TextIO, TypeVar

T = TypeVar("T")


class _Plain:
    """A progress line, rewritten in place on a terminal and written once at the end elsewhere."""

    def __init__(self, total: int | None, label: str, stream: TextIO) -> None:
        self._total, self._label, self._stream = total, label, stream
        self._live = stream.isatty()
        self._started = self._shown = time.monotonic()
        self._done = 0
        self._note = ""

    def advance(self) -> None:
        self._done += 1
        now = time.monotonic()
        if self._live and now - self._shown > 0.1:
            self._shown = now
            self._stream.write("\r" + self._line())
            self._stream.flush()

    def note(self, text: str) -> None:
        self._note = text

    def close(self) -> None:
        self._stream.write(("\r" if self._live else "") + self._line() + "\n")
        self._stream.flush()

    def _line(self) -> str:
        seconds = time.monotonic() - self._started
        if self._total:
            filled = 24 * self._done // self._total
            bar = "#" * filled + "." * (24 - filled)
            return f"{self._label} [{bar}] {self._done}/{self._total}  {seconds:.1f} s  {self._note}"
        return f"{self._label} {self._done}  {seconds:.1f} s  {self._note}"


class Progress(Iterable[T]):
    """An iterator over `items` that shows its progress; `note("loss 0.12")` sets the text behind the bar."""

    def __init__(self, items: Iterable[T], label: str = "", total: int | None = None) -> None:
        self._items = items
        self._label = label
        self._total = total if total is not None else len(items) if isinstance(items, Sized) else None
        self._note: Any = lambda text: None

    def note(self, text: str) -> None:
        """Show `text` behind the bar."""
        self._note(text)

    def __iter__(self) -> Iterator[T]:
        try:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bars
        except ImportError:
            yield from self._iterate_plain()
            return
        console = Console(stderr=True)
        if not console.is_terminal:
            yield from self._iterate_plain()
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}"),
        )
        with Bars(*columns, console=console) as bars:
            task = bars.add_task(self._label, total=self._total, note="")
            self._note = lambda text: bars.update(task, note=text)
            for item in self._items:
                yield item
                bars.advance(task)

    def _iterate_plain(self) -> Iterator[T]:
        bar = _Plain(self._total, self._label, sys.stderr)
        self._note = bar.note
        try:
            for item in self._items:
                yield item
                bar.advance()
        finally:
            bar.close()


def progress(items: Iterable[T], label: str = "", total: int | None = None) -> Progress[T]:
    """Iterate over `items` with a progress bar on standard error.

    rich draws it where it is installed (the `train` extra) and standard error is a terminal;
    otherwise one plain line does.

    >>> import wengert as wg
    >>> sum(wg.train.progress(range(4), "adding"))
    6
    """
    return Progress(items, label, total)
