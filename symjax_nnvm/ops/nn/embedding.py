"""Embedding: rows of a table by index."""

from __future__ import annotations

from symjax_nnvm.ir.node import NodeAttrs
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Shapes, Types, register_op
from symjax_nnvm.ir.rules.linear import linear
from symjax_nnvm.ir.rules.quantized_form import quantized_as
from symjax_nnvm.ops.indexing.take import NumberType


class EmbeddingParams(Params):
    input_dim: int = param(ge=1, doc="number of rows of weight: the size of the vocabulary")
    output_dim: int = param(ge=1, doc="length of each row")
    dtype: NumberType = param("float32", doc="dtype of weight, where nothing else says it")
    sparse_grad: bool = param(
        False, doc="the gradient of weight is shown as row_sparse: lazy optimisers update only its rows"
    )


def embedding_shapes(p: EmbeddingParams, ins: Shapes, outs: Shapes):
    """data (…), weight (input_dim, output_dim) → (…, output_dim)."""
    data, out = ins[0], outs[0]
    if data is None and out is not None:
        data = out[:-1]
    return [data, (p.input_dim, p.output_dim)], [None if data is None else (*data, p.output_dim)]


def _embedding_type(p: EmbeddingParams, ins: Types, outs: Types):
    """Indices of any dtype; weight and output share one."""
    dtype = ins[1] or outs[0]
    return [ins[0], dtype], [dtype]


def _embedding_default_type(attrs: NodeAttrs, ins: Types, outs: Types):
    """The default dtype of weight and output."""
    return _embedding_type(attrs.parsed, ins, [outs[0] or attrs.parsed.dtype])


register_op(
    "Embedding",
    FQuantized=quantized_as("_contrib_quantized_embedding", lambda p: p.dtype == "float32", float_inputs=(0,)),
    aliases=("_npx_embedding", "_sparse_Embedding"),
    params=EmbeddingParams,
    inputs=("data", "weight"),
    infer_shape=embedding_shapes,
    infer_type=_embedding_type,
    FInferDefaultType=_embedding_default_type,
    FSparseGradient=lambda attrs, ins: 1 if attrs.parsed.sparse_grad else None,
    FAsksSparse=lambda attrs: attrs.parsed.sparse_grad,
    flops=0,
    numbers=(0, lambda p, shapes: p.input_dim),
    drawing="dense",
    doc="Rows of weight by number; numbers outside are clipped. The gradient of the numbers is zero, where MXNet has "
    "an error.",
)


linear(
    "Embedding",
    of="weight",
    adjoint="_backward_Embedding",
    inputs=("ograd", "data"),
    doc="The gradient of Embedding: rows of ograd added up by number.",
)
