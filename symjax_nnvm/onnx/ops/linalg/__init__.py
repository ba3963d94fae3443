"""ONNX forms: linear algebra."""
