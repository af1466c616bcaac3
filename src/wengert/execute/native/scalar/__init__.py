"""Scalar code: how dtypes are held in registers, and what each elementwise op is."""
