"""ONNX forms: layers."""
