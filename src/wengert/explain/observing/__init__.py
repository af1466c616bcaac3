"""Observing operations while they run, and afterwards."""
