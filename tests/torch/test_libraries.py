"""Programs on PyTorch's libraries run unedited, and give PyTorch's numbers, where the libraries are installed."""

import importlib.util
import json
import os

import pytest

from torch_libraries import EXPECTED, difference, run, version_of

RECORDED = json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}

# Where bfloat16 and float32 factorisations are within.
TOLERANCES = {"many_optimizers": 2e-3}


@pytest.mark.parametrize("name", RECORDED)
def test_a_program_gives_pytorchs_numbers(name, monkeypatch):
    library, version = RECORDED[name]["library"], RECORDED[name]["version"]
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    if version_of(library) != version:
        pytest.skip(f"{library} is {version_of(library)}: the numbers are those of {version}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, ("src", os.environ.get("PYTHONPATH")))))
    found = run(name, wengert=True)
    assert not isinstance(found, str), found
    assert difference(RECORDED[name]["numbers"], found) < TOLERANCES.get(name, 2e-5)
