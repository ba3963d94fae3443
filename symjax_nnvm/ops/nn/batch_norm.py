"""Batch normalisation, and the small operators that its gradient is composed of."""

from __future__ import annotations

from typing import Any, Literal, Protocol

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.attributes import FActivation
from symjax_nnvm.ir.node import Node, NodeAttrs, NodeEntry, apply
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.params import Axis, Params, param
from symjax_nnvm.ir.register import Entries, NoParams, Shapes, Types, first_type, need_float, register_op, same_shape
from symjax_nnvm.ir.rules.axes import known, normal_axis
from symjax_nnvm.ir.rules.composition import Composition
from symjax_nnvm.ir.rules.costs import per_input
from symjax_nnvm.ir.rules.layout_rules import along
from symjax_nnvm.ir.rules.linear import self_adjoint
from symjax_nnvm.ir.rules.quantized_form import quantized_as
from symjax_nnvm.ir.types import DType

# -- a vector along one axis of an array -----------------------------------------------------------------------------


class ChannelParams(Params):
    axis: Axis = param(1, doc="the axis of `like` that the vector runs along; past the last axis: the last")


def channel_axis(axis: int, ndim: int) -> int:
    """The axis counted from the front, the last one for an axis past the end."""
    return min(axis, ndim - 1) if axis >= 0 and ndim else normal_axis(axis, ndim)


def _channel_shapes(p: ChannelParams, ins: Shapes, outs: Shapes):
    """vector (c,), like (…, c, …) → (1, …, c, …, 1); a vector of one element fits any axis."""
    vector, like = ins[:2]
    if like is None:
        return ins, outs
    axis = channel_axis(p.axis, len(like))
    out = outs[0] if outs[0] is not None and len(outs[0]) == len(like) else None
    size = known(vector[0] if vector else None, out[axis] if out else None)
    return [(size,), *ins[1:]], [tuple(size if i == axis else 1 for i in range(len(like)))]


register_op(
    "_channels_like",
    params=ChannelParams,
    inputs=("data", "like"),
    infer_shape=_channel_shapes,
    infer_type=first_type,
    gradient=lambda node, ograds: [apply("reshape_like", ograds[0], node.inputs[0]), None],
    FIgnoreInputs=lambda attrs: (1,),
    flops=0,
    doc="A vector, shaped to be broadcast along one axis of `like`: (c,) → (1, c, 1, 1).",
)

# -- BatchNorm -------------------------------------------------------------------------------------------------------


class BatchNormParams(Params):
    eps: float = param(0.0010000000474974513, doc="added to the variance")
    momentum: float = param(0.899999976, doc="share of the old value in a moving statistic")
    fix_gamma: bool = param(True, doc="take 1 for gamma and give it no gradient")
    use_global_stats: bool = param(False, doc="normalise with the moving statistics in training, too")
    output_mean_var: bool = param(False, doc="show the outputs `mean` and `var`")
    axis: Axis = param(1, doc="the axis of channels")
    cudnn_off: bool = param(False, doc="accepted and without effect")
    min_calib_range: float | None = param(None, doc="for quantisation; accepted and without effect")
    max_calib_range: float | None = param(None, doc="for quantisation; accepted and without effect")


class BatchNormLike(Protocol):
    """What the parameters of batch normalisation and of its variants have in common."""

    @property
    def axis(self) -> int: ...
    @property
    def eps(self) -> float: ...
    @property
    def momentum(self) -> float: ...
    @property
    def fix_gamma(self) -> bool: ...
    @property
    def use_global_stats(self) -> bool: ...
    @property
    def output_mean_var(self) -> bool: ...


def batch_norm_shapes(p: BatchNormLike, ins: Shapes, outs: Shapes):
    """data (…, c, …), gamma, beta, moving_mean, moving_var (c,) → (…, c, …), mean (c,), var (c,)."""
    (data,), (out,) = same_shape(p, ins[:1], outs[:1])
    vectors = (*ins[1:], *outs[1:])
    size = known(*(shape[0] for shape in vectors if shape))
    if data is not None:
        try:
            axis = normal_axis(p.axis, len(data))
        except ValueError as error:
            raise InferenceError(f"Channel axis out of range: {p.axis}. {error}") from error
        size = known(data[axis], size)
        data = tuple(size if i == axis else dim for i, dim in enumerate(data))
        out = data
    return [data, *[(size,)] * 4], [out, (size,), (size,)]


