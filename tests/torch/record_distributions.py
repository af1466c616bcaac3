"""Record PyTorch's distributions: `python tests/torch/record_distributions.py`, where PyTorch is installed."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import torch

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent / "helpers"))

from torch_distributions import (  # noqa: E402
    CONSTRAINTS,
    EXPRESSIONS,
    MADE,
    PAIRS,
    QUESTIONS,
    ROUGH,
    TRANSFORMS,
    evaluated,
)


def written(value: Any) -> Any:
    """Return a tensor's values, or the class of the error instead of one."""
    return value if isinstance(value, str) else value.detach().double().tolist()


def asked(text: str, **names: Any) -> Any:
    """Return what an expression gives; None where PyTorch does not have it."""
    try:
        return written(evaluated(torch, text, **names))
    except (NotImplementedError, AttributeError):
        return None


def main() -> None:
    """Write the file of recorded values."""
    distributions = {}
    for name, (made, values) in {**MADE, **ROUGH}.items():
        p, x = evaluated(torch, made), evaluated(torch, values)
        distributions[name] = {q: asked(f"p.{q}", p=p, x=x) for q in QUESTIONS}
        distributions[name]["shapes"] = [list(p.batch_shape), list(p.event_shape), list(p.sample((3,)).shape)]
        distributions[name]["support"] = asked("p.support.check(x)", p=p, x=x)
        if p.has_enumerate_support and "Binomial" not in name:
            distributions[name]["enumerated"] = written(p.enumerate_support())
        distributions[name]["has_rsample"] = p.has_rsample
    divergences = [asked(f"d.kl_divergence({p}, {q})") for p, q in PAIRS]
    transforms = {}
    for text, values in TRANSFORMS.items():
        f, x = evaluated(torch, text), evaluated(torch, values)
        y = f(x)
        transforms[text] = {
            "y": written(y),
            "x": asked("f.inv(y)", f=f, y=y),
            "slope": asked("f.log_abs_det_jacobian(x, y)", f=f, x=x, y=y),
            "shapes": [list(f.forward_shape(x.shape)), list(f.inverse_shape(y.shape))],
            "axes": [f.domain.event_dim, f.codomain.event_dim],
        }
    checks = {name: asked(f"d.constraints.{name}.check(x)", x=evaluated(torch, x)) for name, x in CONSTRAINTS.items()}
    found = {
        "distributions": distributions,
        "divergences": divergences,
        "transforms": transforms,
        "constraints": checks,
        "expressions": [asked(text) for text in EXPRESSIONS],
    }
    text = json.dumps(found).encode()
    (FOLDER / "data" / "distributions.json.gz").write_bytes(gzip.compress(text, mtime=0))


if __name__ == "__main__":
    main()
