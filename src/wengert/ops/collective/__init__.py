"""Collectives as ops: what the ranks of a mesh say to each other stands in the graph."""
