"""Pipelines: a program cut into stages and microbatches, what each stage runs, and in which order."""
