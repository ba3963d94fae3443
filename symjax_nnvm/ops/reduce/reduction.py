"""Reductions over axes: sum, mean, max, min, prod, their NaN-ignoring forms, norm, argmax, argmin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.params import Axes, Axis, Params, Tuple, param
from symjax_nnvm.ir.register import Entries, NoParams, Shapes, Types, first_type, register_op
from symjax_nnvm.ir.rules.axes import normal_axes, normal_axis, replaced
from symjax_nnvm.ir.rules.costs import per_input
from symjax_nnvm.ir.rules.layout_rules import ChannelsLast, Corrected, reduction
from symjax_nnvm.ir.rules.linear import linear
from symjax_nnvm.ir.types import Shape


class _Reduces(Protocol):
    @property
    def axis(self) -> Tuple | None: ...
    @property
    def keepdims(self) -> bool: ...


class ReduceParams(Params):
    axis: Axes | None = param(None, doc="axes to reduce over; None or (): all")
    keepdims: bool = param(False, doc="keep the reduced axes, with length 1")
    exclude: bool = param(False, doc="reduce over all axes but those in `axis`")


def reduced_axes(p: _Reduces, ndim: int) -> tuple[int, ...]:
    """The axes that are reduced, ascending."""
    if p.axis is None or (not p.axis and not is_numpy(p)):
        return tuple(range(ndim))
    axes = normal_axes(p.axis, ndim or 1)  # a number has an axis 0, as in NumPy
    if not ndim:
        return ()
    if getattr(p, "exclude", False):
        return tuple(i for i in range(ndim) if i not in axes)
    return tuple(sorted(axes))


def reduced_shape(p: _Reduces, shape: Shape) -> Shape:
    """The result's shape; when every axis is reduced and none is kept (1,), in the NumPy dialect ()."""
    axes = reduced_axes(p, len(shape))
    if p.keepdims:
        return tuple(1 if i in axes else dim for i, dim in enumerate(shape))
    return tuple(dim for i, dim in enumerate(shape) if i not in axes) or (() if is_numpy(p) else (1,))


def is_numpy(p: _Reduces) -> bool:
    """Whether parameters are those of the NumPy dialect: no axes are none, and all of them leave a scalar."""
    return getattr(p, "numpy", False)


def reduce_shapes(p: _Reduces, ins: Shapes, outs: Shapes):
    """data (…, d, …) → (…, …); kept dimensions are known from either side."""
    data, out = ins[0], outs[0]
    if data is None:
        return ins, [out if p.axis or p.keepdims or is_numpy(p) else (1,)]
    if out is not None and None in data:
        data = _completed_by_result(data, reduced_axes(p, len(data)), out, p.keepdims)
    return [data], [reduced_shape(p, data)]


def _completed_by_result(data: Shape, axes: Sequence[int], out: Shape, keepdims: bool) -> Shape:
    """The data's shape, completed with the dimensions that the result kept."""
    kept_axes = [i for i in range(len(data)) if i not in axes]
    places = kept_axes if keepdims else range(len(kept_axes))
    if len(out) != (len(data) if keepdims else len(kept_axes)):
        return data
    dims = list(data)
    for i, j in zip(kept_axes, places, strict=True):
        dims[i] = out[j] if dims[i] is None else dims[i]
    return tuple(dims)


def spread(value: NodeEntry, node: Node) -> NodeEntry:
    """A value of the result's shape, repeated over the reduced axes of data."""
    p = node.attrs.parsed
    if is_numpy(p):
        data = node.inputs[0]
        return apply("_backward_np_sum", apply("_cast_like", value, data), data, axis=p.axis, keepdims=p.keepdims)
    return apply(
        "_backward_sum",
        value,
        node.inputs[0],
        axis=p.axis,
        keepdims=p.keepdims,
        exclude=getattr(p, "exclude", False),
    )


def _not_nan(data: NodeEntry) -> NodeEntry:
    """1 where data is a number, 0 where it is NaN."""
    return apply("_equal", data, data)


def extreme_gradient(node: Node, ograds: Entries):
    """dX = dY where X equals its extreme: at every tie."""
    ties = apply("_equal", node.inputs[0], spread(NodeEntry(node, 0, 0), node))
    return [apply("elemwise_mul", spread(ograds[0], node), ties)]


def prod_gradient(node: Node, ograds: Entries):
    """dX = dY Y / X; as in MXNet this is NaN where X is 0."""
    scaled = apply("elemwise_mul", ograds[0], NodeEntry(node, 0, 0))
    return [apply("elemwise_div", spread(scaled, node), node.inputs[0])]


def _nansum_gradient(node: Node, ograds: Entries):
    """dX = dY where X is a number."""
    return [apply("elemwise_mul", spread(ograds[0], node), _not_nan(node.inputs[0]))]


def _nanprod_gradient(node: Node, ograds: Entries):
    """dX = dY Y / X where X is a number."""
    data = node.inputs[0]
    mask = _not_nan(data)
    safe = apply("where", mask, data, apply("ones_like", data))
    scaled = apply("elemwise_mul", ograds[0], NodeEntry(node, 0, 0))
    return [apply("elemwise_mul", apply("elemwise_div", spread(scaled, node), safe), mask)]


