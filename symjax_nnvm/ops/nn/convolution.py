"""Convolution over one, two or three spatial axes, with groups, strides, dilation, padding, and every layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, ClassVar, Literal, Protocol

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.params import Params, Tuple, param
from symjax_nnvm.ir.register import Shapes, float_type, register_op
from symjax_nnvm.ir.rules.axes import known, size_of
from symjax_nnvm.ir.rules.costs import Flops, FlopsRule, Sizes, WorkspaceRule, extended
from symjax_nnvm.ir.rules.linear import Adjoint, At, multilinear
from symjax_nnvm.ir.rules.named_dims import of_rank
from symjax_nnvm.ir.rules.quantized_form import quantized_as
from symjax_nnvm.ir.rules.size_symbols import is_at_most
from symjax_nnvm.ir.types import Dim, Shape
from symjax_nnvm.ops.nn.scale_shift import product_of_scaled, scaled_product

Layout = Literal["NCDHW", "NCHW", "NCW", "NDHWC", "NHWC"]
Tuning = Literal["fastest", "limited_workspace", "off"]

Step = tuple[int, int, int, int]
"""A window's way along one axis: (dilated kernel size, stride, dilation, padding)."""

DEFAULT_LAYOUTS = ("NCW", "NCHW", "NCDHW")


MAX_STEP = 2**31 - 1
"""The largest stride and dilation: XLA's convolutions count them in 32 bits, and divide by what is left of 2³²."""


class Window(Protocol):
    """The places of a window; () in stride, dilate or pad is 1, 1 or 0 along every axis."""

    @property
    def kernel(self) -> Tuple: ...
    @property
    def stride(self) -> Tuple: ...
    @property
    def dilate(self) -> Tuple: ...
    @property
    def pad(self) -> Tuple: ...


def window_problem(p: Window) -> str | None:
    """What is wrong with a window: too few or too many axes, or parameters without one number for each."""
    rank = len(p.kernel)
    if not 1 <= rank <= 3:
        return f"Parameter kernel={p.kernel}: {rank}D convolution not supported, expected 1, 2 or 3 sizes"
    for name in ("stride", "dilate", "pad"):
        value = getattr(p, name)
        if value and len(value) != rank:
            return unequal_ranks(name, value, p.kernel)
    return None


def unequal_ranks(name: str, value: Tuple, kernel: Tuple) -> str:
    return (
        f"Parameter {name}={value}: {name} must have the same number of dimensions with kernel_size, "
        f"but kernel_size is set to {kernel}"
    )


def window_steps(p: Window) -> tuple[Step, ...]:
    """The window's way along each spatial axis."""
    ones, zeros = (1,) * len(p.kernel), (0,) * len(p.kernel)
    parts = zip(p.kernel, p.stride or ones, p.dilate or ones, p.pad or zeros, strict=True)
    return tuple(((k - 1) * d + 1, s, d, pad) for k, s, d, pad in parts)


class WindowParams(Params):
    kernel: Tuple = param(ge=1, doc="window: one, two or three spatial sizes")
    stride: Tuple = param((), ge=1, le=MAX_STEP, doc="step of the window in each spatial axis; (): 1")
    dilate: Tuple = param((), ge=1, le=MAX_STEP, doc="distance of the window's elements in each spatial axis; (): 1")
    pad: Tuple = param((), ge=0, doc="zeros added on both sides of each spatial axis; (): none")

    def check(self) -> str | None:
        return window_problem(self)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The window's way along each spatial axis."""
        return window_steps(self)

    @property
    def window_size(self) -> int:
        """The number of elements in a window."""
        return size_of(self.kernel) or 1


class Grouped(Protocol):
    """The number of groups of channels."""

    @property
    def num_group(self) -> int: ...


class ConvolutionGeometry(WindowParams):
    num_filter: int = param(ge=1, doc="number of output channels")
    num_group: int = param(1, ge=1, doc="number of groups; each convolves its own share of the channels")
    layout: Layout | None = param(None, doc="order of the axes of data; None: channels first")

    def check(self) -> str | None:
        problem = super().check()
        if problem:
            return problem
        rank = len(self.kernel)
        if self.layout is not None and len(self.layout) != rank + 2:
            return f"Parameter layout={self.layout!r}: expected {rank} spatial axes, as kernel={self.kernel} has"
        if self.num_filter % self.num_group:
            return f"Parameter num_filter={self.num_filter}: expected a multiple of num_group={self.num_group}"
        return None

    @property
    def axes(self) -> str:
        """The letters of the axes of data, whether or not the layout was given."""
        return self.layout or DEFAULT_LAYOUTS[len(self.kernel) - 1]

    @property
    def channel_axis(self) -> int:
        """The axis of channels in data, weight gradient and output."""
        return self.axes.index("C")

    @property
    def spatial_axes(self) -> tuple[int, ...]:
        """The axes of data, of the output and of the weight that the window moves over."""
        return tuple(i for i, letter in enumerate(self.axes) if letter not in "NC")


