"""ONNX forms of the operators that MXNet made for sparse storage, on dense arrays."""

from __future__ import annotations

from symjax_nnvm.ir.op import Op
from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import FOnnx, identity, onnx_form, onnx_table
from symjax_nnvm.onnx.numbers import in_int32
from symjax_nnvm.onnx.ops.nn.softmax import steps
from symjax_nnvm.onnx.ops.reduce.reduction import FUNCTIONS, reduce
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.reduce.reduction import ReduceParams

# The package imports the families of these forms before this one.
for _name, _like in (
    ("_scatter_plus_scalar", "_plus_scalar"),
    ("_scatter_minus_scalar", "_minus_scalar"),
    ("_scatter_elemwise_div", "elemwise_div"),
    ("_contrib_SparseEmbedding", "Embedding"),
):
    Op.get(_name).set_attr("FOnnx", FOnnx[Op.get(_like)])

onnx_form("cast_storage")(identity)


def _retain(g: Builder, data: Tensor, indices: Tensor) -> Tensor:
    """Return the rows of data (n, …) that indices name, with zeros for the others."""
    rows = g.reshape(steps(g, data, 0, "int64"), -1, 1)
    hits = g.cast(g.op("Equal", rows, g.reshape(g.cast(indices, "int64"), 1, -1)), "int32")
    mask = g.cast(g.op("ReduceMax", hits, [1], keepdims=0), "bool")
    return g.op("Where", g.along(mask, 0, data.ndim), data, g.constant(0, data.dtype))


onnx_table({"_sparse_retain": _retain})


@onnx_form("_square_sum")
def _square_sum(g: Builder, p: ReduceParams, data: Tensor) -> Tensor:
    square = in_int32(g, lambda x: g.op("Mul", x, x), data)
    square.shapes = data.shapes
    return reduce(g, FUNCTIONS["sum"], p, square)
