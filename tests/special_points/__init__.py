"""Derivatives of every order at special points, against mpmath: the cases, the oracle, the page of conventions."""
