"""The engines that run programs on ranks: all in one process, or a process each."""
