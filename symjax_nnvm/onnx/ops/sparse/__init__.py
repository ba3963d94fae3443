"""ONNX forms: sparse storage."""
