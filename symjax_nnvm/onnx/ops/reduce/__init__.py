"""ONNX forms: reductions."""
