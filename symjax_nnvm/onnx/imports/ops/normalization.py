"""ONNX' normalisations and softmaxes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from symjax_nnvm.onnx.imports.composer import Composer
from symjax_nnvm.onnx.imports.file_values import Value
from symjax_nnvm.onnx.imports.import_registry import onnx_import
from symjax_nnvm.onnx.imports.ops.arithmetic import add, mul
from symjax_nnvm.onnx.imports.ops.casts_and_shapes import cast, need_float, reshape

_STASH = ("stash_type",)
"""The precision of statistics, which is here that of the data, and of half precision float32."""


@onnx_import("BatchNormalization", ignores=("momentum",))
def _batch_norm(g: Composer, x: Value, gamma: Value, beta: Value, mean: Value, variance: Value) -> Value:
    """Moving statistics are auxiliary states, so that it can be trained further."""
    if g.attr("training_mode", 0) or (g.used(1) and len(g.node.used) > 1):
        g.refuse("it is in training", "Export the network for inference, as after model.eval().")
    if not g.attr("spatial", 1):
        g.refuse("it normalises each element by itself (spatial=0)")
    if mean.array is None or variance.array is None:
        return _computed_statistics(g, x, gamma, beta, mean, variance)
    states = g.state(mean, "moving_mean"), g.state(variance, "moving_var")
    how = {"eps": g.attr("epsilon", 1e-5), "momentum": g.attr("momentum", 0.9), "fix_gamma": False}
    return g.op("BatchNorm", x, gamma, beta, *states, **how)


def _computed_statistics(g: Composer, x: Value, *vectors: Value) -> Value:
    """Return the formula for statistics that are not constants."""
    columns = [
        reshape(g, vector, [(*shape, *(1,) * (x.ndim - 2)) for shape in vector.shapes]) if x.ndim > 2 else vector
        for vector in vectors
    ]
    g.symbol(vectors[2])
    data, gamma, beta, mean, variance = (cast(g, vector, vectors[2].held) for vector in (x, *columns))
    root = g.op("rsqrt", g.op("_plus_scalar", variance, scalar=g.attr("epsilon", 1e-5)))
    return cast(g, add(g, mul(g, g.op("broadcast_sub", data, mean), mul(g, gamma, root)), beta), x.dtype)


@onnx_import("InstanceNormalization")
def _instance_norm(g: Composer, x: Value, gamma: Value, beta: Value) -> Value:
    return g.op("InstanceNorm", x, gamma, beta, eps=g.attr("epsilon", 1e-5))


@onnx_import("LayerNormalization", ignores=_STASH)
def _layer_norm(g: Composer, x: Value, gamma: Value, beta: Value | None = None) -> Value:
    """Over the last axis it is MXNet's; over several they become one before."""
    if any(g.used(i) for i in (1, 2)):
        g.refuse("its mean and its deviation are read")
    axis = g.axis(g.attr("axis", -1), x.ndim)
    length = math.prod(g.static(x, range(axis, x.ndim))[axis:])
    gamma, beta = (_vector(g, weight, length, value) for weight, value in ((gamma, 1.0), (beta, 0.0)))
    flat = x if axis == x.ndim - 1 else reshape(g, x, [(*shape[:axis], length) for shape in x.shapes])
    normalised = g.op("LayerNorm", flat, gamma, beta, axis=-1, eps=g.attr("epsilon", 1e-5))
    return normalised if flat is x else g.op("reshape_like", normalised, x)


def _vector(g: Composer, x: Value | None, length: int, default: float) -> Value:
    """Return a weight as a vector; where there is none, the same number all along."""
    if x is None:
        return g.constant(g.full((length,), default), name="beta" if default == 0 else "gamma")
    if x.ndim == 1 and x.shape[0] == length:
        return x
    if x.array is None:
        return reshape(g, x, [(length,)] * g.count)
    flat = x.array.reshape(-1) if x.array.size > 1 else g.full((length,), x.array.item(), x.dtype)
    return g.weight(x, flat, "flat")


@onnx_import("RMSNormalization", ignores=_STASH)
def _rms_norm(g: Composer, x: Value, scale: Value) -> Value:
    axes = tuple(range(g.axis(g.attr("axis", -1), x.ndim), x.ndim))
    g.symbol(x)
    data = cast(g, x, "float32") if x.held in ("float16", "bfloat16") else x
    mean = g.op("mean", g.op("square", data), axis=axes, keepdims=True)
    root = g.op("rsqrt", g.op("_plus_scalar", mean, scalar=g.attr("epsilon", 1e-5)))
    return mul(g, cast(g, g.op("broadcast_mul", data, root), x.held), scale)


