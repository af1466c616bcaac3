"""The process that makes an object: modules of LLVM's come in on standard input, an object goes out on standard output.

It is started as a script, and imports nothing of Wengert. An error that LLVM ends a process for ends this one alone.

In: JSON, {"triple", "cpu", "features", "reloc", "modules": [text, ...], "keep": [name, ...]}. All modules become one
object, in which functions are internal but for those to `keep`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from llvmlite import binding


def emit(job: dict[str, Any]) -> bytes:
    """Return the object."""
    target = binding.Target.from_triple(job["triple"])
    machine = target.create_target_machine(
        cpu=job["cpu"], features=job["features"], opt=2, reloc=job["reloc"], codemodel="default"
    )
    layout, whole = str(machine.target_data), None
    for text in job["modules"]:
        module = binding.parse_assembly(text)
        module.data_layout = layout
        if whole is None:
            whole = module
        else:
            whole.link_in(module)
    assert whole is not None
    kept = {*job["keep"]}
    for value in (*whole.functions, *whole.global_variables):
        if not value.is_declaration and value.name not in kept and value.linkage == binding.Linkage.external:
            value.linkage = "internal"
    whole.verify()
    code: bytes = machine.emit_object(whole)
    return code


def main() -> None:
    """Make what is asked for."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    # As in code that runs here: see machine.py of the compiler.
    binding.set_option("", "-sink-insts-to-avoid-spills=true")
    sys.stdout.buffer.write(emit(json.load(sys.stdin)))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
