"""The dispatch program of a call, its writer, and its interpreters in Python and native code."""
