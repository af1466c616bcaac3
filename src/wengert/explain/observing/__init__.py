"""Observation of operations while they run, and afterwards."""
