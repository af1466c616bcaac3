"""State outside of functions: cells, turns, locks, and atomic changes."""
