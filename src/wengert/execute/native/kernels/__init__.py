"""Kernels that are no fused loops, each beside its lowering."""
