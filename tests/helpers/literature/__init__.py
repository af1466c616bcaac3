"""Functions from the literature, each written once and run on Wengert, PyTorch and JAX."""

from . import (
    adbench,
    algebra,
    conventions,
    finance,
    geometry,
    learning,
    likelihoods,
    minpack,
    nested,
    networks,
    optimisation,
    physics,
    timeseries,
)
from .cases import CASES, Case

__all__ = [
    "CASES",
    "Case",
    "adbench",
    "algebra",
    "conventions",
    "finance",
    "geometry",
    "learning",
    "likelihoods",
    "minpack",
    "nested",
    "networks",
    "optimisation",
    "physics",
    "timeseries",
]
