"""Mathematical functions in native code, within a few units in the last place."""
