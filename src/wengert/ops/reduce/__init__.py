"""Reductions, and running reductions."""
