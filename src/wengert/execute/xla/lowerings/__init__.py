"""The rules that say what operations are in XLA, by their families."""
