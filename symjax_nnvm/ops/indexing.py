"""Operators that look elements up by index: Embedding, take, pick, one_hot, gather_nd, scatter_nd, batch_take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from symjax_nnvm.errors import InferenceError, ParamError, explain
from symjax_nnvm.ir.axes import known, normal_axis, replaced
from symjax_nnvm.ir.node import Node, NodeAttrs, NodeEntry, apply
from symjax_nnvm.ir.params import Axis, Tuple, param
from symjax_nnvm.ir.register import NoParams, Shapes, Types, backward_shapes, check_number, first_type, register_op
from symjax_nnvm.ir.types import Shape, format_shape

Entries = list[NodeEntry]

NumberType = Literal["bfloat16", "float16", "float32", "float64", "int32", "int64", "int8", "uint8"]

# -- Embedding -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class EmbeddingParams:
    input_dim: int = param(ge=1, doc="number of rows of weight: the size of the vocabulary")
    output_dim: int = param(ge=1, doc="length of each row")
    dtype: NumberType = param("float32", doc="dtype of weight, where nothing else says it")
    sparse_grad: bool = param(False, doc="accepted for MXNet's sake: the gradient is always dense")


def _embedding_shapes(p: EmbeddingParams, ins: Shapes, outs: Shapes):
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
    """The dtype of weight and output where nothing else says it."""
    return _embedding_type(attrs.parsed, ins, [outs[0] or attrs.parsed.dtype])


def _embedding_backward_shapes(p: EmbeddingParams, ins: Shapes, outs: Shapes):
    """ograd (…, output_dim), data (…) → (input_dim, output_dim)."""
    (data, weight), (out,) = _embedding_shapes(p, [ins[1], outs[0]], [ins[0]])
    return [out, data], [weight]


register_op(
    "Embedding",
    aliases=("_npx_embedding", "_sparse_Embedding"),
    params=EmbeddingParams,
    inputs=("data", "weight"),
    infer_shape=_embedding_shapes,
    infer_type=_embedding_type,
    FInferDefaultType=_embedding_default_type,
    FAsksSparse=lambda attrs: attrs.parsed.sparse_grad,
    gradient=lambda node, ograds: [
        None,
        apply("_backward_Embedding", ograds[0], node.inputs[0], **vars(node.attrs.parsed)),
    ],
    doc="Rows of weight by number; numbers outside are clipped. The gradient of the numbers is zero, where MXNet has "
    "an error.",
)
register_op(
    "_backward_Embedding",
    params=EmbeddingParams,
    inputs=("ograd", "data"),
    infer_shape=_embedding_backward_shapes,
    infer_type=first_type,
    gradient=lambda node, ograds: [apply("Embedding", node.inputs[1], ograds[0], **vars(node.attrs.parsed)), None],
    doc="The gradient of Embedding: rows of ograd added up by number.",
)

# -- one_hot ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class OneHotParams:
    depth: int = param(ge=0, doc="length of the new last axis")
    on_value: float = param(1.0, doc="the value where the index is")
    off_value: float = param(0.0, doc="the value everywhere else")
    dtype: NumberType = param("float32", doc="dtype of the result")


def _one_hot_type(p: OneHotParams, ins: Types, outs: Types):
    """Indices of any dtype; the result's is a parameter."""
    for name in ("on_value", "off_value"):
        check_number(name, getattr(p, name), p.dtype)
    return ins, [p.dtype]


def _one_hot_shapes(p: OneHotParams, ins: Shapes, outs: Shapes):
    """indices (…) ↔ (…, depth)."""
    indices, out = ins[0], outs[0]
    if indices is None and out is not None:
        indices = out[:-1]
    return [indices], [None if indices is None else (*indices, p.depth)]


register_op(
    "one_hot",
    aliases=("_npx_one_hot",),
    params=OneHotParams,
    inputs=("indices",),
    infer_shape=_one_hot_shapes,
    infer_type=_one_hot_type,
    gradient=lambda node, ograds: [None],
    doc="One value at each index, another elsewhere; indices outside mark nothing.",
)

# -- pick, batch_take ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class PickParams:
    axis: Axis | None = param(-1, doc="the axis to pick from")
    keepdims: bool = param(False, doc="keep the axis, with length 1")
    mode: Literal["clip", "wrap"] = param("clip", doc="what an index outside means: the nearest, or the rest modulo d")

    def check(self) -> str | None:
        return "axis=None is not supported by pick: name an axis" if self.axis is None else None


def _pick_shapes(p: PickParams, ins: Shapes, outs: Shapes):
    """data (…, d, …), index (…, …) or (…, 1, …) → (…, …), or (…, 1, …) with keepdims."""
    data, index = ins
    if data is None:
        return ins, outs
    axis = normal_axis(-1 if p.axis is None else p.axis, len(data))
    without = replaced(data, axis) or (1,)
    kept = replaced(data, axis, 1)
    if index is not None and len(index) == len(kept) != len(without):
        index, without = kept, replaced(_merged(kept, index), axis) or (1,)
    else:
        index = without
    return [data, index], [kept if p.keepdims else without]


def _merged(a: Shape, b: Shape) -> Shape:
    return tuple(known(x, y) for x, y in zip(a, b, strict=True))


def _pick_gradient(node: Node, ograds: Entries):
    """dX = dY where it was picked, 0 elsewhere."""
    data, index = node.inputs
    return [apply("_backward_pick", ograds[0], data, index, **vars(node.attrs.parsed)), None]