def _statistics_type(dtype: DType) -> DType:
    """Half-precision data have float32 parameters and statistics."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def batch_norm_types(p: BatchNormLike, ins: Types, outs: Types):
    """data and output of one floating-point dtype, all else of the same, float32 at least."""
    data = next((t for t in (outs[0], ins[0]) if t is not None), None)
    if data is None:
        return ins, outs
    need_float(data)
    return [data, *[_statistics_type(data)] * 4], [data, *[_statistics_type(data)] * 2]


def initial_moving_statistics(attrs: NodeAttrs, variable: Node, i: int) -> None:
    """Moving statistics start as mean 0 and variance 1 by default."""
    if i in (3, 4):
        variable.attrs.dict.setdefault("__init__", '["zero", {}]' if i == 3 else '["one", {}]')


def fixed_gamma(attrs: NodeAttrs) -> dict[int, float]:
    """A gamma that is fixed is 1: an FFixedInputs."""
    return {1: 1.0} if attrs.parsed.fix_gamma else {}


def at_inference(node: Node) -> NodeEntry | None:
    """X scale + shift with scale = γ / √(σ² + ε) and shift = β - μ scale, of the moving statistics: a FInference."""
    p: BatchNormLike = node.attrs.parsed
    data, gamma, beta, *statistics = node.inputs
    if statistics[0].node is statistics[1].node:
        return None
    # What the node writes it read as it was one version before.
    mean, variance = (entry._replace(version=max(entry.version - 1, 0)) for entry in statistics)
    scale = apply("rsqrt", apply("_plus_scalar", variance, scalar=p.eps), name=f"{node.name}_scale")
    if not p.fix_gamma:
        scale = apply("elemwise_mul", gamma, scale, name=f"{node.name}_scale")
    shift = apply("elemwise_sub", beta, apply("elemwise_mul", mean, scale), name=f"{node.name}_shift")
    return apply("_scale_shift", data, scale, shift, axis=p.axis, name=node.name)


def _batch_norm_gradient(node: Node, ograds: Entries):
    return batch_norm_gradients(node, ograds[0], NodeEntry(node, 1, 0), NodeEntry(node, 2, 0))


def batch_norm_gradients(node: Node, dy: NodeEntry, mean: NodeEntry, scale: NodeEntry):
    """The gradients of data, gamma, beta and the moving statistics, from dY and from the statistics in use, μ and r.

    Head gradients of `mean` and `var` are ignored.
    """
    p: BatchNormLike = node.attrs.parsed
    modes: dict[str, Any] = {"axis": p.axis, "fix_gamma": p.fix_gamma, "use_global_stats": p.use_global_stats}
    dx = apply("_backward_BatchNorm", dy, *node.inputs[:2], mean, scale, **modes)
    return [dx, None if p.fix_gamma else dx._replace(index=1), dx._replace(index=2), None, None]


def _normalised(x: NodeEntry, mu: NodeEntry, r: NodeEntry) -> NodeEntry:
    return apply("broadcast_mul", apply("broadcast_sub", x, mu), r)


def _mean(data: NodeEntry, axis: int) -> NodeEntry:
    """The mean over all axes but channels, which keep their place."""
    return apply("mean", data, axis=axis, exclude=True, keepdims=True)


def _spread(value: NodeEntry, data: NodeEntry, axis: int) -> NodeEntry:
    """The transpose of `_mean`: a value for each channel, divided among the channel's elements."""
    return apply("_backward_mean", value, data, axis=axis, exclude=True, keepdims=True)


def _mean_gradient(node: Node, ograds: Entries):
    """μ is the mean of X in training, else a constant."""
    _, data = node.inputs
    return [None, _spread(apply("_backward_BatchNorm_train", ograds[0]), data, node.attrs.parsed.axis)]


def _scale_gradient(node: Node, ograds: Entries):
    """r = (σ² + ε)^-½ with σ² = m((X - μ)²): dX = -dR r² X̂ / n in training, else 0."""
    _, data, mu = node.inputs
    r = NodeEntry(node, 0, 0)
    slope = apply("negative", apply("elemwise_mul", ograds[0], apply("square", r)))
    spread = _spread(apply("_backward_BatchNorm_train", slope), data, node.attrs.parsed.axis)
    return [None, apply("elemwise_mul", spread, _normalised(data, mu, r)), None]


