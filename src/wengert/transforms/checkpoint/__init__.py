"""Checkpointing, and what a checkpoint keeps."""
