"""State outside of functions: cells, turns, locks, and changes made at once."""
