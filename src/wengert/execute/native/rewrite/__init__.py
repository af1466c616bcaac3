"""Rewrites of a graph before it is lowered."""
