"""`mx.contrib.onnx.onnx2mx`: ONNX files as symbols, and as blocks."""

from lowering.mx.contrib.onnx.onnx2mx import import_model as import_model
from lowering.mx.contrib.onnx.onnx2mx import import_to_gluon as import_to_gluon
