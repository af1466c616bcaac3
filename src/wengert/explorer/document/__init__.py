"""The document of a recording, and what is worked out for it."""
