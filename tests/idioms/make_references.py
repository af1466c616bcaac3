"""Write references.json: the trajectories that the programs of this folder take under PyTorch.

    cd tests; python -m idioms.make_references [program ...]

needs torch; with names only those programs are run anew, the others kept. The programs are read again with PyTorch in
the place of Wengert. Random numbers still come from Wengert's generator, so that both see the same ones.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import sys
import types
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

import wengert
import wengert.nn.functional

HERE = Path(__file__).parent


class StandIn(ModuleType):
    """What `import wengert` finds instead: PyTorch, but for its random numbers."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


def drawn(fn: Any) -> Any:
    def draw(*args: Any, **options: Any) -> Any:
        given = [wengert.asarray(a.detach().numpy()) if isinstance(a, torch.Tensor) else a for a in args]
        return torch.from_numpy(np.array(fn(*given, **options)))

    return draw


def dropout(x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    return x * torch.from_numpy(np.array(wengert.nn.functional.dropout(wengert.ones(tuple(x.shape)), p, training)))


def trajectories(names: list[str]) -> dict[str, dict[str, list[float]]]:
    here = StandIn("wengert")
    for name in ("rand", "randn", "rand_like", "randn_like", "randint", "randperm", "bernoulli", "multinomial"):
        setattr(here, name, drawn(getattr(wengert.torch, name)))
    for name in ("manual_seed", "get_rng_state", "set_rng_state"):
        setattr(here, name, getattr(wengert.torch, name))
    torch.nn.functional.dropout = dropout
    torch.set_default_dtype(torch.float64)
    wengert.set_default_dtype(wengert.float64)
    for name in [n for n in sys.modules if n.startswith("idioms.") and n != __name__]:
        del sys.modules[name]
    here.torch = here
    both: Any = types.ModuleType("both_namespaces")
    both.wg = here
    replaced = {
        "both_namespaces": both,
        "wengert": here,
        "wengert.torch": here,
        "wengert.nn": torch.nn,
        "wengert.nn.functional": torch.nn.functional,
    }
    kept = {name: sys.modules[name] for name in replaced if name in sys.modules}
    sys.modules.update(replaced)
    driver = importlib.import_module("idioms.driver")
    for path in sorted(HERE.glob("test_*.py")):
        importlib.import_module(f"idioms.{path.stem}")
    sys.modules.update(kept)
    chosen = {n: p for n, p in driver.PROGRAMS.items() if p.peer and (not names or n in names)}
    found = {}
    for name, chosen_program in chosen.items():
        try:
            found[name] = driver.digest(chosen_program.follow(driver.plain))
        except Exception as error:
            raise SystemExit(f"PyTorch does not run {name}: {error!r}") from error
    return found


def main(names: list[str]) -> None:
    target = HERE / "references.json"
    known = json.loads(target.read_text())["programs"] if names else {}
    found = {**known, **trajectories(names)}
    # One line a program, so that a difference can be read.
    lines = ",\n".join(f"{json.dumps(n)}: {json.dumps(found[n])}" for n in sorted(found))
    version = json.dumps(importlib.metadata.version("torch"))
    target.write_text(f'{{"torch": {version},\n"programs": {{\n{lines}\n}}}}\n')


if __name__ == "__main__":
    main(sys.argv[1:])
