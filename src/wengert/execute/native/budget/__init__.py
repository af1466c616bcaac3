"""Budgets of memory: plans made to keep below so many bytes, with the same results bit for bit."""
