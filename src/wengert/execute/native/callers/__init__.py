"""C function pointers to programs, for callers without Python."""
