"""ONNX forms: shapes."""
