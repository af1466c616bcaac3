"""Minimisers."""
