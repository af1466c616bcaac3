"""Recordings of runs: the recorder, and the rows and scopes made from what it wrote."""
