"""ONNX forms: image."""
