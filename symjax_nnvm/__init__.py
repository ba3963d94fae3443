"""symjax_nnvm is the NNVM symbolic system — Symbol, Graph, passes, MXGradient — in Python.

This package has graphs and the meaning of operators; it never imports JAX. `lowering` builds on it and runs graphs.
"""

from symjax_nnvm import graph as graph
from symjax_nnvm import ops as ops
from symjax_nnvm import passes as passes
from symjax_nnvm import symbol as symbol
from symjax_nnvm.check import CheckReport as CheckReport
from symjax_nnvm.check import Problem as Problem
from symjax_nnvm.check import check as check
from symjax_nnvm.errors import AttributeConflictError as AttributeConflictError
from symjax_nnvm.errors import BindError as BindError
from symjax_nnvm.errors import CallError as CallError
from symjax_nnvm.errors import CheckpointError as CheckpointError
from symjax_nnvm.errors import ComposeError as ComposeError
from symjax_nnvm.errors import CutNumberWarning as CutNumberWarning
from symjax_nnvm.errors import ExecutorTypeError as ExecutorTypeError
from symjax_nnvm.errors import ExecutorValueError as ExecutorValueError
from symjax_nnvm.errors import GradientError as GradientError
from symjax_nnvm.errors import GraphError as GraphError
from symjax_nnvm.errors import InferenceError as InferenceError
from symjax_nnvm.errors import InitializerError as InitializerError
from symjax_nnvm.errors import JSONFormatError as JSONFormatError
from symjax_nnvm.errors import LoweringError as LoweringError
from symjax_nnvm.errors import MissingExtraError as MissingExtraError
from symjax_nnvm.errors import ModelNotFoundError as ModelNotFoundError
from symjax_nnvm.errors import MXNetError as MXNetError
from symjax_nnvm.errors import NarrowedDtypeWarning as NarrowedDtypeWarning
from symjax_nnvm.errors import NNVMError as NNVMError
from symjax_nnvm.errors import NonFiniteWarning as NonFiniteWarning
from symjax_nnvm.errors import NotImplementedForSymbol as NotImplementedForSymbol
from symjax_nnvm.errors import OnnxError as OnnxError
from symjax_nnvm.errors import OpenSizeError as OpenSizeError
from symjax_nnvm.errors import OpNotRegisteredError as OpNotRegisteredError
from symjax_nnvm.errors import ParamError as ParamError
from symjax_nnvm.errors import ParamsFormatError as ParamsFormatError
from symjax_nnvm.errors import ParamsMismatchError as ParamsMismatchError
from symjax_nnvm.errors import PassError as PassError
from symjax_nnvm.errors import RecordFormatError as RecordFormatError
from symjax_nnvm.errors import TrainingError as TrainingError
from symjax_nnvm.errors import UnknownArrayError as UnknownArrayError
from symjax_nnvm.errors import UnknownAttributeError as UnknownAttributeError
from symjax_nnvm.graph import Graph as Graph
from symjax_nnvm.inspect.compare import compare_params as compare_params
from symjax_nnvm.inspect.compare import compare_symbols as compare_symbols
from symjax_nnvm.inspect.footprint import Footprint as Footprint
from symjax_nnvm.inspect.footprint import estimate as estimate
from symjax_nnvm.inspect.summary import print_summary as print_summary
from symjax_nnvm.inspect.summary import summarize as summarize
from symjax_nnvm.ir.indexed_graph import IndexedGraph as IndexedGraph
from symjax_nnvm.ir.node import Node as Node
from symjax_nnvm.ir.node import NodeAttrs as NodeAttrs
from symjax_nnvm.ir.node import NodeEntry as NodeEntry
from symjax_nnvm.ir.node import apply as apply
from symjax_nnvm.ir.op import Op as Op
from symjax_nnvm.ir.op import OpGroup as OpGroup
from symjax_nnvm.ir.op import OpMap as OpMap
from symjax_nnvm.ir.op import list_ops as list_ops
from symjax_nnvm.ir.params import param as param
from symjax_nnvm.ir.pass_registry import apply_pass as apply_pass
from symjax_nnvm.ir.pass_registry import apply_passes as apply_passes
from symjax_nnvm.ir.pass_registry import register_pass as register_pass
from symjax_nnvm.ir.register import register_op as register_op
from symjax_nnvm.ir.source_info import source_info as source_info
from symjax_nnvm.mxnet.checkpoint import load_checkpoint as load_checkpoint
from symjax_nnvm.mxnet.checkpoint import save_checkpoint as save_checkpoint
from symjax_nnvm.mxnet.match import ParamsMatch as ParamsMatch
from symjax_nnvm.mxnet.match import match_params as match_params
from symjax_nnvm.mxnet.model_loader import load_model as load_model
from symjax_nnvm.mxnet.params_files import load_arrays as load_arrays
from symjax_nnvm.mxnet.params_files import load_safetensors as load_safetensors
from symjax_nnvm.mxnet.params_files import save_arrays as save_arrays
from symjax_nnvm.mxnet.params_files import save_safetensors as save_safetensors
from symjax_nnvm.network_model import Model as Model
from symjax_nnvm.onnx import from_onnx as from_onnx
from symjax_nnvm.onnx import save_onnx as save_onnx
from symjax_nnvm.onnx import to_onnx as to_onnx
from symjax_nnvm.ops.custom import register_custom as register_custom
from symjax_nnvm.passes.gradient import mx_gradient as mx_gradient
from symjax_nnvm.quantization import quantize as quantize
from symjax_nnvm.surgery import HardCodedBatch as HardCodedBatch
from symjax_nnvm.surgery import cut as cut
from symjax_nnvm.surgery import dequantized as dequantized
from symjax_nnvm.surgery import freeze as freeze
from symjax_nnvm.surgery import freeze_statistics as freeze_statistics
from symjax_nnvm.surgery import hard_coded_batch as hard_coded_batch
from symjax_nnvm.surgery import inference_symbol as inference_symbol
from symjax_nnvm.surgery import rename as rename
from symjax_nnvm.surgery import replace_head as replace_head
from symjax_nnvm.surgery import set_batch_size as set_batch_size
from symjax_nnvm.surgery import subset as subset
from symjax_nnvm.symbol import AttrScope as AttrScope
from symjax_nnvm.symbol import Group as Group
from symjax_nnvm.symbol import NameManager as NameManager
from symjax_nnvm.symbol import Prefix as Prefix
from symjax_nnvm.symbol import Symbol as Symbol
from symjax_nnvm.symbol import Variable as Variable
from symjax_nnvm.symbol import var as var
from symjax_nnvm.viz.network_plot import plot_network as plot_network

plot = plot_network
summary = summarize

__version__ = "0.1.0"
