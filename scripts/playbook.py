"""What the playground without Python is told of the one with it: experiments, controls, code, the graph of the line.

`explorer/src/engine/play.json` is written from here, by scripts/generate.py. `runs()` gives what Wengert computes in
these experiments, which the page's own engine is compared with (`explorer/src/fixtures/play_runs.json`).
"""

from __future__ import annotations

import json
from typing import Any

from wengert.explorer.playground import EXPERIMENTS
from wengert.explorer.playground.controls import Value, settings
from wengert.explorer.playground.line import FitLine
from wengert.explorer.playground.run import Run
from wengert.explorer.playground.session import listed

# The tables of a recording that the drawn graph needs.
TABLES = (
    "schema", "meta", "strings", "shapes", "ops", "scopes", "nodes", "edges", "saved", "stats", "events", "buffers",
    "spans", "files", "findings",
)  # fmt: skip


def playbook() -> str:
    """The file for the page."""
    document, rows = _graph()
    code = {name: _code(name) for name in ("plain", "other")}
    told = {"experiments": listed(EXPERIMENTS), "code": code, "trace": document, "rows": rows}
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"), sort_keys=True) + "\n"


def _code(name: str) -> dict[str, Any]:
    method = {"plain": "plain", "other": "Adam"}[name]
    shown = FitLine(settings(FitLine.controls, {"method": method})).shown().values
    return {"code": shown["code"], "lit": shown["lit"]}


def _graph() -> tuple[dict[str, Any], dict[str, list[int]]]:
    """The recorded line, without what differs from run to run, and the rows of the numbers that are put in."""
    run = FitLine(settings(FitLine.controls, {}))
    found = run.record()
    document: dict[str, Any] = json.loads(json.dumps({name: found.document[name] for name in TABLES}))
    for key in ("seconds", "wengert"):  # they differ between runs and versions
        document["meta"].pop(key, None)
    events = document["events"]
    events["t0"] = [0] * len(events["t0"])
    events["dur"] = [0] * len(events["dur"])
    document["edges"].pop("amount", None)
    for table in document["stats"].values():
        table.pop("size", None)
        table["details"] = {}
    document["spans"]["file"] = [-1] * len(document["spans"]["file"])
    document["nodes"]["span"] = [-1] * len(document["nodes"]["span"])
    document["files"] = []
    names = [document["strings"][i] for i in document["nodes"]["name"]]
    (root,) = document["meta"]["roots"]
    source = (
        next(r.operands[0].index for r in found.recording.rows if r.index == root) if _is_alias(found, root) else root
    )
    return document, {"w": [names.index("w")], "b": [names.index("b")], "loss": sorted({root, source})}


def _is_alias(found: Any, root: int) -> bool:
    return found.document["nodes"]["op"][root] < 0


# -- what Wengert computes, to compare with

CASES: tuple[tuple[str, dict[str, Value], int], ...] = (
    ("line", {}, 12),
    ("line", {"method": "momentum", "rate": 0.02, "batch": 7, "seed": 3}, 12),
    ("line", {"method": "Adam", "rate": 0.3, "noise": 2.0}, 12),
    ("line", {"rate": 0.9}, 60),
    ("separate", {}, 12),
    (
        "separate",
        {"data": "circles", "activation": "gelu", "layers": 1, "l2": 0.01, "batch": "all", "use x²": True},
        12,
    ),
    (
        "separate",
        {"data": "xor", "activation": "relu", "method": "momentum", "l1": 0.001, "use xy": True, "use x": False},
        12,
    ),
    ("separate", {"data": "own", "activation": "leaky relu", "method": "plain", "use sin y": True}, 12),
    ("regress", {}, 12),
    ("regress", {"data": "waves", "activation": "sigmoid", "method": "plain", "seed": 5}, 12),
    ("regress", {"data": "plane", "layers": 1}, 4),
    ("regress", {"data": "saddle", "use y²": True, "use sin x": True}, 4),
    ("dead", {}, 12),
    ("dead", {"leak": True, "data": "gaussians", "bias": -0.5}, 12),
    ("vanishing", {}, 6),
    (
        "vanishing",
        {"activation": "relu", "residual": True, "norm": True, "depth": 5, "method": "Adam", "start": "He"},
        12,
    ),
)


def runs() -> str:
    """The runs of `CASES`: settings, the series over the steps, and what is shown at the last."""
    return json.dumps([_run(*case) for case in CASES], ensure_ascii=False, separators=(",", ":")) + "\n"


def _run(name: str, given: dict[str, Value], steps: int) -> dict[str, Any]:
    run: Run = EXPERIMENTS[name](settings(EXPERIMENTS[name].controls, given))
    series = [run.measure()]
    for _ in range(steps):
        run.step()
        series.append(run.measure())
    scene, shown = run.scene(), run.shown()
    pictures = {k: v.ravel()[::97].tolist() for k, v in shown.arrays.items()}
    points = {k: v[:3] if isinstance(v, list) else v for k, v in scene.values.items()}
    return {
        "experiment": name,
        "options": given,
        "series": [[float(x if name == "line" else f"{x:.9g}") for x in row] for row in series],
        "scene": points,
        "shown": shown.values,
        "pictures": pictures,
    }