register_op(
    "pick",
    aliases=("_npx_pick", "choose_element_0index"),
    params=PickParams,
    inputs=("data", "index"),
    infer_shape=_pick_shapes,
    infer_type=first_type,
    gradient=_pick_gradient,
    doc="One element along an axis, chosen by an array of indices.",
)
register_op(
    "_backward_pick",
    params=PickParams,
    inputs=("ograd", "data", "index"),
    infer_shape=backward_shapes(_pick_shapes),
    infer_type=first_type,
    gradient=lambda node, ograds: [
        apply("pick", ograds[0], node.inputs[2], **vars(node.attrs.parsed)),
        None,
        None,
    ],
    FIgnoreInputs=lambda attrs: (1,),
    doc="The gradient of pick: ograd where it was picked from data, 0 elsewhere.",
)


def _batch_take_shapes(p: NoParams, ins: Shapes, outs: Shapes):
    """a (n, d), indices (n,) → (n,)."""
    a, indices = ins
    if a is not None and len(a) != 2:
        raise InferenceError(explain("Not a matrix", input="a", expected="2 axes", got=format_shape(a)))
    rows = known(*(shape[0] for shape in (a, indices, outs[0]) if shape))
    return [(rows, None), (rows,)], [(rows,)]


register_op(
    "batch_take",
    inputs=("a", "indices"),
    infer_shape=_batch_take_shapes,
    infer_type=lambda p, ins, outs: ([ins[0] or outs[0], "int32"], [outs[0] or ins[0]]),
    gradient=lambda node, ograds: [apply("_backward_pick", ograds[0], *node.inputs), None],
    doc="(deprecated, see pick) One element of each row. Unlike MXNet's it has a gradient.",
)

# -- take ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class TakeParams:
    axis: Axis = param(0, doc="the axis to take from; negative counts from the end")
    mode: Literal["clip", "raise", "wrap"] = param(
        "clip", doc="what an index outside means: the nearest, or the rest modulo d; `raise` acts as `clip`"
    )


def _take_shapes(p: TakeParams, ins: Shapes, outs: Shapes):
    """a (…, d, …), indices (i…) → (…, i…, …)."""
    a, indices = ins
    if a is None or indices is None:
        return ins, outs
    return ins, [replaced(a, normal_axis(p.axis, len(a)), *indices)]


register_op(
    "take",
    aliases=("_npi_take",),
    params=TakeParams,
    inputs=("a", "indices"),
    infer_shape=_take_shapes,
    infer_type=first_type,
    gradient=lambda node, ograds: [
        apply("_backward_take", ograds[0], *node.inputs, **vars(node.attrs.parsed)),
        None,
    ],
    doc="Slices along an axis by number. Numbers outside are clipped under mode `raise`, too, where MXNet has an "
    "error: a compiled program cannot stop.",
)
register_op(
    "_backward_take",
    params=TakeParams,
    inputs=("ograd", "a", "indices"),
    infer_shape=backward_shapes(_take_shapes),
    infer_type=first_type,
    gradient=lambda node, ograds: [
        apply("take", ograds[0], node.inputs[2], **vars(node.attrs.parsed)),
        None,
        None,
    ],
    FIgnoreInputs=lambda attrs: (1,),
    doc="The gradient of take: slices of ograd added up by number, in the shape of a.",
)

# -- gather_nd, scatter_nd -------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ScatterNDParams:
    shape: Tuple = param(ge=1, doc="shape of the result")


def _gathered(data: Shape, indices: Shape) -> Shape:
    """The shape of data[indices[0], indices[1], …]. Raises InferenceError when data has too few axes."""
    depth = indices[0]
    if depth == 0:
        raise InferenceError(explain("Indices without a row", input="indices", expected="at least one row", got=0))
    if depth is not None and depth > len(data):
        raise InferenceError(
            explain("More indices than axes", input="indices", expected=f"at most {len(data)} rows", got=depth)
        )
    return (*indices[1:], *data[depth:])


def _gather_nd_shapes(p: NoParams, ins: Shapes, outs: Shapes):
    """data (d0, …), indices (m, i…) → (i…, dm, …)."""
    data, indices = ins
    if not data or not indices or indices[0] is None:
        return ins, outs
    return ins, [_gathered(data, indices)]


def scatter_nd_shapes(p: ScatterNDParams, ins: Shapes, outs: Shapes):
    """data (i…, dm, …), indices (m, i…) → shape (d0, …)."""
    if not p.shape:
        raise ParamError(explain("The result needs a shape", param="shape", expected="at least one axis", got="()"))
    indices = ins[1]
    if not indices or indices[0] is None:
        return ins, [p.shape]
    return [_gathered(p.shape, indices), indices], [p.shape]


register_op(
    "gather_nd",
    aliases=("_npi_gather_nd", "_npx_gather_nd"),
    inputs=("data", "indices"),
    infer_shape=_gather_nd_shapes,
    infer_type=first_type,
    gradient=lambda node, ograds: [apply("_backward_gather_nd", ograds[0], *node.inputs), None],
    doc="Elements or slices of data by tuples of indices: data[indices[0], indices[1], …]. Negative indices count from "
    "the end, for the gradient, too, which MXNet writes outside of its memory; others outside are clipped, where MXNet "
    "has an error.",
)
register_op(
    "_backward_gather_nd",
    inputs=("ograd", "data", "indices"),
    infer_shape=backward_shapes(_gather_nd_shapes),
    infer_type=first_type,
    gradient=lambda node, ograds: [apply("gather_nd", ograds[0], node.inputs[2]), None, None],
    FIgnoreInputs=lambda attrs: (1,),
    doc="The gradient of gather_nd: ograd added up at the indices, in the shape of data.",
)
register_op(
    "scatter_nd",
    params=ScatterNDParams,
    inputs=("data", "indices"),
    infer_shape=scatter_nd_shapes,
    infer_type=first_type,
    gradient=lambda node, ograds: [apply("gather_nd", ograds[0], node.inputs[1]), None],
    doc="Zeros with the elements of data put at the indices, which should be distinct.",
)