def statistics_ignored(p: Any) -> str | None:
    """not_derivative of the operators that show statistics."""
    shown = getattr(p, "output_mean_var", False)
    return "head gradients of the outputs that show statistics are ignored" if shown else None


register_op(
    "BatchNorm",
    FQuantized=quantized_as("_contrib_quantized_batch_norm", float_inputs=range(1, 5)),
    aliases=("_npx_batch_norm",),
    params=BatchNormParams,
    inputs=("data", "gamma", "beta", "moving_mean", "moving_var"),
    outputs=("output", "mean", "var"),
    visible_outputs=lambda p: 3 if p.output_mean_var else 1,
    mutates=(3, 4),
    infer_shape=batch_norm_shapes,
    infer_type=batch_norm_types,
    gradient=_batch_norm_gradient,
    out_grads_read=1,
    FSetInputVarAttrOnCompose=initial_moving_statistics,
    FInference=at_inference,
    FFixedInputs=fixed_gamma,
    flops=2,  # scale and shift: the statistics are constants at inference
    precision="either",
    not_derivative=statistics_ignored,
    layout=along("axis", inputs=1, outputs=1),
    drawing="normalization",
    doc="Data with mean 0 and variance 1 in every channel, times gamma, plus beta. In training the statistics are "
    "those of the batch, with the biased variance, and the moving ones follow; else the moving ones are used. The "
    "output `var` is 1 / √(variance + eps). fix_gamma is on unless it is switched off.",
)


def _statistic_shapes(p: ChannelParams, ins: Shapes, outs: Shapes):
    """statistic (c,), data (…, c, …) → (1, …, c, …, 1)."""
    inputs, outputs = _channel_shapes(p, ins, outs)
    data = ins[1]
    if data is None or inputs[0] is None:
        return inputs, outputs
    axis = channel_axis(p.axis, len(data))
    size = known(inputs[0][0], data[axis])
    shape = tuple(size if i == axis else 1 for i in range(len(data)))
    return [(size,), data, *[shape] * (len(ins) - 2)], [shape]


class BatchNormGradientParams(ChannelParams):
    fix_gamma: bool = param(False, doc="gamma is 1, whatever is given")
    use_global_stats: bool = param(False, doc="the statistics are constants, not those of data")
    relu: Literal["greater", "sign"] | None = param(
        None, doc="ograd is that of max(output, 0), whose slope is `> 0` or, nan at nan, the sign; beta is given then"
    )


def _composition(p: BatchNormGradientParams, inputs: list[NodeEntry]) -> list[NodeEntry]:
    """`_backward_BatchNorm` in terms of other operators, whose dependence on data is known.

    With X̂ = (X - μ) r, r = 1 / √(σ² + ε), means m over all axes but channels:

    dX = γ r (dY - m(dY) - X̂ m(dY X̂)), dγ = Σ dY X̂, dβ = Σ dY. The two means, which come from μ and σ² depending on
    X, are left out where moving statistics were used. With `relu`, dY is ograd where the output is positive.
    """
    head, data, gamma, mean, scale, *beta = inputs
    # All in the statistics' dtype: half-precision values are only read and written.
    x, dy = (apply("_cast_like", entry, mean) for entry in (data, head))
    if p.use_global_stats:
        mu, r = (apply("_channels_like", entry, x, axis=p.axis) for entry in (mean, scale))
    else:
        mu = apply("_backward_BatchNorm_mean", mean, x, axis=p.axis)
        r = apply("_backward_BatchNorm_scale", scale, x, mu, axis=p.axis)
    normal = _normalised(x, mu, r)
    if p.relu:
        along = [apply("_channels_like", entry, x, axis=p.axis) for entry in (*beta, gamma)]
        scaled = normal if p.fix_gamma else apply("broadcast_mul", normal, along[1])
        output = apply("relu", apply("_cast_like", apply("broadcast_add", scaled, along[0]), data))
        slope = apply("sign", output) if p.relu == "sign" else apply("_greater_scalar", output, scalar=0.0)
        dy = apply("elemwise_mul", dy, apply("_cast_like", slope, dy))
    weighted = apply("elemwise_mul", dy, normal)
    dx = dy
    if not p.use_global_stats:
        through_scale = apply("broadcast_mul", normal, _mean(weighted, p.axis))
        through_both = apply("broadcast_add", through_scale, _mean(dy, p.axis))
        dx = apply("elemwise_sub", dy, apply("_backward_BatchNorm_train", through_both))
    factor = r if p.fix_gamma else apply("broadcast_mul", r, apply("_channels_like", gamma, x, axis=p.axis))
    dx = apply("_cast_like", apply("broadcast_mul", dx, factor), data)
    sums = [apply("sum", part, axis=p.axis, exclude=True) for part in (weighted, dy)]
    return [dx, apply("zeros_like", gamma) if p.fix_gamma else sums[0], sums[1]]


