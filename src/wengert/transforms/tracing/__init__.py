"""Tracing a function to its graph, and replaying a graph as a function."""
