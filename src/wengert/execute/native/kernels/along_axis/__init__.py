"""Kernels that work along one axis: running sums, sorting, positions of extremes."""
