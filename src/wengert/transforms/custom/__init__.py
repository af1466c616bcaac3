"""Functions whose derivatives users write."""
