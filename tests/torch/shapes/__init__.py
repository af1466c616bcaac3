"""What is recorded from PyTorch for shapes and indices: calls and programs."""
