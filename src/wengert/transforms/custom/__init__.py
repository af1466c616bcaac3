"""Functions with users' own derivatives."""
