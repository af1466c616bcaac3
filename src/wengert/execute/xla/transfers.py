"""The transfers of a call of a program of XLA's: arrays moved between the host and the device."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Transfers:
    """The arrays that a call moved to the device and off it, and those that were there already.

    `moved` holds the names of inputs that were copied, `kept` of those that were found where a call before had left
    them; `brought` counts the bytes copied, `returned` those that results took to the host. On a CPU results are read
    where they are. `on_host` names operations for which the program calls Python.

    >>> from wengert.execute.xla.transfers import Transfers
    >>> print(Transfers("cpu:0", ("x",), ("w",), 12, 0, ()))
    cpu:0: 1 input was there, 1 was copied (12 bytes): x; results copied back: 0 bytes
    """

    device: str
    moved: tuple[str, ...]
    kept: tuple[str, ...]
    brought: int
    returned: int
    on_host: tuple[str, ...] = ()

    def __str__(self) -> str:
        moved = f": {', '.join(self.moved)}" if self.moved else ""
        called = f"; in Python: {', '.join(self.on_host)}" if self.on_host else ""
        there, copied = len(self.kept), len(self.moved)
        return (
            f"{self.device}: {there} input{' was' if there == 1 else 's were'} there, "
            f"{copied} {'was' if copied == 1 else 'were'} copied ({self.brought} bytes){moved}; "
            f"results copied back: {self.returned} bytes{called}"
        )