for _name, _aliases, _gradient, _doc in (
    ("sum", ("_sparse_sum", "sum_axis"), None, "Sum over axes."),
    ("mean", ("_sparse_mean",), None, "Mean over axes; of integers it is truncated towards 0."),
    ("max", ("max_axis",), extreme_gradient, "Maximum over axes; every element that ties receives the gradient."),
    ("min", ("min_axis",), extreme_gradient, "Minimum over axes; every element that ties receives the gradient."),
    ("prod", (), prod_gradient, "Product over axes. As in MXNet its gradient is NaN at elements that are 0."),
    ("nansum", (), _nansum_gradient, "Sum over axes, NaN counting as 0."),
    ("nanprod", (), _nanprod_gradient, "Product over axes, NaN counting as 1."),
):
    register_op(
        _name,
        aliases=_aliases,
        params=ReduceParams,
        infer_shape=reduce_shapes,
        gradient=_gradient,
        flops=per_input(1),
        precision="either" if _name in ("max", "min") else None,
        layout=reduction,
        samples=lambda p, ins, outs: 0 not in reduced_axes(p, len(ins[0])),
        doc=_doc,
    )

for _name, _rest in (("sum", "."), ("mean", ", divided by the number of elements in each mean.")):
    linear(
        _name,
        of="data",
        adjoint=f"_backward_{_name}",
        infer_type=first_type,
        doc=f"The gradient of {_name}: ograd, repeated over the reduced axes of data{_rest}",
    )

# -- norm ------------------------------------------------------------------------------------------------------------


class NormParams(Params):
    ord: int = param(2, ge=1, le=2, doc="1: sum of magnitudes; 2: root of the sum of squares")
    axis: Axes | None = param(None, doc="axes to reduce over; None: all")
    out_dtype: Literal["float16", "float32", "float64", "int32", "int64", "int8"] | None = param(
        None, doc="dtype of the result; None: that of data"
    )
    keepdims: bool = param(False, doc="keep the reduced axes, with length 1")


def _norm_type(p: NormParams, ins: Types, outs: Types):
    if p.out_dtype is not None:
        return ins, [p.out_dtype]
    return first_type(p, ins, outs)


def _norm_gradient(node: Node, ograds: Entries):
    """dX = dY X / Y (ord 2; as in MXNet NaN where Y is 0), dX = dY sign(X) (ord 1).

    X / Y is at most 1, where dY / Y may be no number of the dtype.
    """
    p: NormParams = node.attrs.parsed
    data, dy, y = node.inputs[0], ograds[0], NodeEntry(node, 0, 0)
    if p.out_dtype is not None:
        dy, y = (apply("_cast_like", value, data) for value in (dy, y))
    direction = apply("elemwise_div", data, spread(y, node)) if p.ord == 2 else apply("sign", data)
    return [apply("elemwise_mul", spread(dy, node), direction)]


register_op(
    "norm",
    aliases=("_sparse_norm",),
    params=NormParams,
    infer_shape=reduce_shapes,
    infer_type=_norm_type,
    gradient=_norm_gradient,
    flops=per_input(2),
    layout=reduction,
    doc="The 1- or 2-norm over axes.",
)

# -- argmax, argmin --------------------------------------------------------------------------------------------------


class ReduceAxisParams(Params):
    axis: Axis | None = param(None, doc="the axis to search along; None: all elements in order")
    keepdims: bool = param(False, doc="keep the reduced axis, with length 1")


def search_shapes(p: ReduceAxisParams, ins: Shapes, outs: Shapes):
    """data (…, d, …) → (…, …); without axis (1,)."""
    data = ins[0]
    if data is None:
        return ins, [(1,) if p.axis is None and not p.keepdims else outs[0]]
    if p.axis is None:
        return ins, [(1,) * len(data) if p.keepdims else (1,)]
    axis = normal_axis(p.axis, len(data))
    return ins, [replaced(data, axis, 1) if p.keepdims else replaced(data, axis) or (1,)]


def _search_layout(p: ReduceAxisParams, order: ChannelsLast) -> Corrected | None:
    """The layout of argmax and argmin. Without axis the number counts all elements in their order."""
    if p.axis is None:
        return None
    layout = reduction(ReduceParams(axis=(p.axis,), keepdims=p.keepdims), order)
    return layout and layout._replace(params={"axis": order.axis(p.axis)})


for _name, _what in (("argmax", "largest"), ("argmin", "smallest")):
    register_op(
        _name,
        params=ReduceAxisParams,
        infer_shape=search_shapes,
        gradient=lambda node, ograds: [None],
        flops=per_input(1),
        layout=_search_layout,
        doc=f"Where the {_what} element is, the first of equals; a number of the dtype of data.",
    )


def _argmax_channel_shapes(p: NoParams, ins: Shapes, outs: Shapes):
    """data (n, d, …) ↔ (n, …)."""
    data, out = ins[0], outs[0]
    if data is None:
        return [None if not out else (out[0], None, *out[1:])], outs
    if len(data) < 2:
        raise InferenceError("No axis of channels", expected="2 axes or more", got=f"{len(data)}")
    back = data if out is None or len(out) != len(data) - 1 else (out[0], data[1], *out[1:])
    return [back], [(data[0], *data[2:])]


register_op(
    "argmax_channel",
    infer_shape=_argmax_channel_shapes,
    gradient=lambda node, ograds: [None],
    flops=per_input(1),
    doc="Where the largest element along axis 1 is, the first of equals.",
)
