"""UpSampling: images magnified by a whole factor, by repetition or by a learned bilinear filter, and its gradients."""

from __future__ import annotations

from math import prod
from typing import Literal

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, NodeAttrs
from symjax_nnvm.ir.params import MAX_COUNT, Params, param
from symjax_nnvm.ir.register import Shapes, float_type, register_op
from symjax_nnvm.ir.rules.axes import known
from symjax_nnvm.ir.rules.costs import Flops, Sizes
from symjax_nnvm.ir.rules.linear import Adjoint, jointly_linear, multilinear
from symjax_nnvm.ir.rules.named_dims import image_shape
from symjax_nnvm.ir.types import Dim, Shape
from symjax_nnvm.ops.nn.convolution import ConvolutionGeometry


class UpSamplingParams(Params):
    scale: int = param(ge=1, doc="factor of height and width")
    num_filter: int = param(0, ge=0, doc="bilinear: the number of channels; 0: that of data")
    sample_type: Literal["bilinear", "nearest"] = param(doc="nearest: repeat; bilinear: filter with `weight`")
    multi_input_mode: Literal["concat", "sum"] = param(
        "concat", doc="nearest: how several inputs are combined; concat joins their channels"
    )
    num_args: int = param(ge=1, le=MAX_COUNT, doc="nearest: number of inputs, each magnified to the size of the first")
    workspace: int = param(512, ge=0, doc="memory limit of cuDNN in MB; accepted and without effect")

    def check(self) -> str | None:
        if self.sample_type == "bilinear" and self.num_args > 2:
            return f"Parameter num_args={self.num_args}: bilinear takes data and weight, expected 1 or 2"
        return None


class BackwardNearestParams(Params):
    multi_input_mode: Literal["concat", "sum"] = param("concat", doc="what was made of the inputs")
    scale: int = param(ge=1, doc="factor of the first input")
    num_args: int = param(ge=2, le=MAX_COUNT, doc="number of inputs: the head gradient, and the inputs of UpSampling")


class FilterParams(Params):
    scale: int = param(ge=1, doc="factor of height and width")

    @property
    def kernel(self) -> int:
        """The filter's height and width: it reaches from one element to the next on either side."""
        return 2 * self.scale - self.scale % 2

    @property
    def pad(self) -> int:
        """What the filter reaches past the edge, and is cut off there."""
        return self.scale // 2


def filter_of(p: UpSamplingParams | FilterParams) -> FilterParams:
    """The geometry of the bilinear filter."""
    return FilterParams(scale=p.scale)


def convolution_of(p: UpSamplingParams | FilterParams, channels: int) -> ConvolutionGeometry:
    """The convolution of each channel by itself whose data gradient the bilinear filter is."""
    p = filter_of(p)
    kernel, stride, pad = ((n,) * 2 for n in (p.kernel, p.scale, p.pad))
    return ConvolutionGeometry(kernel=kernel, stride=stride, pad=pad, num_filter=channels, num_group=channels)


# -- shapes ----------------------------------------------------------------------------------------------------------


def _magnified(size: Dim, scale: int) -> Dim:
    return None if size is None else size * scale


def _reduced(size: Dim, scale: int) -> Dim:
    """The size that gives another one, when there is such a size."""
    return None if size is None or size % scale else size // scale


def _nearest_shapes(p: UpSamplingParams, ins: Shapes, outs: Shapes):
    """data (n, c, h, w), more (n, c', h', w') with h' | s h → (n, Σ c, s h, s w), or (n, c, s h, s w) of sums."""
    data, out = [image_shape(shape, f"arg{i}") for i, shape in enumerate(ins)], image_shape(outs[0], "output")
    n = known(*(shape[0] for shape in (*data, out)))
    sizes = [known(_magnified(data[0][i], p.scale), out[i]) for i in (2, 3)]
    _check_factors(data, sizes)
    channels: list[Dim] = [shape[1] for shape in data]
    if p.multi_input_mode == "sum" or len(data) == 1:
        total = known(*channels, out[1])
        channels = [total] * len(data)
    else:
        total = None if None in channels else sum(c for c in channels if c is not None)
    first = [known(data[0][i + 2], _reduced(size, p.scale)) for i, size in enumerate(sizes)]
    inputs = [(n, channels[0], *first), *((n, c, *shape[2:]) for c, shape in zip(channels[1:], data[1:], strict=True))]
    return inputs, [(n, known(total, out[1]), *sizes)]


