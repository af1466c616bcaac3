"""The progress bar: rich's where it is installed, else a plain line."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import Any, Protocol, TextIO, TypeVar

T = TypeVar("T")


class _Plain:
    """A progress line, rewritten in place on a terminal and written once at the end elsewhere."""

    def __init__(self, total: int | None, label: str, stream: TextIO, done: int = 0) -> None:
        self._total, self._label, self._stream = total, label, stream
        # A notebook's stream is no terminal, but goes back to the line's beginning as one does.
        self._live = stream.isatty() or type(stream).__module__.startswith("ipykernel.")
        self._started = self._shown = time.monotonic()
        self._done = done
        self._note = ""

    def advance(self) -> None:
        self._done += 1
        now = time.monotonic()
        if self._live and now - self._shown > 0.1:
            self._shown = now
            self._stream.write("\r" + self._line())
            self._stream.flush()

    def note(self, text: str, now: bool = False) -> None:
        self._note = text
        if now and self._live:
            self._stream.write("\r" + self._line())
            self._stream.flush()

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


class Bar(Protocol):
    """A bar that is told how far things are."""

    def advance(self) -> None:
        """Count one more."""

    def note(self, text: str, now: bool = False) -> None:
        """Show a text behind the bar: at once with `now`, else when the bar is drawn next."""

    def close(self) -> None:
        """End the bar, which stays as it is."""


class _Rich:
    """A bar of rich's."""

    def __init__(self, console: Any, done: int, total: int | None, label: str) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}"),
        )
        self._bars = Progress(*columns, console=console)
        self._task = self._bars.add_task(label, total=total, completed=done, note="")
        self._bars.start()

    def advance(self) -> None:
        self._bars.advance(self._task)

    def note(self, text: str, now: bool = False) -> None:
        self._bars.update(self._task, note=text, refresh=now)

    def close(self) -> None:
        self._bars.stop()


def bar(label: str = "", total: int | None = None, done: int = 0) -> Bar:
    """Return a bar on standard error: of rich's where it is installed and can draw one, else a plain line."""
    try:
        from rich.console import Console
    except ImportError:
        return _Plain(total, label, sys.stderr, done)
    console = Console(stderr=True)
    can_draw = console.is_terminal or console.is_jupyter
    return _Rich(console, done, total, label) if can_draw else _Plain(total, label, sys.stderr, done)


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
        shown = bar(self._label, self._total)
        self._note = shown.note
        try:
            for item in self._items:
                yield item
                shown.advance()
        finally:
            shown.close()


def progress(items: Iterable[T], label: str = "", total: int | None = None) -> Progress[T]:
    """Iterate over `items` with a progress bar on standard error.

    rich draws it where it is installed (the `train` extra) and standard error is a terminal;
    otherwise one plain line does.

    >>> import wengert as wg
    >>> sum(wg.train.progress(range(4), "adding"))
    6
    """
    return Progress(items, label, total)
