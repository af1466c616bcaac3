"""Markov chain Monte Carlo."""
