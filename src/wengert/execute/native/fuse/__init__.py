"""Fusion: which nodes become one loop kernel, how its loop nest is scheduled, and its code."""
