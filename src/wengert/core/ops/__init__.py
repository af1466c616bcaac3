"""Ops: their declarations, their front doors, how they run and are recorded."""
