"""Attention, forward and backward, by blocks of keys that stay in the cache."""
