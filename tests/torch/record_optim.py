"""Record what PyTorch's optimisers and schedules give: needs PyTorch.

`python tests/torch/record_optim.py` writes `tests/torch/data/optim.json.gz` and `lr_scheduler.json.gz`. The variants of
optimisers are those that PyTorch tests its own with.
"""

from __future__ import annotations

import copy
import gzip
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from torch.testing._internal.common_optimizers import optim_db

sys.path.insert(0, str(Path(__file__).parent))
import optim_cases as cases

DATA = Path(__file__).parent / "data"


def plain(value: Any) -> Any:
    """A value as JSON; tensors as their values with the dtype's name."""
    if isinstance(value, torch.Tensor):
        return {"tensor": value.detach().tolist(), "dtype": str(value.dtype).removeprefix("torch.")}
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def values(params: list[Any]) -> list[Any]:
    return [p.detach().tolist() for p in params]


def variant(name: str, options: dict[str, Any]) -> dict[str, Any]:
    steps, half = (cases.LBFGS_STEPS, cases.LBFGS_HALF) if name == "LBFGS" else (cases.STEPS, cases.HALF)
    found: dict[str, Any] = {"name": name, "options": plain(options), "after": []}
    for number in (0, 1):
        params, loss = cases.problem(torch, number)
        optimizer = cases.optimiser(torch, name, params, options)
        cases.train(optimizer, loss, half)
        if number:
            found["half"], found["state"] = values(params), plain(copy.deepcopy(optimizer.state_dict()))
            found["repr"] = repr(optimizer)
        cases.train(optimizer, loss, steps - half)
        found["after"].append(values(params))
    return found


def main() -> None:
    warnings.simplefilter("ignore")
    variants = []
    for info in optim_db:
        name = info.optim_cls.__name__
        for given in info.optim_inputs_func(device="cpu") if name != "SparseAdam" else ():
            options = dict(given.kwargs)
            if isinstance(options.get("lr"), torch.Tensor):
                options["lr_tensor"] = options.pop("lr").item()
            variants.append(variant(name, options))
    schedules = {
        "rates": {name: cases.follow(torch, make, 50) for name, make in cases.SCHEDULES.items()},
        "by_epoch": {name: cases.by_epoch(torch, cases.SCHEDULES[name]) for name in cases.BY_EPOCH},
        "resumed": {name: cases.resumed(torch, make) for name, make in cases.RESUMED.items()},
        "plateau": {name: cases.plateau(torch, options) for name, options in cases.PLATEAUS.items()},
        "state": {},
    }
    for name, make in cases.SCHEDULES.items():
        optimizer = cases.scheduled(torch)
        schedule = make(torch, optimizer)
        for _ in range(20):
            optimizer.step()
            schedule.step()
        schedules["state"][name] = {
            "schedule": plain(schedule.state_dict()),
            "optimizer": plain(optimizer.state_dict()),
        }
    for file, found in (("optim", variants), ("lr_scheduler", schedules)):
        with gzip.GzipFile(DATA / f"{file}.json.gz", "wb", mtime=0) as f:
            f.write(json.dumps(found, separators=(",", ":")).encode())
        print(file, (DATA / f"{file}.json.gz").stat().st_size)


if __name__ == "__main__":
    main()
