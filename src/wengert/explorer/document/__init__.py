"""Documents of recordings: their tables, and what is computed for them."""