@onnx_import("GroupNormalization", ignores=_STASH)
def _group_norm(g: Composer, x: Value, gamma: Value, beta: Value) -> Value:
    """Write groups as the channels of an InstanceNorm. gamma, beta: of groups before opset 21, then of channels."""
    groups = g.attr("num_groups")
    channels = g.static(x, [1])[1]
    if channels % groups:
        g.refuse(f"{channels} channels are not {groups} groups")
    rows = reshape(g, x, [(s[0], groups, math.prod(s[1:]) // groups) for s in x.shapes])
    ones, zeros = (g.constant(g.full((groups,), v), name=w) for v, w in ((1.0, "ones"), (0.0, "zeros")))
    out = g.op("reshape_like", g.op("InstanceNorm", rows, ones, zeros, eps=g.attr("epsilon", 1e-5)), x)
    for vector, function in ((gamma, mul), (beta, add)):
        array = g.constant_value(vector, "scale and bias")
        if g.opset < 21:
            g.reserve(array.size, channels // groups, dtype=vector.dtype)
            array = np.repeat(array, channels // groups)
        column = g.weight(vector, array.reshape(-1, *(1,) * (x.ndim - 2)), f"by_channel{x.ndim}")
        out = function(g, out, column)
    return out


@onnx_import("LRN")
def _lrn(g: Composer, x: Value) -> Value:
    size = g.attr("size")
    if size % 2 == 0:
        g.refuse(f"MXNet's LRN sums over an odd number of channels, not {size}")
    how = {"alpha": g.attr("alpha", 1e-4), "beta": g.attr("beta", 0.75), "knorm": g.attr("bias", 1.0)}
    return g.op("LRN", x, nsize=size, **how)


@onnx_import("LpNormalization")
def _lp_norm(g: Composer, x: Value) -> Value:
    """The norm of zeros gives zeros: 1 takes its place there."""
    axis = g.axis(g.attr("axis", -1), x.ndim)
    norm = g.op("norm", x, ord=g.attr("p", 2), axis=axis, keepdims=True)
    return g.op("broadcast_div", x, g.op("elemwise_add", norm, g.op("_equal_scalar", norm, scalar=0.0)))


@onnx_import("MeanVarianceNormalization")
def _mean_variance(g: Composer, x: Value) -> Value:
    axes = tuple(g.attr("axes", [0, 2, 3]))
    centred = g.op("broadcast_sub", x, g.op("mean", x, axis=axes, keepdims=True))
    variance = g.op("mean", g.op("square", centred), axis=axes, keepdims=True)
    return g.op("broadcast_div", centred, g.op("_plus_scalar", g.op("sqrt", variance), scalar=1e-9))


# -- along an axis, which before opset 13 means that axis and all after it ---------------------------------------------


def _along(function: Any, old: bool) -> Any:
    def form(g: Composer, x: Value) -> Value:
        need_float(g, x)
        axis = g.axis(g.attr("axis", 1 if old else -1), x.ndim)
        if not old or axis == x.ndim - 1:
            return function(g, x, axis)
        flat = reshape(g, x, [(math.prod(s[:axis]), math.prod(s[axis:])) for s in x.shapes])
        return (
            reshape(g, function(g, flat, 1), x.shapes)
            if x.sizes == flat.sizes
            else g.op("reshape_like", function(g, flat, 1), x)
        )

    return form


def _hardmax(g: Composer, x: Value, axis: int) -> Value:
    """Return 1 at the first of the largest elements."""
    result = g.op("one_hot", g.op("argmax", x, axis=axis), depth=g.static(x, [axis])[axis])
    order = list(range(x.ndim - 1))
    order.insert(axis, x.ndim - 1)
    return g.op("transpose", result, axes=tuple(order))


for _kind, _function in (
    ("Softmax", lambda g, x, axis: g.op("softmax", x, axis=axis)),
    ("LogSoftmax", lambda g, x, axis: g.op("log_softmax", x, axis=axis)),
    ("Hardmax", _hardmax),
):
    onnx_import(_kind)(_along(_function, old=True))
    onnx_import(_kind, since=13)(_along(_function, old=False))
