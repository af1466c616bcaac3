"""The captured state of a function: what it can reach without its arguments."""
