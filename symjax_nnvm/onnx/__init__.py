"""Networks are written as ONNX files: the operators' forms (`ops/`), what they write with, and `to_onnx`; and back
(`imports/`)."""

from symjax_nnvm.onnx import ops as ops
from symjax_nnvm.onnx.builder import Builder as Builder
from symjax_nnvm.onnx.export import refusals as refusals
from symjax_nnvm.onnx.export import to_onnx as to_onnx
from symjax_nnvm.onnx.forms import onnx_form as onnx_form
from symjax_nnvm.onnx.forms import refuses as refuses
from symjax_nnvm.onnx.imports import from_onnx as from_onnx
from symjax_nnvm.onnx.imports import onnx_import as onnx_import
from symjax_nnvm.onnx.model_file import find_any_model as find_any_model
from symjax_nnvm.onnx.proto import save_onnx as save_onnx
from symjax_nnvm.onnx.proto import signature_of as signature_of
from symjax_nnvm.onnx.writer import form_of as form_of