def _gradient_shapes(p: BatchNormGradientParams, ins: Shapes, outs: Shapes):
    """ograd and data (…, c, …), gamma, mean, scale, beta (c,) → (…, c, …), (c,), (c,)."""
    (*both, _), (dx,) = same_shape(p, [*ins[:2], outs[0]], outs[:1])
    size = known(*(shape[0] for shape in (*ins[2:], *outs[1:]) if shape))
    if dx is not None:
        size = known(dx[channel_axis(p.axis, len(dx))], size)
    return [*both, *[(size,)] * len(ins[2:])], [dx, (size,), (size,)]


def _gradient_types(p: BatchNormGradientParams, ins: Types, outs: Types):
    """ograd and data of one dtype, all else of the statistics'."""
    data = next((t for t in (*ins[:2], outs[0]) if t is not None), None)
    if data is None:
        return ins, outs
    return [data, data, *[_statistics_type(data)] * len(ins[2:])], [data, *[_statistics_type(data)] * 2]


def _with_relu(node: Node) -> Node | None:
    """FFuseGradient: with the parameter `relu` by what ReLU's gradient multiplies the head gradient."""
    product = node.inputs[0].node
    if product.op is not Op.get("elemwise_mul") or node.attrs.parsed.relu:
        return None
    head, (slope, *_) = product.inputs
    kinds = {Op.get("_greater_scalar"): "greater", Op.get("sign"): "sign"}
    if slope.op not in kinds or getattr(slope.attrs.parsed, "scalar", 0):
        return None
    norm, index, _ = slope.inputs[0]
    if norm.op is not Op.get("_contrib_BatchNormWithReLU"):
        if norm.op not in FActivation or FActivation[norm.op](norm.attrs) != "relu":
            return None
        norm, index, _ = norm.inputs[0]
        if norm.op is not Op.get("BatchNorm"):
            return None
    if index or [*norm.inputs[:2], (norm, 1, 0), (norm, 2, 0)] != node.inputs[1:]:
        return None
    attrs = node.attrs.copy()
    attrs.dict["relu"] = kinds[slope.op]
    attrs.parse()
    return Node(attrs, [head, *node.inputs[1:], norm.inputs[2]], node.control_deps)


_READ = ("ograd", "data", "gamma", "mean", "scale", "beta")

register_op(
    "_backward_BatchNorm",
    params=BatchNormGradientParams,
    inputs=_READ,
    inputs_used=lambda p: _READ if p.relu else _READ[:-1],
    outputs=("data", "gamma", "beta"),
    infer_shape=_gradient_shapes,
    infer_type=_gradient_types,
    gradient=Composition(_composition).gradient,
    FFuseGradient=_with_relu,
    flops=per_input(9),
    precision="either",
    doc="The gradients of data, gamma and beta, from the head gradient and from the statistics that BatchNorm found: "
    "mean and 1 / √(variance + eps), which in training depend on data.",
)


for _name, _inputs, _gradient, _doc in (
    ("_backward_BatchNorm_mean", ("mean", "data"), _mean_gradient, "The mean that BatchNorm found"),
    (
        "_backward_BatchNorm_scale",
        ("var", "data", "mu"),
        _scale_gradient,
        "The 1 / √(variance + eps) that BatchNorm found",
    ),
):
    register_op(
        _name,
        params=ChannelParams,
        inputs=_inputs,
        infer_shape=_statistic_shapes,
        gradient=_gradient,
        FIgnoreInputs=lambda attrs, inputs=_inputs: tuple(range(1, len(inputs))),
        doc=f"{_doc}, shaped to be broadcast; its gradient knows how it depends on data in training.",
    )

register_op(
    "_backward_BatchNorm_train",
    params=NoParams,
    infer_shape=same_shape,
    gradient=self_adjoint,
    inplace=((0, 0),),
    doc="The data in training, else zeros: what flows through batch statistics.",
)
