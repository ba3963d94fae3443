"""ONNX forms: vision."""
