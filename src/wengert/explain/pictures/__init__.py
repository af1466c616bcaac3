"""Graphs and memory as pictures."""
