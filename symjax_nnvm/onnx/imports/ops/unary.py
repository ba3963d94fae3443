"""ONNX' functions of one array, activations among them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from symjax_nnvm.ir.types import DTYPE_CODES
from symjax_nnvm.onnx.imports.composer import WIDER, Composer
from symjax_nnvm.onnx.imports.file_values import Value
from symjax_nnvm.onnx.imports.import_registry import import_table, onnx_import, same
from symjax_nnvm.onnx.imports.ops.arithmetic import add, larger, mul, smaller, where
from symjax_nnvm.onnx.imports.ops.casts_and_shapes import cast, reshape, scaled
from symjax_nnvm.onnx.proto import import_onnx
from symjax_nnvm.ops.nn.activation import SELU_ALPHA, SELU_SCALE

_EIGHT_BITS = ("saturate", "round_mode")
"""How Cast rounds to 8-bit floats, which MXNet lacks."""


def _activation(act_type: str) -> Any:
    return same("Activation", act_type=act_type)


def _identity(g: Composer, x: Value, *others: Value) -> Value:
    return x


def sigmoid(g: Composer, x: Value) -> Value:
    """1 / (1 + e⁻ˣ)."""
    return g.op("sigmoid", x)


def _plus(g: Composer, x: Value, number: float) -> Value:
    return g.op("_plus_scalar", x, scalar=float(number))


@onnx_import("Round")
def round_to_even(g: Composer, x: Value) -> Value:
    """Return the nearest whole number, of two the even one: the lower, and 1 more where that is odd or nearer.

    Of infinity the rest and the remainder are nan, and both comparisons 0.
    """
    below = g.op("floor", x)
    fraction = g.op("elemwise_sub", x, below)
    odd = g.op("_equal_scalar", g.op("_mod_scalar", below, scalar=2.0), scalar=1.0)
    tie = g.op("elemwise_mul", g.op("_equal_scalar", fraction, scalar=0.5), odd)
    return add(g, below, add(g, g.op("_greater_scalar", fraction, scalar=0.5), tie))


@onnx_import("IsNaN")
def _is_nan(g: Composer, x: Value) -> Value:
    return g.op("_not_equal", x, x, gives="bool")


@onnx_import("IsInf")
def _is_inf(g: Composer, x: Value) -> Value:
    signs = bool(g.attr("detect_negative", 1)), bool(g.attr("detect_positive", 1))
    if not any(signs):
        return g.op("_not_equal", g.op("zeros_like", x), g.op("zeros_like", x), gives="bool")
    size = g.op("abs", x) if all(signs) else x
    return g.op("_equal_scalar", size, scalar=math.inf if signs[1] else -math.inf, gives="bool")


@onnx_import("Not")
def _not(g: Composer, x: Value) -> Value:
    return g.op("logical_not", x, gives="bool")


@onnx_import("Cast", ignores=_EIGHT_BITS)
def _cast(g: Composer, x: Value) -> Value:
    onnx = import_onnx()
    try:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(g.attr("to")).name
    except KeyError:
        dtype = f"number {g.attr('to')}"
    if dtype not in DTYPE_CODES or dtype in WIDER:
        g.refuse(f"MXNet has no dtype {dtype}")
    return cast(g, x, dtype)


@onnx_import("CastLike", ignores=_EIGHT_BITS)
def _cast_like(g: Composer, x: Value, like: Value) -> Value:
    return cast(g, x, like.dtype)


@onnx_import("Det")
def _det(g: Composer, x: Value) -> Value:
    return reshape(g, g.op("_linalg_det", x), [shape[:-2] for shape in x.shapes])


# -- activations -----------------------------------------------------------------------------------------------------


@onnx_import("LeakyRelu")
def _leaky(g: Composer, x: Value) -> Value:
    alpha = g.attr("alpha", 0.01)
    if not math.isfinite(alpha):
        return _chosen(g, x, scaled(g, x, alpha))
    return g.op("LeakyReLU", x, act_type="leaky", slope=alpha)


def _chosen(g: Composer, x: Value, below: Value) -> Value:
    """Return x, or what it is below zero: MXNet's rectifiers multiply 0 by the slope, which may be infinity."""
    return where(g, g.op("_greater_equal_scalar", x, scalar=0.0), x, below)


@onnx_import("Elu")
def _elu(g: Composer, x: Value) -> Value:
    return g.op("LeakyReLU", x, act_type="elu", slope=g.attr("alpha", 1.0))


@onnx_import("Celu")
def _celu(g: Composer, x: Value) -> Value:
    """Return α · elu(x / α)."""
    alpha = g.attr("alpha", 1.0)
    return scaled(g, g.op("LeakyReLU", scaled(g, x, 1 / alpha), act_type="elu", slope=1.0), alpha)


@onnx_import("Selu")
def _selu(g: Composer, x: Value) -> Value:
    alpha, gamma = g.attr("alpha", SELU_ALPHA), g.attr("gamma", SELU_SCALE)
    if np.allclose((alpha, gamma), (SELU_ALPHA, SELU_SCALE), rtol=1e-6):
        return g.op("LeakyReLU", x, act_type="selu")
    return scaled(g, g.op("LeakyReLU", x, act_type="elu", slope=alpha), gamma)


