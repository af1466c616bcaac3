"""Linear algebra: systems, factorizations, spectra, norms."""
