"""The op table's entries, by family. Importing this package declares them all."""

from . import (  # noqa: F401
    axes,
    composites,
    contract,
    convolve,
    creation,
    elementwise,
    index,
    inplace,
    losses,
    pool,
    random,
    reduce,
    structure,
)
