"""Convolutions as implicit matrix products, and pooling."""
