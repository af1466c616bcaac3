"""Graphs: the immutable snapshot of a computation, its text and JSON."""
