"""Operators that MXNet made for sparse storage, on dense arrays: the same numbers, with zeros stored."""

from __future__ import annotations

from typing import Literal

from symjax_nnvm.ir.attributes import FInferDefaultType, FInferShape, FInferType
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Entries, Shapes, first_type, register_op, same_shape
from symjax_nnvm.ir.rules.axes import completed
from symjax_nnvm.ir.rules.costs import per_input
from symjax_nnvm.ir.rules.storage import Storage, storage_of_data
from symjax_nnvm.ops.elementwise.scalar import ScalarParams
from symjax_nnvm.ops.indexing.take import NumberType
from symjax_nnvm.ops.reduce.reduction import ReduceParams

_STORED = " Of sparse arrays MXNet computes the stored elements only; here every element is."

# -- storage ---------------------------------------------------------------------------------------------------------


class CastStorageParams(Params):
    stype: Literal["csr", "default", "row_sparse"] = param(doc="storage type that the result is shown with")


register_op(
    "cast_storage",
    aliases=("_sparse_cast_storage",),
    params=CastStorageParams,
    infer_shape=same_shape,
    gradient=lambda node, ograds: [ograds[0]],
    inplace=((0, 0),),
    storage=lambda p, ins: p.stype,
    FAsksSparse=lambda attrs: attrs.parsed.stype != "default",
    flops=0,
    doc="data itself: every storage is dense here.",
)


def _retain_shapes(p: object, ins: Shapes, outs: Shapes):
    """data (n, …), indices (k,) → (n, …)."""
    data = completed(ins[0], outs[0])
    return [data, ins[1]], [data]


register_op(
    "_sparse_retain",
    inputs=("data", "indices"),
    infer_shape=_retain_shapes,
    infer_type=first_type,
    storage=lambda p, ins: "row_sparse",
    gradient=lambda node, ograds: [apply("_sparse_retain", ograds[0], node.inputs[1]), None],
    FAsksSparse=lambda attrs: True,
    flops=0,
    doc="The rows of data that indices name, zeros in the others; numbers that no row has are ignored.",
)

# -- arithmetic on stored elements -----------------------------------------------------------------------------------

_ALL_ELEMENTS = "every element is computed; MXNet computes those that a row_sparse or csr array stores"

for _name, _like in (("_scatter_plus_scalar", "_plus_scalar"), ("_scatter_minus_scalar", "_minus_scalar")):
    _op = Op.get(_like)
    register_op(
        _name,
        params=ScalarParams,
        infer_shape=same_shape,
        infer_type=None,
        gradient=lambda node, ograds: [ograds[0]],
        inplace=((0, 0),),
        storage=storage_of_data,
        FInferType=FInferType[_op],
        FAsksSparse=lambda attrs: True,
        flops=1,
        deviation=_ALL_ELEMENTS,
        doc=f"As `{_like}`.{_STORED}",
    )


def _div_gradient(node: Node, ograds: Entries):
    """dX = dZ / Y, dY = -dZ Z / Y."""
    of_lhs = apply("elemwise_div", ograds[0], node.inputs[1])
    return [of_lhs, apply("negative", apply("elemwise_mul", of_lhs, NodeEntry(node, 0, 0)))]


register_op(
    "_scatter_elemwise_div",
    inputs=("lhs", "rhs"),
    infer_shape=same_shape,
    gradient=_div_gradient,
    inplace=((0, 0), (1, 0)),
    storage=lambda p, ins: ins[0] if ins[0] == "row_sparse" else "default",
    FAsksSparse=lambda attrs: True,
    flops=1,
    deviation=_ALL_ELEMENTS,
    doc=f"As `elemwise_div`.{_STORED}",
)

# -- fused forms -----------------------------------------------------------------------------------------------------


def _square_sum_gradient(node: Node, ograds: Entries):
    """dX = 2 X dY, dY repeated over the reduced axes."""
    data = node.inputs[0]
    spread = apply("_backward_sum", ograds[0], data, **vars(node.attrs.parsed))
    return [apply("_mul_scalar", apply("elemwise_mul", data, spread), scalar=2.0)]


def _square_sum_storage(p: ReduceParams, ins: Storage) -> str:
    return ins[0] if ins[0] == "row_sparse" and p.keepdims and p.axis in (1, (1,)) else "default"


register_op(
    "_square_sum",
    params=ReduceParams,
    infer_shape=None,
    gradient=_square_sum_gradient,
    storage=_square_sum_storage,
    FInferShape=FInferShape[Op.get("sum")],
    FAsksSparse=lambda attrs: True,
    flops=per_input(2),
    doc="The sum of squares over axes.",
)


class SparseEmbeddingParams(Params):
    input_dim: int = param(ge=1, doc="number of rows of weight: the size of the vocabulary")
    output_dim: int = param(ge=1, doc="length of each row")
    dtype: NumberType = param("float32", doc="dtype of weight, where nothing else says it")
    deterministic: bool = param(False, doc="accepted for MXNet's sake: gradients are always added in one order")


def _embedding_gradient(node: Node, ograds: Entries) -> list[NodeEntry | None]:
    p = node.attrs.parsed
    shape = {"input_dim": p.input_dim, "output_dim": p.output_dim, "dtype": p.dtype}
    return [None, apply("_backward_Embedding", ograds[0], node.inputs[0], **shape)]


_embedding = Op.get("Embedding")
register_op(
    "_contrib_SparseEmbedding",
    params=SparseEmbeddingParams,
    inputs=("data", "weight"),
    infer_type=None,
    gradient=_embedding_gradient,
    FInferShape=FInferShape[_embedding],
    FInferType=FInferType[_embedding],
    FInferDefaultType=FInferDefaultType[_embedding],
    FSparseGradient=lambda attrs, ins: 1,
    FAsksSparse=lambda attrs: True,
    flops=0,
    doc="As `Embedding`.",
)
