"""PyTorch's functions of tensors, by kind; importing this declares them all."""

from . import (
    creation,
    decompositions,
    elementwise,
    foreach,
    indexing,
    joining,
    memory,
    neural,
    products,
    reductions,
    shaping,
    spectra,
    versions,
    views,
)
