"""Kernels other than fused loops, each beside its lowering."""
