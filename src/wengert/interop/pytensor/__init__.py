"""PyTensor's functions compiled by Wengert: importing this registers the linker "wengert" and the mode "WENGERT".

    import pytensor, wengert.interop.pytensor

    f = pytensor.function([x], y, mode="WENGERT")          # for a single function
    pytensor.config.mode = wengert.interop.pytensor.MODE   # for all

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
# The mode; PyTensor's configuration takes no names but its own.
MODE = predefined_modes["WENGERT"]

__all__ = ["MODE", "Converted", "NoRuleError", "WengertLinker", "funcify", "why_not"]
