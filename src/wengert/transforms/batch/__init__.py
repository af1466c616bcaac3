"""Batching: `vmap` and its rules."""
