"""Images as networks take them: to_tensor puts channels first and divides by 255, normalize subtracts and divides."""

from __future__ import annotations

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, apply
from symjax_nnvm.ir.op import Deviation
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Entries, Shapes, Types, register_op
from symjax_nnvm.ir.rules.axes import completed
from symjax_nnvm.ir.rules.costs import per_output
from symjax_nnvm.ir.rules.linear import linear
from symjax_nnvm.ir.types import Shape
from symjax_nnvm.ops.image.shapes import one_or_many, one_or_three

Floats = tuple[float, ...]

# -- to_tensor -------------------------------------------------------------------------------------------------------


def _to_tensor_shapes(p: Params, ins: Shapes, outs: Shapes):
    """data (h, w, c) ↔ (c, h, w), data (n, h, w, c) ↔ (n, c, h, w)."""
    data, out = ins[0], outs[0]
    for shape in (data, out):
        one_or_many(shape)
    data = completed(data, None if out is None else (*out[:-3], *out[-2:], out[-3]))
    return [data], [None if data is None else (*data[:-3], data[-1], *data[-3:-1])]


def _to_tensor_types(p: Params, ins: Types, outs: Types):
    """data of any dtype → float32."""
    return [ins[0]], ["float32"]


def _to_tensor_gradient(node: Node, ograds: Entries):
    """dX = dY / 255, channels last again, in the dtype of the data."""
    rows_first = apply("SwapAxis", ograds[0], dim1=-3, dim2=-2)
    channels_last = apply("SwapAxis", rows_first, dim1=-2, dim2=-1)
    return [apply("_cast_like", apply("_div_scalar", channels_last, scalar=255), node.inputs[0])]


register_op(
    "_image_to_tensor",
    aliases=("_npx__image_to_tensor",),
    infer_shape=_to_tensor_shapes,
    infer_type=_to_tensor_types,
    gradient=_to_tensor_gradient,
    not_derivative="the result is float32 whatever the dtype: a staircase to finite differences in float64",
    flops=per_output(1),
    deviation=Deviation("has a gradient, where MXNet's stops with an error", "training"),
    doc="An image (h, w, c) with values from 0 to 255 as a tensor (c, h, w), float32, with values from 0 to 1; or a "
    "batch (n, h, w, c) of them.",
)

# -- normalize -------------------------------------------------------------------------------------------------------


class NormalizeParams(Params):
    mean: Floats = param((0.0, 0.0, 0.0, 0.0), doc="subtracted from each channel; one number: from all")
    std: Floats = param((1.0, 1.0, 1.0, 1.0), doc="what each channel is divided by; one number: all")


def _check_channels(p: NormalizeParams, data: Shape | None) -> None:
    """Raise InferenceError where mean and std do not fit the channels."""
    one_or_many(data, "(channels, height, width), or (n, channels, height, width)")
    one_or_three(data, -3)
    for name in ("mean", "std"):
        count = len(getattr(p, name))
        if data is not None and data[-3] is not None and count not in (1, data[-3]):
            raise InferenceError(
                f"Invalid {name} for an image of {data[-3]} channels",
                param=name,
                expected=f"1 number, or {data[-3]}",
                got=getattr(p, name),
            )


def _normalize_shapes(p: NormalizeParams, ins: Shapes, outs: Shapes):
    """data (c, h, w) ↔ (c, h, w), data (n, c, h, w) ↔ (n, c, h, w)."""
    shape = completed(ins[0], outs[0])
    _check_channels(p, shape)
    return [shape], [shape]


register_op(
    "_image_normalize",
    aliases=("_npx__image_normalize",),
    params=NormalizeParams,
    infer_shape=_normalize_shapes,
    inplace=((0, 0),),
    flops=per_output(2),
    doc="Tensors (c, h, w) or (n, c, h, w) of 1 channel or 3, less the mean of each channel, over its deviation. mean "
    "and std have one number, or one for each channel: their defaults, as MXNet's, fit none.",
)


linear(
    "_image_normalize",
    of="data",
    adjoint="_backward_image_normalize",
    inputs=("ograd",),
    restored={"mean": (0.0,)},
    inplace=((0, 0),),
    flops=per_output(1),
    doc="The gradient of normalize: each channel of the head gradient over its deviation.",
)
