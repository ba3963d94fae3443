"""ONNX forms: elementwise functions."""
