"""The op table's entries, by family. Importing this package declares them all."""

from . import (  # noqa: F401
    assemble,
    axes,
    composites,
    contract,
    convolve,
    creation,
    diagonals,
    dtypes,
    elementwise,
    extend,
    gather,
    index,
    inplace,
    logic,
    losses,
    pool,
    random,
    reduce,
    selection,
    structure,
)
