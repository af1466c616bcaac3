"""`wg`: the names of `wengert`, and PyTorch's spellings beside them, for programs that write both."""

from __future__ import annotations

from typing import Any

import wengert


class Both:
    """A namespace of `wengert`'s names with their own meaning, then of `wengert.torch`'s."""

    def __getattr__(self, name: str) -> Any:
        return getattr(wengert if name in wengert.__all__ else wengert.torch, name)


wg: Any = Both()
