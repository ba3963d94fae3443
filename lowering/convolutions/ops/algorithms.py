"""Which algorithm computes a convolution or a gradient of one, and what its weight becomes for that, if it is constant.

Channels last, any algorithm is chosen by the table of measurements. Channels first, products and shifted sums are as
fast as they stand; other groups are loops over single numbers in XLA:CPU, so that these are computed channels last (the
weight's gradient of 28² × 256 in 32 groups takes 6.8 s, with channels last as products 36 ms); the rest is left to XLA.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lowering.convolutions.applicable import LIBRARY, XLA, applies, geometry_of, winograd_tile
from lowering.convolutions.backends import Backend
from lowering.convolutions.choose import SMALL, choose
from lowering.convolutions.geometry import Direction, Geometry
from lowering.convolutions.ops.fused import AnyParams, epilogue_of, in_layout, taken_apart, uses_layout
from lowering.convolutions.ops.winograd import by_winograd
from symjax_nnvm.ir.node import Node, NodeAttrs, NodeEntry, altered
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.types import DType
from symjax_nnvm.ops.nn import deconvolution, up_sampling
from symjax_nnvm.ops.nn.convolution import ConvolutionGeometry, is_pointwise
from symjax_nnvm.ops.nn.fully_connected import FullyConnectedParams

Sizes = Sequence[tuple[int, ...]]
Rule = Callable[[NodeAttrs, Sizes, DType, Backend], str | None]

MEASURED = frozenset({Op.get("_channels_last_convolution")})
"""The operators whose algorithm is chosen by the table, which `lowering.tune` measures for."""

# -- constant weights ------------------------------------------------------------------------------------------------

FEW_ROWS = 16
"""Below, reading the weight of a dense layer is what takes time, and nothing reads it faster: VGG-16's three products
of one image take 10.5 ms in XLA, and 13.8 in oneDNN on two cores."""

MAX_WEIGHT = 1 << 24
"""Numbers of a dense layer's weight: laying a larger one in blocks, and trying the product, takes seconds (those of
4096 × 25088, 4)."""


def _transform(node: Node, shape: tuple[int, ...], dtype: DType, backend: Backend) -> NodeEntry | None:
    """FTransformWeight: by the library; or by another algorithm, and what follows in nodes of its own. Algorithms
    that make nothing of a constant weight are left to FAlgorithm: None. So is a weight in a layout, as a file may have
    it."""
    if uses_layout(node):
        return None
    p = node.attrs.parsed
    g, epilogue = geometry_of(p, shape, dtype), epilogue_of(p)
    if isinstance(p, FullyConnectedParams):
        worth = g.macs > SMALL and g.size[0] >= FEW_ROWS and g.channels * g.filters <= MAX_WEIGHT
        layout = backend.layout(g, epilogue) if worth else None
        return None if layout is None else in_layout(node, layout)
    layout = backend.layout(g, epilogue)
    algorithm = backend.algorithm_of_constant(g, layout)
    if layout is not None and algorithm == LIBRARY:
        return in_layout(node, layout)
    tile = winograd_tile(algorithm)
    if not (tile or epilogue.addend or epilogue.act_type):
        return None
    plain = Node(altered(node.attrs, "_channels_last_convolution"), node.inputs[: 2 + epilogue.bias])
    return taken_apart(node, by_winograd(plain, algorithm, tile) if tile else NodeEntry(plain))


for _name in ("_channels_last_convolution", "_fused_convolution", "FullyConnected", "_fused_fully_connected"):
    Op.get(_name).set_attr("FTransformWeight", _transform)


def _fused(attrs: NodeAttrs, shapes: Sizes, dtype: DType, backend: Backend) -> str:
    """FAlgorithm of a product with what follows it, whose weight may be in a layout."""
    p: AnyParams = attrs.parsed
    g = geometry_of(p, shapes[0], dtype)
    if p.layout and backend.layout(g, epilogue_of(p)) == p.layout:
        return LIBRARY
    return XLA if isinstance(p, FullyConnectedParams) else choose("forward", g, backend.platform)


# -- channels last ---------------------------------------------------------------------------------------------------


def _channels_last(direction: Direction, data: int) -> Rule:
    """FAlgorithm of an operator whose input number `data` is the convolution's."""
    return lambda attrs, shapes, dtype, backend: backend.algorithm(
        direction, geometry_of(attrs.parsed, shapes[data], dtype)
    )


