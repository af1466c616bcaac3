"""Placements, the rules of ops, and the pass that writes down what each rank runs."""
