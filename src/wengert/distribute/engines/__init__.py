"""What runs programs on ranks: all in one process, or a process each."""
