"""PyTensor's functions compiled by Wengert: importing this registers the linker "wengert" and the mode "WENGERT".

    import pytensor, wengert.interop.pytensor

    f = pytensor.function([x], y, mode="WENGERT")   # for a single function
    pytensor.config.mode = "WENGERT"                # for all

Needs PyTensor, an extra.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

from pytensor import config
from pytensor.compile.mode import Mode, predefined_linkers, predefined_modes, register_linker, register_mode
from pytensor.configparser import ConfigParam

from ...core.errors import stands_between
from .convert import NoRuleError, funcify
from .linker import QUERY, Converted, WengertLinker, why_not


def _name_mode() -> None:
    """Let PyTensor's configuration take the mode's name: it asks a list of its own, not the registered modes."""
    given, chosen = type(config).mode, config.mode

    def mode_of(value: Any) -> Any:
        return value if value == "WENGERT" else given.apply(value)

    config.add("mode", given.doc, ConfigParam(chosen, apply=mode_of), in_c_key=given.in_c_key)
    config.mode = chosen  # not what a file of settings says, which adding has read again


for _name in ("pytensor", "pymc", "nutpie"):
    if (_found := find_spec(_name)) is not None and _found.origin:
        stands_between(os.path.dirname(os.path.abspath(_found.origin)))
if "wengert" not in predefined_linkers:
    register_linker("wengert", WengertLinker())
if "WENGERT" not in predefined_modes:
    register_mode("WENGERT", Mode(WengertLinker(), QUERY))
    _name_mode()
MODE = predefined_modes["WENGERT"]

__all__ = ["MODE", "Converted", "NoRuleError", "WengertLinker", "funcify", "why_not"]
