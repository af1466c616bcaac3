"""The compiled entry: the native interpreter of a call's dispatch program."""