class ConvolutionParams(ConvolutionGeometry):
    positional: ClassVar = (
        *("kernel", "stride", "dilate", "pad", "num_filter", "num_group"),
        *("workspace", "no_bias", "cudnn_tune", "cudnn_off", "layout"),
    )
    no_bias: bool = param(False, doc="leave the bias out")
    workspace: int = param(1024, ge=0, le=8192, doc="memory limit of cuDNN in MB; accepted and without effect")
    cudnn_tune: Tuning | None = param(None, doc="cuDNN's choice of algorithm; accepted and without effect")
    cudnn_off: bool = param(False, doc="accepted and without effect")


def is_pointwise(p: ConvolutionGeometry) -> bool:
    """Whether each place of the output reads only the same place of data, in all channels."""
    return p.num_group == 1 and all((kernel, stride, pad) == (1, 1, 0) for kernel, stride, _, pad in p.steps)


def output_size(size: Dim, step: Step) -> Dim:
    kernel, stride, _, pad = step
    if size is None:
        return None
    if not is_at_most(kernel, size + 2 * pad):
        raise InferenceError(
            "kernel size exceed input",
            param="kernel",
            expected=f"a dilated kernel of at most {size + 2 * pad}, the padded input",
            got=kernel,
        )
    return (size + 2 * pad - kernel) // stride + 1


def input_size(size: Dim, step: Step) -> Dim:
    """The input size of an output size; with a stride several inputs have it."""
    kernel, stride, _, pad = step
    return None if size is None or stride != 1 else size + kernel - 1 - 2 * pad


def ranked(shape: Shape | None, p: ConvolutionGeometry, what: str) -> Shape:
    problem = f"Input {what} should be {len(p.axes)}D in {p.axes} for a kernel of {len(p.kernel)} sizes"
    return of_rank(shape, len(p.axes), problem, param="kernel")


def arranged(p: ConvolutionGeometry, first: Dim, channels: Dim, sizes: Sequence[Dim]) -> Shape:
    """A shape in the layout of data: batch or filters, channels, spatial sizes."""
    spatial_sizes = iter(sizes)
    return tuple({"N": first, "C": channels}[letter] if letter in "NC" else next(spatial_sizes) for letter in p.axes)


def weight_channels(p: Grouped, channels: Dim) -> Dim:
    if channels is not None and channels % p.num_group:
        raise InferenceError(
            "Input channels must be divisible by the number of groups",
            param="num_group",
            expected=f"a divisor of {channels} channels",
            got=p.num_group,
        )
    return None if channels is None else channels // p.num_group


def convolution_shapes(p: ConvolutionGeometry, ins: Shapes, outs: Shapes):
    """data (n, c, …d), weight (f, c / groups, …k), bias (f,) → (n, f, …), arranged as the layout says."""
    data, out = ranked(ins[0], p, "data"), ranked(outs[0], p, "output")
    weight = ranked(ins[1], p, "weight")
    axis, axes = p.channel_axis, p.spatial_axes
    share = weight[axis]
    channels = known(data[axis], None if share is None else share * p.num_group)
    share = known(weight_channels(p, channels), share)
    batch = known(data[0], out[0])
    sizes = [known(data[i], input_size(out[i], step)) for i, step in zip(axes, p.steps, strict=True)]
    results = [known(output_size(size, step), out[i]) for i, size, step in zip(axes, sizes, p.steps, strict=True)]
    inputs = [arranged(p, batch, channels, sizes), arranged(p, p.num_filter, share, p.kernel)]
    if len(ins) > 2:
        inputs.append((p.num_filter,))
    return inputs, [arranged(p, batch, p.num_filter, results)]


def bias_gradient(node: Node, dy: NodeEntry, at: At) -> NodeEntry:
    """The bias is added to all but channels: its gradient is the sum over them."""
    return apply("sum", dy, axis=node.attrs.parsed.channel_axis, exclude=True)


# -- what follows a convolution --------------------------------------------------------------------------------------


def is_channel_axis(p: ConvolutionGeometry, axis: int) -> bool:
    """Whether an axis, perhaps counted from the end, is that of the channels."""
    return axis in (p.channel_axis, p.channel_axis - len(p.axes))


