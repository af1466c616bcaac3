"""Probability distributions: `wg.distributions`."""
