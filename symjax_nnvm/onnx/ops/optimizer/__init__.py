"""ONNX forms: updates of weights."""
