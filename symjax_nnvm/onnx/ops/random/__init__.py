"""ONNX forms: random draws."""
