"""Which algorithm computes a convolution or a gradient of one, and what its weight becomes for that, if it is constant.

Channels last, any algorithm is chosen by the table of measurements. Channels first, products and shifted sums are as
fast as they stand; other groups are loops over single numbers in XLA:CPU, so that these are computed channels last (the
weight's gradient of 28² × 256 in 32 groups takes 6.8 s, with channels last as products 36 ms); the rest is left to XLA.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from symjax_nnvm.algorithms import choose
from symjax_nnvm.geometry import LIBRARY, XLA, Direction, Geometry, Library, Machine, applies, winograd_tile
from symjax_nnvm.ir.node import Node, NodeAttrs, NodeEntry, altered
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.types import DType
from symjax_nnvm.ops.nn import deconvolution, up_sampling
from symjax_nnvm.ops.nn.channels_last import geometry
from symjax_nnvm.ops.nn.convolution import ConvolutionGeometry, is_pointwise
from symjax_nnvm.ops.nn.fused_convolution import FusedConvolutionParams, blocked, epilogue_of, taken_apart
from symjax_nnvm.ops.nn.winograd import by_winograd

Sizes = Sequence[tuple[int, ...]]
Rule = Callable[[NodeAttrs, Sizes, DType, Machine], str | None]

# -- constant weights ------------------------------------------------------------------------------------------------


def _transform(
    node: Node, shape: tuple[int, ...], dtype: DType, platform: str, library: Library | None
) -> NodeEntry | None:
    """FTransformWeight: by the library; or by another algorithm, and what follows in nodes of its own. Algorithms that
    make nothing of a constant weight are left to FAlgorithm: None. So is that of a weight in blocks, as a file may have
    it."""
    if isinstance(node.attrs.parsed, FusedConvolutionParams) and node.attrs.parsed.block:
        return None
    g, epilogue = geometry(node.attrs.parsed, shape, dtype), epilogue_of(node)
    block = None if library is None else library.block(g, epilogue)
    algorithm = choose("forward", g, platform, constant=True, library=block is not None)
    if block is not None and algorithm == LIBRARY:
        return blocked(node, block, g.channels)
    tile = winograd_tile(algorithm)
    if not (tile or epilogue.addend or epilogue.act_type):
        return None
    plain = Node(altered(node.attrs, "_channels_last_convolution"), node.inputs[: 2 + epilogue.bias])
    return taken_apart(node, by_winograd(plain, algorithm, tile) if tile else NodeEntry(plain))


for _name in ("_channels_last_convolution", "_fused_convolution"):
    Op.get(_name).set_attr("FTransformWeight", _transform)

# -- channels last ---------------------------------------------------------------------------------------------------


def _channels_last(direction: Direction, g: Geometry, machine: Machine) -> str:
    """By the table; a library that the machine has is one of the algorithms, where it computes the geometry."""
    precise = machine.precise if direction == "forward" else direction == "data"
    platform, library = machine.platform, machine.library
    name = choose(direction, g, platform, precise=precise, library=library is not None and direction != "weight")
    if name == LIBRARY and library is not None and not library.computes(direction, g):
        return choose(direction, g, platform, precise=precise)
    return name


def _with_channels_last(direction: Direction, data: int) -> Rule:
    """FAlgorithm of an operator whose input number `data` is the convolution's."""
    return lambda attrs, shapes, dtype, machine: _channels_last(
        direction, geometry(attrs.parsed, shapes[data], dtype), machine
    )


def _fused(attrs: NodeAttrs, shapes: Sizes, dtype: DType, machine: Machine) -> str:
    """FAlgorithm of a convolution with what follows it, whose weight may lie in blocks."""
    p: FusedConvolutionParams = attrs.parsed
    g = geometry(p, shapes[0], dtype)
    return LIBRARY if machine.takes(p.block, g, p.epilogue) else choose("forward", g, machine.platform)


# -- channels first --------------------------------------------------------------------------------------------------


def of_layout(direction: Direction, p: ConvolutionGeometry, data: Sequence[int], dtype: DType, platform: str) -> str:
    """Of a convolution of data of this shape, in the layout that it says."""
    if platform != "cpu":
        return XLA
    if p.channel_axis == 1 and is_pointwise(p):
        return "product"
    if p.num_group == 1:
        return XLA
    g = geometry(p, [data[axis] for axis in (0, *p.spatial_axes, p.channel_axis)], dtype)
    if applies("shifts", direction, g):
        return "rows" if applies("rows", direction, g) else "shifts"
    return choose(direction, g, platform)


Convolution = tuple[ConvolutionGeometry, Sequence[int]]
"""A convolution's parameters, and the shape of its data."""


def _in_any_layout(direction: Direction, of: Callable[[Any, Sizes], Convolution | None]) -> Rule:
    """FAlgorithm of an operator that is a direction of a convolution. of: its parameters and the shapes of its inputs →
    that convolution."""

    def algorithm(attrs: NodeAttrs, shapes: Sizes, dtype: DType, machine: Machine) -> str | None:
        found = of(attrs.parsed, shapes)
        return found and of_layout(direction, *found, dtype, machine.platform)

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


of_convolution = _in_any_layout("forward", _data_is(0))
"""FAlgorithm of a convolution in the layout that it says."""

for _name, _rule in {
    "_channels_last_convolution": _with_channels_last("forward", 0),
    "_backward_channels_last_convolution_data": _with_channels_last("data", 2),
    "_backward_channels_last_convolution_weight": _with_channels_last("weight", 1),
    "_fused_convolution": _fused,
    "_winograd_convolution": lambda attrs, shapes, dtype, machine: attrs.parsed.algorithm,
    "Convolution": of_convolution,
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
