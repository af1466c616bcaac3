"""The rules of operators, one file for each family. Importing them fills the table of `..registry`."""

from . import (  # noqa: F401
    casts,
    contract,
    elementwise,
    index,
    normalize,
    reduce,
    structure,
)
