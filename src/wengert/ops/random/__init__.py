"""Random numbers, counter-based: keys, generators, draws."""