# -- channels first --------------------------------------------------------------------------------------------------


def of_layout(direction: Direction, p: ConvolutionGeometry, data: Sequence[int], dtype: DType, backend: Backend) -> str:
    """Return the geometry of a convolution of data of this shape, in the convolution's layout."""
    g = geometry_of(p, [data[axis] for axis in (0, *p.spatial_axes, p.channel_axis)], dtype)
    if backend.first_on_gpu:
        return _without_cudnn(direction, g)
    if backend.platform != "cpu":
        return XLA
    if p.channel_axis == 1 and is_pointwise(p):
        return "product"
    if p.num_group == 1:
        return "whole" if applies("whole", direction, g) else XLA
    if applies("shifts", direction, g):
        return "rows" if applies("rows", direction, g) else "shifts"
    return choose(direction, g, backend.platform)


def _without_cudnn(direction: Direction, g: Geometry) -> str:
    """Of a depth-wise convolution in first calls on a GPU: XLA has cuDNN try every algorithm of each, which is nearly
    all of the 50 s of MobileNet's first step on an H200. Sums are not tried, and compiled as everything around."""
    is_depthwise = 1 < g.groups == g.channels and isinstance(g.macs, int)
    return "shifts" if is_depthwise and applies("shifts", direction, g) else XLA


Convolution = tuple[ConvolutionGeometry, Sequence[int]]
"""A convolution's parameters, and the shape of its data."""


def _in_any_layout(direction: Direction, read: Callable[[Any, Sizes], Convolution | None]) -> Rule:
    """FAlgorithm of an operator that is a direction of a convolution. read: its parameters and the shapes of its
    inputs → that convolution."""

    def algorithm(attrs: NodeAttrs, shapes: Sizes, dtype: DType, backend: Backend) -> str | None:
        convolution = read(attrs.parsed, shapes)
        return convolution and of_layout(direction, *convolution, dtype, backend)

    return algorithm


def _data_is(number: int) -> Callable[[ConvolutionGeometry, Sizes], Convolution]:
    return lambda p, shapes: (p, shapes[number])


def _deconvolution(p: deconvolution.DeconvolutionParams, shapes: Sizes) -> Convolution:
    return deconvolution.transposed(p, shapes[0])


def _of_deconvolution(number: int) -> Callable[[deconvolution.DeconvolutionParams, Sizes], Convolution]:
    """The head gradient of a deconvolution, its first input, is the data of its convolution. number: of its data."""
    return lambda p, shapes: (deconvolution.transposed(p, shapes[number])[0], shapes[0])


def _bilinear(p: up_sampling.UpSamplingParams, shapes: Sizes) -> Convolution | None:
    if p.sample_type != "bilinear":
        return None
    n, c, h, w = shapes[0]
    return up_sampling.convolution_of(p, c), (n, c, h * p.scale, w * p.scale)


def _of_bilinear(p: up_sampling.FilterParams, shapes: Sizes) -> Convolution:
    return up_sampling.convolution_of(p, shapes[0][1]), shapes[0]


for _name, _rule in {
    "_channels_last_convolution": _channels_last("forward", 0),
    "_backward_channels_last_convolution_data": _channels_last("data", 2),
    "_backward_channels_last_convolution_weight": _channels_last("weight", 1),
    "_fused_convolution": _fused,
    "_fused_fully_connected": _fused,
    "_winograd_convolution": lambda attrs, shapes, dtype, backend: attrs.parsed.algorithm,
    **dict.fromkeys(("Convolution", "Convolution_v1"), _in_any_layout("forward", _data_is(0))),
    "_backward_Convolution_data": _in_any_layout("data", _data_is(2)),
    "_backward_Convolution_weight": _in_any_layout("weight", _data_is(1)),
    "Deconvolution": _in_any_layout("data", _deconvolution),
    "_backward_Deconvolution_data": _in_any_layout("forward", _of_deconvolution(2)),
    "_backward_Deconvolution_weight": _in_any_layout("weight", _of_deconvolution(1)),
    "UpSampling": _in_any_layout("data", _bilinear),
    "_backward_UpSampling_data": _in_any_layout("forward", _of_bilinear),
    "_backward_UpSampling_weight": _in_any_layout("weight", _of_bilinear),
}.items():
    Op.get(_name).set_attr("FAlgorithm", _rule)
