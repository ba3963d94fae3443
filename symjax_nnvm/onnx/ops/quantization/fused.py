"""ONNX forms of what MXNet fuses for oneDNN: the subgraph, of 8-bit integers between DequantizeLinear and
QuantizeLinear, which onnxruntime joins to QLinearConv and QLinearMatMul."""

from __future__ import annotations

from symjax_nnvm.ir.types import DType
from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.ops.quantization.levels import as_levels, as_numbers, calibrated, magnitude
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.quantization import fused as ops
from symjax_nnvm.ops.quantization.ranges import LEVELS

_CALIBRATE = "symjax_nnvm.quantize(net, args, aux, calibration=batches) gives nodes the range of their results."


def _rounded_rows(g: Builder, weight: Tensor) -> Tensor:
    """A float weight, rounded to levels of int8, a scale for each row."""
    greatest = g.reduce("ReduceMax", g.op("Abs", weight), list(range(1, weight.ndim)), keepdims=False)
    scale = g.op("Div", greatest, LEVELS["int8"])
    zeros = g.cast(g.op("Mul", scale, 0.0), "int8")
    levels = g.op("QuantizeLinear", weight, scale, zeros, dtype="int8", axis=0)
    rounded = g.op("DequantizeLinear", levels, scale, zeros, dtype="float32", axis=0)
    rounded.shapes = weight.shapes
    return rounded


def _inlined(g: Builder, arrays: dict[str, Tensor]) -> Tensor:
    (out,) = g.inline(g.node.attrs.subgraphs[0], list(arrays.values()))
    return out


def _ended(g: Builder, p: ops.FusedConvolution | ops.FusedDense, out: Tensor, written: DType) -> list[Tensor]:
    """A float result as levels of the calibrated range. written: the dtype in which they are written, whose bits are
    then read as the result's; oneDNN writes over the summand."""
    if p.dtype == "int32":
        g.refuse("its sums are int32 levels of a range that only run time knows", _CALIBRATE)
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
    for name in ("data", "sum"):
        if name in arrays:
            real = magnitude(g, (named[f"{name}_min"], named[f"{name}_max"]))
            arrays[name] = as_numbers(g, arrays[name], real)
    arrays["weight"] = _rounded_rows(g, arrays["weight"])
    return _ended(g, p, _inlined(g, arrays), named["sum"].dtype if p.node.with_sum else p.dtype)


@onnx_form("_sg_mkldnn_fully_connected")
def _dense(g: Builder, p: ops.FusedDense, *inputs: Tensor) -> Tensor | list[Tensor]:
    named = dict(zip(p.inputs, inputs, strict=True))
    arrays = {name: named[name] for name in p.arrays}
    if p.node.quantized:
        for name in ("data",) if p.is_channel_wise else p.arrays:
            arrays[name] = as_numbers(g, named[name], magnitude(g, (named[f"min_{name}"], named[f"max_{name}"])))
        if p.is_channel_wise:
            arrays["weight"] = _rounded_rows(g, arrays["weight"])
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
        g.refuse("its sums are int32 levels of a range that only run time knows", _CALIBRATE)
    both = calibrated(g, p)
    return [as_levels(g, out, magnitude(g, both), "int8"), *both]
