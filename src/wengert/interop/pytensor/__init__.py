"""PyTensor's functions compiled by Wengert: importing this registers the linker "wengert" and the mode "WENGERT".

    import pytensor, wengert.interop.pytensor
    pytensor.config.mode = "WENGERT"

Needs PyTensor, an extra.
"""

from __future__ import annotations

from pytensor.compile.mode import Mode, predefined_linkers, predefined_modes, register_linker, register_mode

from .convert import NoRuleError, funcify
from .linker import QUERY, Converted, WengertLinker, why_not

if "wengert" not in predefined_linkers:
    register_linker("wengert", WengertLinker())
if "WENGERT" not in predefined_modes:
    register_mode("WENGERT", Mode(WengertLinker(), QUERY))

__all__ = ["Converted", "NoRuleError", "WengertLinker", "funcify", "why_not"]
