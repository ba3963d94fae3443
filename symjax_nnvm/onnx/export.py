"""`to_onnx`: a network, with its parameters, as an ONNX model for inference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from symjax_nnvm.errors import (
    OnnxError,
    ParamsMismatchError,
    SymbolValueError,
    close_or_all,
    plain_list,
    tells_new_names,
)
from symjax_nnvm.inspect.roles import learned_variables
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node
from symjax_nnvm.ir.rules.quantized_parameters import refuse_wrong_parameters, way_out_of_mixing
from symjax_nnvm.ir.types import DType, Shape, default_dtype, dtype_name, is_float, is_known
from symjax_nnvm.mxnet.array_names import bare_name
from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.dimensions import Dimensions, NamedShape, named_dimensions
from symjax_nnvm.onnx.folding import folded
from symjax_nnvm.onnx.proto import evaluate, import_onnx, model_proto
from symjax_nnvm.onnx.tensors import Tensor, numpy_dtype
from symjax_nnvm.onnx.writer import builder, needed_opset, write
from symjax_nnvm.passes.infer import infer_shape, infer_type
from symjax_nnvm.surgery.inference_head import inference_symbol
from symjax_nnvm.symbol.call_arguments import expect_arrays, expect_symbol
from symjax_nnvm.symbol.symbol import Symbol

if TYPE_CHECKING:
    import onnx

Arrays = Mapping[str, Any]

OPSET = 18
"""The default version of ONNX' operators in files: the first whose reductions, paddings and splits are as in
all later ones, and one that every converter of docs/guide/onnx.md reads."""


@tells_new_names
def to_onnx(
    symbol: Symbol,
    args: Arrays | None = None,
    aux: Arrays | None = None,
    *,
    shapes: Mapping[str, NamedShape] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    opset: int | None = None,
    fold_batch_norm: bool = False,
    float16: bool = False,
    inference: bool = True,
) -> onnx.ModelProto:
    """Return the network as an ONNX model: what it computes from its data, without training heads and labels.

    Inputs, nodes and outputs keep the network's names.

    Args:
        symbol: the network.
        args: parameters by name, which become the model's weights.
        aux: auxiliary states by name. Variables that are in neither dict are the model's inputs.
        shapes: shapes of inputs by name; a size that is known only at run time is a name: `{"data": ("batch", 3, 224,
            224)}`.
        dtypes: dtypes of the inputs that are not float32.
        opset: the version of ONNX' operators, 18 or higher; None for 18, or the first that has what the network needs.
        fold_batch_norm: make batch norms part of the weights before or after them.
        float16: use half precision for all weights, inputs and computations.
        inference: False keeps training heads and labels.

    Raises:
        OnnxError: ONNX cannot express a node, or a size with a name is written as a number in the graph.
        ParamsMismatchError: parameters are missing.
        InferenceError: shapes or dtypes contradict each other.
        SymbolValueError: a name is not one of the network's.
        MissingExtraError: the package onnx is not installed.
    """
    expect_symbol(symbol, "to_onnx")
    arrays: dict[str, Any] = {}
    for what, named_arrays in (("args", args), ("aux", aux)):
        expect_arrays({} if named_arrays is None else named_arrays, what)
        arrays |= {bare_name(name): array for name, array in (named_arrays or {}).items()}
    latest = import_onnx().defs.onnx_opset_version()
    if opset is not None and not OPSET <= opset <= latest:
        raise OnnxError(
            f"Opset {opset} cannot be written: from {OPSET} to {latest} can. For an older one convert the model: "
            f"onnx.version_converter.convert_version(model, {opset})."
        )
    shapes, dtypes = dict(shapes or {}), dict(dtypes or {})
    _refuse_unknown(symbol, {**shapes, **dtypes})
    net = inference_symbol(symbol) if inference else symbol
    names = set(net.list_inputs())
    if args is not None:
        _refuse_missing(net, arrays, shapes)
        refuse_wrong_parameters(net.list_arguments(), arrays)
    arrays = {name: array for name, array in arrays.items() if name in names}
    if fold_batch_norm:
        net, arrays = folded(net, arrays, _values)
    return _model(_prepare(net, arrays, shapes, dtypes, opset, float16))


@dataclass(frozen=True)
class _Prepared:
    """A network with all facts that its forms read. variables: a weight or an input for each name."""

    net: Symbol
    variables: Mapping[str, Tensor]
    dimensions: Dimensions
    opset: int

    def write(self, g: Builder) -> list[Tensor]:
        """Write its nodes; its outputs."""
        for name in self.variables:
            g.names.unique(name)
        g.names.inputs = self.inputs
        graph = Graph(self.net.outputs)
        return write(g, graph, [self.variables[name] for name in graph.indexed_graph().input_names])

    @property
    def inputs(self) -> list[Tensor]:
        """Return the variables that are not weights."""
        return [tensor for tensor in self.variables.values() if tensor.value is None]


def _prepare(
    net: Symbol,
    arrays: Arrays,
    shapes: Mapping[str, NamedShape],
    dtypes: Mapping[str, Any],
    opset: int | None = None,
    float16: bool = False,
) -> _Prepared:
    names = set(net.list_inputs())
    shapes, dtypes = ({name: by_name[name] for name in by_name if name in names} for by_name in (shapes, dtypes))
    dimensions = named_dimensions(net, shapes, {name: np.shape(array) for name, array in arrays.items()})
    variables = _variables(net, arrays, dimensions, _dtypes(net, arrays, dtypes, float16))
    return _Prepared(net, variables, dimensions, opset or max(OPSET, needed_opset(net.outputs)))


def refusals(
    symbol: Symbol, arrays: Arrays, shapes: Mapping[str, NamedShape], dtypes: Mapping[str, Any]
) -> list[tuple[Node, OnnxError]]:
    """Return the nodes of a network that cannot be written, each with its error; nothing is made, and no `onnx` needed.

    Raises what `to_onnx` raises of a network as a whole.
    """
    prepared = _prepare(inference_symbol(symbol), arrays, shapes, dtypes)
    g = builder(prepared.opset)
    g.names.refused = refused = []
    prepared.write(g)
    return refused


def _model(prepared: _Prepared) -> onnx.ModelProto:
    """Return the model of a network."""
    g = builder(prepared.opset)
    model = prepared.write(g)
    outputs: list[Tensor] = []
    inner = {id(tensor) for node in g.nodes for tensor in node.outputs}
    for name, tensor in zip(prepared.net.list_outputs(), model, strict=True):
        if id(tensor) not in inner or any(tensor is other for other in outputs):
            copy = g.op("Identity", tensor)
            copy.shapes = tensor.shapes
            tensor = copy
        if tensor.name != name:  # of a head that is its data
            tensor.name = g.names.unique(name)
        outputs.append(tensor)
    title = prepared.net.name or "network"
    return model_proto(g.nodes, prepared.inputs, outputs, prepared.dimensions, prepared.opset, title)


def _refuse_unknown(symbol: Symbol, by_name: Mapping[str, Any]) -> None:
    names = symbol.list_inputs()
    for name in by_name:
        if name not in names:
            raise SymbolValueError(f"The network has no input {name!r}. {close_or_all(name, names, 'It has')}")


def _refuse_missing(net: Symbol, arrays: Arrays, shapes: Mapping[str, Any]) -> None:
    """A parameter without an array is not an input, unless the caller gives its shape."""
    learned = {node.name for node in learned_variables(net)}
    missing = [name for name in net.list_inputs() if name in learned and name not in arrays and name not in shapes]
    if missing:
        raise ParamsMismatchError(
            f"There are no arrays for the parameters {plain_list(sorted(missing))}. "
            + (
                way_out_of_mixing(missing, arrays)
                or "symjax_nnvm.match_params(net, arrays) says how a file's names fit; with its shape in shapes= a "
                "parameter becomes an input."
            )
        )


def _dtypes(net: Symbol, arrays: Arrays, declared: Mapping[str, Any], float16: bool) -> dict[str, DType]:
    """Return the dtype of each variable. With float16 that of floating-point ones follows from their readers."""
    known_dtypes = {name: dtype_name(array.dtype) for name, array in arrays.items()}
    known_dtypes |= {name: dtype_name(dtype) for name, dtype in declared.items()}
    graph = Graph(net.outputs)
    inferred = _of_variables(infer_type(graph, dtypes=known_dtypes), "dtype")
    if not float16:
        return {name: dtype or default_dtype() for name, dtype in inferred.items()}
    known_dtypes = {name: dtype for name, dtype in inferred.items() if dtype is not None and not is_float(dtype)}
    known_dtypes |= {name: "float16" for name in inferred if name not in known_dtypes and name not in arrays}
    open_ended = graph.derive(attrs={"dtype_defaults": False})
    while True:  # one after the other: what an array is decides what its neighbours are
        inferred = _of_variables(infer_type(open_ended, dtypes=known_dtypes, attr_key=None), "dtype")
        undecided = next((name for name, dtype in inferred.items() if dtype is None), None)
        if undecided is None:
            return inferred
        known_dtypes[undecided] = "float16"


def _of_variables(graph: Graph, attr: str) -> dict[str, Any]:
    index = graph.indexed_graph()
    ids = (index.entry_rptr[nid] for nid in index.input_nodes)
    return dict(zip(index.input_names, (graph.attrs[attr][eid] for eid in ids), strict=True))


def _variables(net: Symbol, arrays: Arrays, dimensions: Dimensions, dtypes: Mapping[str, DType]) -> dict[str, Tensor]:
    """Return a tensor for each variable. Raises SymbolValueError for an input whose shape is not given."""
    inferred = [_of_variables(infer_shape(Graph(net.outputs), shapes=row), "shape") for row in dimensions.assignments]
    tensors: dict[str, Tensor] = {}
    for name, dtype in dtypes.items():
        array = arrays.get(name)
        value = None if array is None else np.asarray(array).astype(numpy_dtype(dtype), copy=False)
        shapes: Sequence[Shape | None] = [by_name[name] for by_name in inferred]
        if not all(map(is_known, shapes)):
            raise SymbolValueError(
                f"The shape of the input {name!r} is unknown. Give it in shapes=, as in "
                f"shapes={{{name!r}: ('batch', 3, 224, 224)}}."
            )
        tensors[name] = Tensor(name, dtype, [shape for shape in shapes if shape is not None], value)
    return tensors


def _values(graph: Graph, constants: Arrays) -> list[np.ndarray]:
    """Return the values of a graph of constants, computed by ONNX' own reference implementation."""
    return evaluate(_model(_prepare(Symbol(graph.outputs), constants, {}, {})))
