"""Plans: a program as data, what writes it, and its form on disk."""
