"""Ops that create, arrange and cast tensors."""
