"""ONNX forms: arithmetic of 8-bit networks, as QuantizeLinear and DequantizeLinear around operators on floats."""
