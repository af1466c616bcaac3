"""The rules of operators, one file for each family. Importing them fills the table of `..registry`."""

from . import (  # noqa: F401
    casts,
    contract,
    control,
    elementwise,
    images,
    index,
    normalize,
    quantized,
    recurrent,
    reduce,
    sequences,
    signal,
    structure,
    text,
)
