"""Jacobians and Hessians: dense, sparse, by elimination."""
