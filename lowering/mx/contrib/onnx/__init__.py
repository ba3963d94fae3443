"""`mx.contrib.onnx`: ONNX files as networks, and networks as ONNX files."""

from lowering.mx.contrib.onnx import onnx2mx as onnx2mx
from lowering.mx.contrib.onnx.onnx2mx.import_model import get_model_metadata as get_model_metadata
from lowering.mx.contrib.onnx.onnx2mx.import_model import import_model as import_model
from lowering.mx.contrib.onnx.onnx2mx.import_to_gluon import import_to_gluon as import_to_gluon
from lowering.mx.onnx import export_model as export_model
from lowering.mx.onnx import mx2onnx as mx2onnx
