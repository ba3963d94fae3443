"""ONNX forms of what MXNet fuses for oneDNN: the subgraph, of integers between DequantizeLinear and QuantizeLinear.

onnxruntime joins them to QLinearConv and QGemm where data and results have one dtype, weights are int8, which batch
normalisation is multiplied into, and biases are int32 levels of the sums.
"""

from __future__ import annotations

from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, NodeEntry, Subgraph, create_variable_node
from symjax_nnvm.ir.rewrite import rebuild
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.ir.types import DType
from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.ops.nn.batch_norm import inverse_root
from symjax_nnvm.onnx.ops.quantization.levels import Range, as_levels, as_numbers, calibrated, magnitude
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.quantization import fused as ops
from symjax_nnvm.ops.quantization.ranges import LEVELS

_MOST, _LEAST = 2.0**30, 2.0**-23
"""What levels of a bias may be at most, and the magnitude of a range that is 0."""
_CALIBRATE = "symjax_nnvm.quantize(net, args, aux, calibration=batches) gives nodes the range of their results."


def _step(g: Builder, real: Tensor, dtype: DType) -> Tensor:
    """The size of a level."""
    return g.op("Div", real, LEVELS[dtype])


def _real(g: Builder, both: Range) -> Tensor:
    """The magnitude of data's range: not 0, of which biases would have no levels."""
    real = magnitude(g, both)
    if real.value is None:
        return g.op("Max", real, _LEAST)
    return real if real.value else g.constant(_LEAST, "float32")


def _rounded_rows(g: Builder, weight: Tensor, bias: Tensor | None, step: Tensor) -> tuple[Tensor, Tensor]:
    """A float weight, rounded to levels of int8, a scale for each row, with which a bias does not overflow; and these
    scales. step: the size of data's levels."""
    greatest = g.reduce("ReduceMax", g.op("Abs", weight), list(range(1, weight.ndim)), keepdims=False)
    scale = _step(g, greatest, "int8")
    if bias is not None:
        scale = g.op("Max", scale, g.op("Div", g.op("Abs", bias), g.op("Mul", step, _MOST)))
    zeros = g.cast(g.op("Mul", scale, 0.0), "int8")
    levels = g.op("QuantizeLinear", weight, scale, zeros, dtype="int8", axis=0)
    rounded = g.op("DequantizeLinear", levels, scale, zeros, dtype="float32", axis=0)
    rounded.shapes = weight.shapes
    return rounded, scale


def _rounded_bias(g: Builder, bias: Tensor, scale: Tensor) -> Tensor:
    """A float bias, rounded to int32 levels of the sums of products."""
    levels = g.cast(g.op("Round", g.op("Div", bias, scale)), "int32")
    rounded = g.op("DequantizeLinear", levels, scale, dtype="float32", axis=0)
    rounded.shapes = bias.shapes
    return rounded


def _bias_of_levels(
    g: Builder, bias: Tensor, of_bias: Tensor, of_data: Tensor, dtype: DType, of_weight: Tensor
) -> Tensor:
    """An int8 bias as numbers, of int32 levels of the sums where it is known that these suffice. of_bias, of_data,
    of_weight: magnitudes of ranges; dtype: data's."""
    most, data, weight = (real.value for real in (of_bias, of_data, of_weight))
    if most is None or data is None or weight is None:
        return as_numbers(g, bias, of_bias)
    if most * LEVELS[dtype] * LEVELS["int8"] / _MOST >= data * weight:
        return as_numbers(g, bias, of_bias)
    numbers = g.op("Mul", g.cast(bias, "float32"), _step(g, of_bias, "int8"))
    numbers.shapes = bias.shapes
    return _rounded_bias(g, numbers, g.op("Mul", _step(g, of_data, dtype), _step(g, of_weight, "int8")))


def _folded(g: Builder, p: ops.FusedConvolution, arrays: dict[str, Tensor]) -> tuple[Subgraph, dict[str, Tensor]]:
    """The subgraph without batch normalisation, and its arrays: weights and biases have it in them."""
    body = g.node.attrs.subgraphs[0]
    if p.batch_norm is None:
        return body, arrays
    convolution, batch_norm, *_ = (node for node in post_order(body.outputs) if not node.is_variable)
    factor = inverse_root(g, arrays["var"], p.batch_norm.eps)
    if not p.batch_norm.fix_gamma:
        factor = g.op("Mul", arrays["gamma"], factor)
    mean, data, weight = arrays["mean"], arrays["data"], arrays["weight"]
    shift = g.op("Mul", factor, g.op("Sub", mean, arrays["bias"]) if "bias" in arrays else mean)
    folded = {
        "data": data,
        "weight": g.op("Mul", weight, g.along(factor, 0, weight.ndim)),
        "bias": g.op("Sub", arrays["beta"], shift),
    }
    folded["weight"].shapes, folded["bias"].shapes = weight.shapes, arrays["beta"].shapes
    bias = NodeEntry(create_variable_node("bias"))

    def change(node: Node, draft: Node) -> Node | NodeEntry | None:
        if node is batch_norm:
            return draft.inputs[0]
        if node is not convolution:
            return None
        attrs = node.attrs.copy()
        attrs.dict["no_bias"] = "False"
        attrs.parse()
        return Node(attrs, [*draft.inputs[:2], bias])

    return Graph(rebuild(body.outputs, change)), folded | {name: arrays[name] for name in ["sum"] * p.node.with_sum}


