"""ONNX forms: indexing."""
