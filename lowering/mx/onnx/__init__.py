"""`mx.onnx`: a network as an ONNX file."""

from lowering.mx.onnx import mx2onnx as mx2onnx
from lowering.mx.onnx.mx2onnx import export_model as export_model
from lowering.mx.onnx.mx2onnx import get_operator_support as get_operator_support
