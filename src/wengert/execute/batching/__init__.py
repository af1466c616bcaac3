"""Automatic batching: calls of cells are deferred, and run together where they are alike."""