@onnx_import("PRelu")
def _prelu(g: Composer, x: Value, slope: Value) -> Value:
    """Use a finite slope for each channel; of others a choice."""
    array = slope.array
    by_channel = x.ndim > 1 and slope.ndim <= x.ndim and array is not None and np.isfinite(array).all()
    if by_channel and array is not None:
        places = (1,) * (x.ndim - slope.ndim) + array.shape
        if array.size == 1 or (array.size == places[1] == x.shape[1]):
            gamma = slope if slope.ndim == 1 else g.weight(slope, array.reshape(-1), "slopes")
            return g.op("LeakyReLU", x, gamma, act_type="prelu")
    return _chosen(g, x, mul(g, x, slope))


@onnx_import("Gelu")
def _gelu(g: Composer, x: Value) -> Value:
    if g.attr("approximate", "none") == "none":
        return g.op("LeakyReLU", x, act_type="gelu")
    cube = g.op("elemwise_mul", x, g.op("square", x))
    inner = scaled(g, add(g, x, scaled(g, cube, 0.044715)), math.sqrt(2 / math.pi))
    return scaled(g, mul(g, x, _plus(g, g.op("tanh", inner), 1.0)), 0.5)


@onnx_import("ThresholdedRelu")
def _thresholded(g: Composer, x: Value) -> Value:
    return g.op("where", g.op("_greater_scalar", x, scalar=g.attr("alpha", 1.0)), x, g.op("zeros_like", x))


@onnx_import("Shrink")
def _shrink(g: Composer, x: Value) -> Value:
    """Return x less a bias, towards 0, where it is beyond a margin; else 0."""
    margin, bias = g.attr("lambd", 0.5), g.attr("bias", 0.0)
    below = g.op("where", g.op("_lesser_scalar", x, scalar=-margin), _plus(g, x, bias), g.op("zeros_like", x))
    return g.op("where", g.op("_greater_scalar", x, scalar=margin), _plus(g, x, -bias), below)


@onnx_import("HardSigmoid")
def _hard_sigmoid(g: Composer, x: Value) -> Value:
    return g.op("hard_sigmoid", x, alpha=g.attr("alpha", 0.2), beta=g.attr("beta", 0.5))


@onnx_import("HardSwish")
def _hard_swish(g: Composer, x: Value) -> Value:
    return mul(g, x, g.op("hard_sigmoid", x, alpha=1 / 6, beta=0.5))


@onnx_import("Swish")
def _swish(g: Composer, x: Value) -> Value:
    return mul(g, x, sigmoid(g, scaled(g, x, g.attr("alpha", 1.0))))


@onnx_import("Mish")
def _mish(g: Composer, x: Value) -> Value:
    return mul(g, x, g.op("tanh", g.op("Activation", x, act_type="softrelu")))


@onnx_import("Clip")
def _clip(g: Composer, x: Value, low: Value | None = None, high: Value | None = None) -> Value:
    """Bounds are attributes before opset 11."""
    bounds = [g.attr("min"), g.attr("max")]
    passed = [bound for bound in (low, high) if bound is not None]
    if any(bound.array is None for bound in passed):
        x = x if low is None else larger(g, x, low)
        return x if high is None else smaller(g, x, high)
    for i, bound in enumerate((low, high)):
        if bound is not None:
            bounds[i] = g.constant_value(bound, "bound").item()
    if bounds[0] is None and bounds[1] is None:
        return x
    if bounds[1] is None:
        return g.op("_maximum_scalar", x, scalar=bounds[0])
    if bounds[0] is None:
        return g.op("_minimum_scalar", x, scalar=bounds[1])
    if bounds[0] > bounds[1]:
        return g.op("_minimum_scalar", g.op("_maximum_scalar", x, scalar=bounds[0]), scalar=bounds[1])
    return g.op("clip", x, a_min=bounds[0], a_max=bounds[1])


@onnx_import("Dropout", ignores=("seed",))
def _dropout(g: Composer, x: Value, ratio: Value | None = None, training: Value | None = None) -> Value:
    """Drop only in training, as MXNet's does, unless the file's training_mode is on."""
    if g.used(1):
        g.refuse("its mask is read, which MXNet's Dropout does not return")
    share = g.attr("ratio", 0.5) if ratio is None else float(g.constant_value(ratio, "ratio"))
    always = training is not None and bool(g.constant_value(training, "training_mode"))
    return g.op("Dropout", x, p=share, mode="always" if always else "training")


import_table(
    {
        "Abs": same("abs"),
        "Acos": same("arccos"),
        "Acosh": same("arccosh"),
        "Asin": same("arcsin"),
        "Asinh": same("arcsinh"),
        "Atan": same("arctan"),
        "Atanh": same("arctanh"),
        "Ceil": same("ceil"),
        "Cos": same("cos"),
        "Cosh": same("cosh"),
        "Erf": same("erf"),
        "Exp": same("exp"),
        "Floor": same("floor"),
        "Identity": _identity,
        "Log": same("log"),
        "Neg": same("negative"),
        "Reciprocal": same("reciprocal"),
        "Relu": _activation("relu"),
        "Sigmoid": _activation("sigmoid"),
        "Sign": same("sign"),
        "Sin": same("sin"),
        "Sinh": same("sinh"),
        "Softplus": _activation("softrelu"),
        "Softsign": _activation("softsign"),
        "Sqrt": same("sqrt"),
        "Tan": same("tan"),
        "Tanh": _activation("tanh"),
    }
)
