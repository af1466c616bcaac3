"""Indexing, gathering, scattering, sorting, and writing in place."""
