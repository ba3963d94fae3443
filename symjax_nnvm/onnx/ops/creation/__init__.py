"""ONNX forms: creation."""