def _inlined(g: Builder, arrays: dict[str, Tensor], body: Subgraph | None = None) -> Tensor:
    (out,) = g.inline(body or g.node.attrs.subgraphs[0], list(arrays.values()))
    return out


def _ended(g: Builder, p: ops.FusedConvolution | ops.FusedDense, out: Tensor, written: DType) -> list[Tensor]:
    """A float result as levels of the calibrated range. written: the dtype in which they are written, whose bits are
    then read as the result's; oneDNN writes over the summand."""
    if p.dtype == "int32":
        g.refuse("its int32 sums have a range that is known only at run time", _CALIBRATE)
    both = calibrated(g, p.node)
    levels = as_levels(g, out, magnitude(g, both), written, LEVELS[p.dtype])
    if written != p.dtype:
        least = 0 if p.dtype == "uint8" else 128
        bits = g.op("Mod", g.op("Add", g.cast(levels, "int32"), least + 256), 256)
        levels = g.cast(g.op("Sub", bits, least), p.dtype)
    return [levels, *both]


@onnx_form("_sg_mkldnn_conv")
def _convolution(g: Builder, p: ops.FusedConvolution, *inputs: Tensor) -> Tensor | list[Tensor]:
    named = dict(zip(p.inputs, inputs, strict=True))
    arrays = {name: named[name] for name in p.arrays}
    if not p.node.quantized:
        return _inlined(g, arrays)
    body, arrays = _folded(g, p, arrays)
    names = ("data", *["sum"] * p.node.with_sum)
    reals = {name: _real(g, (named[f"{name}_min"], named[f"{name}_max"])) for name in names}
    step = _step(g, reals["data"], named["data"].dtype)
    for name, real in reals.items():
        arrays[name] = as_numbers(g, arrays[name], real)
    arrays["weight"], rows = _rounded_rows(g, arrays["weight"], arrays.get("bias"), step)
    if "bias" in arrays:
        arrays["bias"] = _rounded_bias(g, arrays["bias"], g.op("Mul", step, rows))
    return _ended(g, p, _inlined(g, arrays, body), named["sum"].dtype if p.node.with_sum else p.dtype)


@onnx_form("_sg_mkldnn_fully_connected")
def _dense(g: Builder, p: ops.FusedDense, *inputs: Tensor) -> Tensor | list[Tensor]:
    named = dict(zip(p.inputs, inputs, strict=True))
    arrays = {name: named[name] for name in p.arrays}
    if p.node.quantized:
        data = named["data"]
        if p.dense.flatten and data.ndim > 2:  # here, for nothing may stand between DequantizeLinear and the product
            named["data"] = g.op("Flatten", data, axis=1)
            named["data"].shapes = [(shape[0], named["weight"].shape[1]) for shape in data.shapes or ()]
        real = _real(g, (named["min_data"], named["max_data"]))
        step, arrays["data"] = _step(g, real, data.dtype), as_numbers(g, named["data"], real)
        bias = arrays.get("bias")
        if p.is_channel_wise:
            arrays["weight"], rows = _rounded_rows(g, arrays["weight"], bias, step)
            if bias is not None:
                arrays["bias"] = _rounded_bias(g, bias, g.op("Mul", step, rows))
        else:
            of_weight = magnitude(g, (named["min_weight"], named["max_weight"]))
            arrays["weight"] = as_numbers(g, named["weight"], of_weight)
            if bias is not None:
                of_bias = magnitude(g, (named["min_bias"], named["max_bias"]))
                arrays["bias"] = _bias_of_levels(g, bias, of_bias, real, data.dtype, of_weight)
    out = _inlined(g, arrays)
    return out if p.dtype == "float32" else _ended(g, p, out, p.dtype)


@onnx_form("_sg_mkldnn_selfatt_qk", "_sg_mkldnn_selfatt_valatt")
def _attention(g: Builder, p: ops.FusedAttentionParams, *inputs: Tensor) -> Tensor | list[Tensor]:
    if not g.node.attrs.subgraphs:
        g.refuse("the node lacks the subgraph that says what it computes")
    if not p.quantized:
        return g.inline(g.node.attrs.subgraphs[0], inputs)
    arrays, ends = inputs[: len(inputs) // 3], inputs[len(inputs) // 3 :]
    pairs = zip(ends[::2], ends[1::2], strict=True)
    numbers = [as_numbers(g, array, magnitude(g, pair)) for array, pair in zip(arrays, pairs, strict=True)]
    (out,) = g.inline(g.node.attrs.subgraphs[0], numbers)
    if p.enable_float_output:
        return out
    if not p.is_calibrated:
        g.refuse("its int32 sums have a range that is known only at run time", _CALIBRATE)
    both = calibrated(g, p)
    return [as_levels(g, out, magnitude(g, both), "int8"), *both]
