"""Files that the explorer opens: ONNX models, which it runs, and weights."""
