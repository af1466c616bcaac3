"""Functions from the literature, each written once and run on Wengert, PyTorch and JAX."""

from . import (
    adbench,
    conventions,
    finance,
    geometry,
    learning,
    likelihoods,
    minpack,
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
    "conventions",
    "finance",
    "geometry",
    "learning",
    "minpack",
    "networks",
    "optimisation",
    "physics",
    "likelihoods",
    "timeseries",
]
