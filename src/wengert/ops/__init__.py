"""The op table's entries, by family. Importing this package declares them all."""

from . import (  # noqa: F401
    composites,
    contract,
    convolve,
    creation,
    elementwise,
    index,
    inplace,
    losses,
    random,
    reduce,
    structure,
)
