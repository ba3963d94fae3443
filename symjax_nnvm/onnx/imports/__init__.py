"""ONNX files as networks: the forms of ONNX' operators (`ops/`), what they write with, and `from_onnx`."""

from symjax_nnvm.onnx.imports import ops as ops
from symjax_nnvm.onnx.imports.composer import Composer as Composer
from symjax_nnvm.onnx.imports.import_registry import onnx_import as onnx_import
from symjax_nnvm.onnx.imports.importer import from_onnx as from_onnx
