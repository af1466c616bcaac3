"""Programs that people write, in the spelling of PyTorch: run as they stand, compiled, and by PyTorch itself."""
