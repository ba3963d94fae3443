"""Quantisation and its inverse: floats as 8-bit integers with their range, and sums of products as such again."""

from __future__ import annotations

from typing import ClassVar, Literal

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Shapes, Types, register_op, same_shape
from symjax_nnvm.ir.rules.quantized_form import its_data
from symjax_nnvm.ir.types import DType
from symjax_nnvm.ops.quantization.ranges import LAST, LEVELS, RANGE, CalibratedParams, need_levels

Levels = Literal["int8", "uint8"]


class QuantizeParams(Params):
    out_type: Levels = param("uint8", doc="dtype of the result")


class DequantizeParams(Params):
    out_type: Literal["float32"] = param("float32", doc="dtype of the result")


class QuantizeV2Params(CalibratedParams):
    positional: ClassVar = ("out_type", "min_calib_range", "max_calib_range")
    out_type: Literal["auto", "int8", "uint8"] = param(
        "int8", doc="dtype of the result; auto: uint8 where min_calib_range, of a calibrated range, is at least 0"
    )

    @property
    def dtype(self) -> DType:
        """The result's dtype."""
        if self.out_type != "auto":
            return self.out_type
        return "uint8" if self.is_calibrated and (self.min_calib_range or 0) >= 0 else "int8"


def elementwise_shapes(p: object, ins: Shapes, outs: Shapes):
    """data (…), two ranges (1,) → (…), and two ranges where the result is not float."""
    (data,), (out,) = same_shape(p, ins[:1], outs[:1])
    return [data, *[RANGE] * (len(ins) - 1)], [out, *[RANGE] * (len(outs) - 1)]


def _quantize_types(p: QuantizeParams, ins: Types, outs: Types):
    return ["float32"] * len(ins), [p.out_type, "float32", "float32"]


def _quantize_v2_types(p: QuantizeV2Params, ins: Types, outs: Types):
    """float32 → 8 bits; what has 8 bits already passes."""
    if ins[0] not in (None, "float32", p.dtype):
        expected = f"float32, or {p.dtype}, which passes as it is"
        raise InferenceError("Data cannot be quantised", input="data", expected=expected, got=ins[0])
    return ins, [p.dtype, "float32", "float32"]


def _dequantize_types(p: DequantizeParams, ins: Types, outs: Types):
    need_levels(ins[0], "data")
    return [ins[0], "float32", "float32"], ["float32"]


def _requantize_types(p: QuantizeV2Params, ins: Types, outs: Types):
    return ["int32", "float32", "float32"], [p.dtype, "float32", "float32"]


def _asymmetric_types(p: CalibratedParams, ins: Types, outs: Types):
    if ins[0] not in (None, "float32", *LEVELS):
        raise InferenceError("Data cannot be quantised", input="data", expected="float32, int8 or uint8", got=ins[0])
    return ins, ["uint8", "float32", "float32"]


register_op(
    "_contrib_quantize",
    FDequantized=its_data,
    params=QuantizeParams,
    inputs=("data", "min_range", "max_range"),
    num_outputs=3,
    infer_shape=elementwise_shapes,
    infer_type=_quantize_types,
    flops=2,
    **LAST,
    doc="data as 8-bit integers: x · 127 / m as int8, x · 255 / m as uint8, m the greater magnitude of the two ranges, "
    "rounded to the nearest and clipped. Further outputs: the range, (-m, m) of int8.",
)
register_op(
    "_contrib_quantize_v2",
    FDequantized=its_data,
    TCalibrated="input",
    params=QuantizeV2Params,
    num_outputs=3,
    unlisted_inputs=False,
    infer_shape=elementwise_shapes,
    infer_type=_quantize_v2_types,
    flops=2,
    **LAST,
    doc="data as 8-bit integers: x · 127.5 / m as int8, x · 255.5 / m as uint8, m the greater magnitude of the "
    "calibrated range, else of data, rounded to the nearest and clipped. Further outputs: the range, (-m, m) of int8.",
)
register_op(
    "_contrib_quantize_asym",
    FDequantized=its_data,
    TCalibrated="input",
    params=CalibratedParams,
    outputs=("output", "scale", "shift"),
    unlisted_inputs=False,
    infer_shape=elementwise_shapes,
    infer_type=_asymmetric_types,
    flops=2,
    **LAST,
    doc="data as uint8: x · scale + shift, where the least number of the range becomes 0 and the greatest 255.",
)
register_op(
    "_contrib_dequantize",
    FDequantized=its_data,
    params=DequantizeParams,
    inputs=("data", "min_range", "max_range"),
    infer_shape=elementwise_shapes,
    infer_type=_dequantize_types,
    flops=1,
    **LAST,
    doc="8-bit integers as floats: q · m / 127.5 of int8, q · m / 255.5 of uint8, m the greater magnitude of the "
    "ranges.",
)
register_op(
    "_contrib_requantize",
    FDequantized=its_data,
    TCalibrated="input",
    params=QuantizeV2Params,
    inputs=("data", "min_range", "max_range"),
    num_outputs=3,
    infer_shape=elementwise_shapes,
    infer_type=_requantize_types,
    flops=2,
    **LAST,
    doc="int32 as 8-bit integers: 127, or 255 of uint8, is the greatest magnitude of the calibrated range, else of "
    "data. Further outputs: that range.",
)
