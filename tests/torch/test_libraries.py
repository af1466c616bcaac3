"""Programs on PyTorch's libraries run unedited, and give PyTorch's numbers, where the libraries are installed."""

import importlib.util
import json
import os
from pathlib import Path

import pytest

import wengert
from torch_libraries import EXPECTED, STATES, difference, run, version_of

RECORDED, KNOWN = json.loads(EXPECTED.read_text()), json.loads(STATES.read_text())

# Where bfloat16 and float32 factorisations are within.
TOLERANCES = {"many_optimizers": 2e-3}


@pytest.mark.parametrize("name", RECORDED)
def test_a_program_gives_pytorchs_numbers(name, monkeypatch):
    library, version = RECORDED[name]["library"], RECORDED[name]["version"]
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    if version_of(library) != version:
        pytest.skip(f"{library} is {version_of(library)}: the numbers are those of {version}")
    if isinstance(KNOWN.get(name), str):
        pytest.skip(f"it does not run yet: {KNOWN[name]}")
    source = str(Path(wengert.__file__).parent.parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH")))))
    found = run(name, wengert=True)
    assert not isinstance(found, str), found
    assert difference(RECORDED[name]["numbers"], found) < TOLERANCES.get(name, 2e-5)
