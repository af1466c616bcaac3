"""Rewrites of loops: what they do once, and loops that graphs repeat."""
