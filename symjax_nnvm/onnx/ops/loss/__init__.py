"""ONNX forms: losses."""