def _check_factors(data: list[Shape], sizes: list[Dim]) -> None:
    """Every input must fit into the output a whole number of times, in height as in width."""
    for i, shape in enumerate(data):
        factors: list[int] = []
        for what, size, whole in zip(("height", "width"), shape[2:], sizes, strict=True):
            if size is None or whole is None:
                continue
            if whole % size:
                problem = f"input {what} of {size} does not divide output {what} of {whole}"
                raise InferenceError(problem, input=f"arg{i}", expected=f"a divisor of {whole}", got=size)
            factors.append(whole // size)
        if len(set(factors)) > 1:
            problem = "Height and width would be magnified differently"
            raise InferenceError(problem, input=f"arg{i}", expected="one factor", got=factors)


def _bilinear_shapes(p: FilterParams, ins: Shapes, outs: Shapes):
    """data (n, c, h, w), weight (c, 1, k, k) → (n, c, s h, s w)."""
    data, weight, out = image_shape(ins[0], "data"), image_shape(ins[1], "weight"), image_shape(outs[0], "output")
    n, c = known(data[0], out[0]), known(data[1], out[1], weight[0])
    sizes = [known(_magnified(data[i], p.scale), out[i]) for i in (2, 3)]
    first = [known(data[i + 2], _reduced(size, p.scale)) for i, size in enumerate(sizes)]
    return [(n, c, *first), (c, 1, p.kernel, p.kernel)], [(n, c, *sizes)]


def _up_sampling_shapes(p: UpSamplingParams, ins: Shapes, outs: Shapes):
    if p.sample_type == "nearest":
        return _nearest_shapes(p, ins, outs)
    inputs, outputs = _bilinear_shapes(filter_of(p), ins, outs)
    channels = inputs[0][1]
    if channels is not None and p.num_filter not in (0, channels):
        problem = "Bilinear sampling filters each channel separately"
        expected = f"{channels}, the number of channels, or 0"
        raise InferenceError(problem, param="num_filter", expected=expected, got=p.num_filter)
    return inputs, outputs


# -- operators -------------------------------------------------------------------------------------------------------


def _input_names(attrs: NodeAttrs) -> list[str]:
    p: UpSamplingParams = attrs.parsed
    return ["data", "weight"] if p.sample_type == "bilinear" else [f"arg{i}" for i in range(p.num_args)]


def _initial_weight(attrs: NodeAttrs, variable: Node, i: int) -> None:
    """A filter starts, by default, as the one that interpolates. MXNet declares this for a second image, too."""
    if i == 1:
        variable.attrs.dict.setdefault("__init__", '["bilinear", {}]')


def _up_sampling_flops(p: UpSamplingParams, ins: Sizes, outs: Sizes) -> Flops:
    """Nearest copies; bilinear is a deconvolution of each channel, whose window is twice the scale."""
    return Flops(prod(ins[0]) * (2 * p.scale - p.scale % 2) ** 2 if p.sample_type == "bilinear" else 0)


register_op(
    "UpSampling",
    samples=lambda p, ins, outs: p.sample_type == "nearest",
    params=UpSamplingParams,
    variadic="num_args",
    infer_shape=_up_sampling_shapes,
    infer_type=float_type,
    gradient=lambda node, ograds: (_filtered.gradient if node.attrs.parsed.sample_type == "bilinear" else _repeated)(
        node, ograds
    ),
    FSetInputVarAttrOnCompose=_initial_weight,
    flops=_up_sampling_flops,
    precision="either",
    drawing="pooling",
    doc="Images (n, c, h, w), `scale` times as high and wide. nearest: every element repeated; of several inputs each "
    "comes to the size of the first, and they are joined or added. bilinear: each channel filtered with its own "
    "learned weight (c, 1, k, k), k = 2 scale - scale mod 2.",
).set_num_inputs(lambda attrs: len(_input_names(attrs))).set_attr("FListInputNames", _input_names, plevel=11)
_repeated = jointly_linear(
    "UpSampling",
    adjoint="_backward_UpSampling_nearest",
    params=BackwardNearestParams,
    restored={"sample_type": "nearest"},
    doc="The gradients of UpSampling by repetition: sums of the first input, of the shapes of the others.",
)
_filtered = multilinear(
    "UpSampling",
    of={
        "data": Adjoint("_backward_UpSampling_data", ("ograd", "weight")),
        "weight": Adjoint("_backward_UpSampling_weight", ("ograd", "data")),
    },
    params=FilterParams,
    restored={"sample_type": "bilinear"},
)
