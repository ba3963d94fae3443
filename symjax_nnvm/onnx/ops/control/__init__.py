"""ONNX forms: control flow."""