def scaled_convolution(node: Node, scale: NodeEntry, shift: NodeEntry, axis: int) -> Node | None:
    """Filters stand on the weight's first axis in every layout: FScaled of convolutions."""
    p: ConvolutionGeometry = node.attrs.parsed
    ones = (1,) * (len(p.axes) - 1)
    return scaled_product(node, scale, shift, (-1, *ones)) if is_channel_axis(p, axis) else None


def convolution_of_scaled(
    node: Node, scale: NodeEntry, shift: NodeEntry, axis: int, shape: Shape | None
) -> Node | None:
    """Padding is 0 whatever the shift, so there must be none: FScaledData of convolutions."""
    p: ConvolutionGeometry = node.attrs.parsed
    if any(p.pad) or not is_channel_axis(p, axis):
        return None
    along = tuple(-1 if i == p.channel_axis else 1 for i in range(len(p.axes)))
    return product_of_scaled(node, scale, shift, along, p.num_group)


# -- costs -----------------------------------------------------------------------------------------------------------


def convolution_flops(p: Any, ins: Sizes, outs: Sizes) -> Flops:
    """Each output element sums over the window and over its group's input channels: the weight has them all."""
    out, weight = prod(outs[0]), ins[-1 if p.no_bias else -2]
    return Flops(out * (prod(weight) // p.num_filter), 0 if p.no_bias else out)


def gradient_flops(weight: Callable[[Sizes, Sizes], tuple[int, ...]]) -> FlopsRule:
    """Each element of the head gradient is multiplied with the window and its group's input channels."""
    return lambda p, ins, outs: Flops(prod(ins[0]) * (prod(weight(ins, outs)) // p.num_filter))


def padded(which: Callable[[Sizes, Sizes], tuple[int, ...]]) -> WorkspaceRule:
    """The data, padded, of an operator with a window over spatial axes. which: (ins, outs) → their shape."""

    def workspace(p: Any, ins: Sizes, outs: Sizes) -> int:
        shape = which(ins, outs)
        axes = getattr(p, "spatial_axes", range(2, len(shape)))
        return extended(shape, axes, [2 * pad for *_, pad in p.steps])

    return workspace


def spread(p: Any, ins: Sizes, outs: Sizes) -> int:
    """A window moving over the first input, its values spread a stride apart, as a convolution's data gradient does."""
    margins = [2 * pad + 2 * (kernel - 1) for kernel, _, _, pad in p.steps]
    values = list(ins[0])
    for axis, (kernel, stride, _, _) in zip(p.spatial_axes, p.steps, strict=True):
        values[axis] = (values[axis] - 1) * stride + 1 + 2 * (kernel - 1)
    return max(prod(values), extended(outs[0], p.spatial_axes, margins))


register_op(
    "Convolution",
    FQuantized=quantized_as("_contrib_quantized_conv", is_product=True, requantized=True),
    samples="each",
    aliases=("_npx_convolution",),
    params=ConvolutionParams,
    inputs=("data", "weight", "bias"),
    inputs_used=lambda p: ("data", "weight") if p.no_bias else ("data", "weight", "bias"),
    infer_shape=convolution_shapes,
    infer_type=float_type,
    flops=convolution_flops,
    workspace=padded(lambda ins, outs: ins[0]),
    precision="half",
    recompute="if forced",
    FScaled=scaled_convolution,
    FScaledData=convolution_of_scaled,
    drawing="convolution",
    doc="Convolution of data with num_filter learned windows, plus a bias for each. Works in every layout; the weight "
    "uses the layout of data with num_filter in place of n: (f, c / groups, h, w), or (f, h, w, c / groups) for NHWC.",
)


def differentiate(name: str, params: type[Params]) -> None:
    """Register the adjoints of a convolution by data and by weight, which are of one form in every order of axes."""
    stem = f"_backward_{name.removeprefix('_')}"
    multilinear(
        name,
        of={
            "data": Adjoint(
                f"{stem}_data",
                ("ograd", "weight", "data"),
                attributes={"flops": gradient_flops(lambda ins, outs: ins[1]), "workspace": spread},
            ),
            "weight": Adjoint(
                f"{stem}_weight",
                ("ograd", "data"),
                attributes={
                    "flops": gradient_flops(lambda ins, outs: outs[0]),
                    "workspace": padded(lambda ins, outs: ins[1]),
                },
            ),
        },
        params=params,
        given=True,
        restored={"no_bias": True},
        others={"bias": bias_gradient},
    )


differentiate("Convolution", ConvolutionGeometry)
