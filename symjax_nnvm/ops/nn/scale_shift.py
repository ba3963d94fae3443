"""What BatchNorm is where it does not train: each channel times a number, plus another; and what takes that in."""

from __future__ import annotations

from collections.abc import Sequence

from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.params import Axis, Params, param
from symjax_nnvm.ir.register import Entries, Shapes, Types, register_op
from symjax_nnvm.ir.rules.layout_rules import along
from symjax_nnvm.ir.rules.samples import across
from symjax_nnvm.ops.nn.batch_norm import BatchNormLike, batch_norm_shapes, batch_norm_types


class ScaleShiftParams(Params):
    axis: Axis = param(1, doc="the axis of channels")


def _scale_shift_shapes(p: BatchNormLike, ins: Shapes, outs: Shapes):
    """data (…, c, …), scale, shift (c,) → (…, c, …)."""
    inputs, outputs = batch_norm_shapes(p, ins, outs)
    return inputs[:3], outputs[:1]


def _scale_shift_types(p: BatchNormLike, ins: Types, outs: Types):
    """data and output of one floating-point dtype, scale and shift of the same, float32 at least."""
    inputs, outputs = batch_norm_types(p, ins, outs)
    return inputs[:3], outputs[:1]


def _scale_shift_gradient(node: Node, ograds: Entries):
    """dX = dY scale, dscale = Σ dY X, dshift = Σ dY, all but channels summed over."""
    data, scale, _ = node.inputs
    axis = node.attrs.parsed.axis
    x, dy = (apply("_cast_like", entry, scale) for entry in (data, ograds[0]))
    factor = apply("_channels_like", scale, x, axis=axis)
    dscale = apply("sum", apply("elemwise_mul", dy, x), axis=axis, exclude=True)
    dx = apply("_cast_like", apply("broadcast_mul", dy, factor), data)
    return [dx, dscale, apply("sum", dy, axis=axis, exclude=True)]


register_op(
    "_scale_shift",
    samples=across("axis"),
    params=ScaleShiftParams,
    inputs=("data", "scale", "shift"),
    infer_shape=_scale_shift_shapes,
    infer_type=_scale_shift_types,
    gradient=_scale_shift_gradient,
    inplace=((0, 0),),
    flops=2,
    precision="either",
    layout=along("axis", inputs=1),
    drawing="normalization",
    doc="data · scale + shift, with a number of each for every channel: what BatchNorm is where it does not train. "
    "Computed in the dtype of scale.",
)


# -- what products make of it ----------------------------------------------------------------------------------------


def _times(weight: NodeEntry, vector: NodeEntry, weight_as: Sequence[int], num_group: int) -> NodeEntry:
    """A weight times a vector, in the vector's dtype. weight_as: the vector's shape along the weight, or along one of
    several groups of it, which stand one after the other on the first axis."""
    rows = apply("_cast_like", weight, vector)
    if num_group == 1:
        return apply("broadcast_mul", rows, apply("Reshape", vector, shape=weight_as))
    grouped = apply("Reshape", rows, shape=(-4, num_group, -1, -2))
    grouped = apply("broadcast_mul", grouped, apply("Reshape", vector, shape=(num_group, *weight_as)))
    return apply("Reshape", grouped, shape=(-3, -2))


def _with_weights(node: Node, rows: NodeEntry, bias: NodeEntry) -> Node:
    """The node with another weight, cast to the dtype of the one it has, and another bias."""
    data, weight = node.inputs[:2]
    scaled = apply("_cast_like", rows, weight, name=f"{weight.node.name or node.name}_scaled")
    attrs = node.attrs.copy()
    attrs.dict["no_bias"] = "False"
    attrs.parse()
    return Node(attrs, [data, scaled, bias])


def scaled_product(
    node: Node, scale: NodeEntry, shift: NodeEntry, weight_as: Sequence[int], num_group: int = 1
) -> Node:
    """A product of (data, weight, perhaps a bias) whose result is scaled and shifted, channel by channel.

    scale, shift: (f,). weight_as: the shape of scale along the weight, with -1 for the filters. num_group: where each
    group has its own share of the filters and of the weight's first axis; weight_as is then that of one group.
    """
    _, weight, *bias = node.inputs
    if bias:
        name = f"{bias[0].node.name or node.name}_shifted"
        shifted = apply("_scale_shift", bias[0], scale, shift, axis=0, name=name)
    else:
        shifted = apply("_cast_like", shift, weight, name=f"{node.name}_bias")
    return _with_weights(node, _times(weight, scale, weight_as, num_group), shifted)


def product_of_scaled(
    node: Node, scale: NodeEntry, shift: NodeEntry, weight_as: Sequence[int], num_group: int = 1
) -> Node:
    """A product of (data, weight, perhaps a bias) that scales and shifts its data's channels itself.

    scale, shift: (c,). weight_as: the shape of scale along the weight, or along one of its groups of filters, with -1
    for the channels. Every element of the weight meets one of data, none its padding.
    """
    _, weight, *bias = node.inputs
    bias_shift = apply("sum", _times(weight, shift, weight_as, num_group), axis=0, exclude=True)
    name = f"{node.name}_bias"
    if bias:
        bias_shift = apply("elemwise_add", apply("_cast_like", bias[0], shift), bias_shift)
        name = f"{bias[0].node.name or node.name}_shifted"
    shifted = apply("_cast_like", bias_shift, weight, name=name)
    return _with_weights(node, _times(weight, scale, weight_as, num_group), shifted)
