"""Contractions: matrix products and einsum."""
