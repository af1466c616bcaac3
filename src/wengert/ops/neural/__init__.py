"""Ops of neural networks: activations, convolution, attention, normalization, losses."""
