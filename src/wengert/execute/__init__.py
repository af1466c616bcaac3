"""Execution of graphs: interpreter, scheduler, static functions, compiled functions and native code."""
