"""Layers of 8-bit integers: each array comes with its range, and so does the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import NodeAttrs
from symjax_nnvm.ir.op import Deviation
from symjax_nnvm.ir.params import param
from symjax_nnvm.ir.register import NoParams, Shapes, Types, register_op, same_shape
from symjax_nnvm.ir.rules.costs import ARRANGES
from symjax_nnvm.ir.rules.derivatives import Operands
from symjax_nnvm.ir.rules.quantized_form import float_layer
from symjax_nnvm.ir.types import DType, is_known
from symjax_nnvm.ops.nn.activation import ActivationParams
from symjax_nnvm.ops.nn.batch_norm import BatchNormParams, batch_norm_shapes, initial_moving_statistics
from symjax_nnvm.ops.nn.convolution import ConvolutionParams, convolution_flops, convolution_shapes
from symjax_nnvm.ops.nn.embedding import EmbeddingParams, embedding_shapes
from symjax_nnvm.ops.nn.fully_connected import FullyConnectedParams, fully_connected_flops, fully_connected_shapes
from symjax_nnvm.ops.nn.pooling import PoolingParams, pooling_flops, pooling_shapes, reached_data
from symjax_nnvm.ops.nn.rnn import RNNParams, operand_shapes, rnn_flops
from symjax_nnvm.ops.quantization.quantize import elementwise_shapes
from symjax_nnvm.ops.quantization.ranges import LAST, OUTPUTS, RANGE, CalibratedParams, need_levels
from symjax_nnvm.ops.shape.concat import ConcatParams, concat_shapes
from symjax_nnvm.ops.shape.reshape import flatten_shapes

# -- products --------------------------------------------------------------------------------------------------------


class QuantizedConvParams(ConvolutionParams):
    @property
    def unsupported(self) -> str | None:
        """What MXNet refuses when it infers shapes: its files have such layers, which it does not run."""
        if len(self.kernel) == 1:
            return f"kernel={self.kernel}: quantized_conv only supports 2d or 3d kernel"
        if self.num_group != 1:
            return f"num_group={self.num_group}: quantized_conv only supports num_group=1"
        if self.layout not in (None, "NCHW", "NCDHW"):
            return f"layout={self.layout!r}: quantized_conv only supports NCHW or NCDHW"
        return None


def _convolved_shapes(p: QuantizedConvParams, ins: Shapes, outs: Shapes):
    """data (n, c, …d), weight (filters, c, …kernel), bias (filters,) → (n, filters, …)."""
    if p.unsupported and is_known(ins[0]):  # parameters alone fit, to become floats again
        raise InferenceError(
            f"Parameter {p.unsupported}",
            fix="symjax_nnvm.dequantized(symbol) is the network of floats; symjax_nnvm.quantize makes integers of it "
            "again, and leaves such layers float; with fused=True it has integers for groups, too.",
        )
    return convolution_shapes(p, ins, outs)


def product_inputs(p: ConvolutionParams | FullyConnectedParams) -> Sequence[str]:
    """data, weight and bias, then the range of each."""
    arrays = ("data", "weight") if p.no_bias else ("data", "weight", "bias")
    return (*arrays, *(f"{end}_{name}" for name in arrays for end in ("min", "max")))


def _product_types(p: ConvolutionParams | FullyConnectedParams, ins: Types, outs: Types):
    need_levels(ins[0], "data")
    need_levels(ins[1], "weight", "int8")
    arrays = len(ins) // 3
    return [ins[0], *["int8"] * (arrays - 1), *["float32"] * 2 * arrays], ["int32", "float32", "float32"]


for _name, _params, _shapes, _flops, _drawing, _float in (
    ("conv", QuantizedConvParams, _convolved_shapes, convolution_flops, "convolution", "Convolution"),
    ("fully_connected", FullyConnectedParams, fully_connected_shapes, fully_connected_flops, "dense", "FullyConnected"),
):

    def _product_shapes(p: Any, ins: Shapes, outs: Shapes, rule: Any = _shapes):
        """The shapes of the operator on floats, and ranges (1,)."""
        arrays = len(ins) // 3
        inputs, outputs = rule(p, ins[:arrays], outs[:1])
        return [*inputs, *[RANGE] * 2 * arrays], [*outputs, RANGE, RANGE]

    register_op(
        f"_contrib_quantized_{_name}",
        FDequantized=float_layer(_float),
        params=_params,
        inputs=("data", "weight", "bias", *(f"{e}_{n}" for n in ("data", "weight", "bias") for e in ("min", "max"))),
        inputs_used=product_inputs,
        outputs=OUTPUTS,
        infer_shape=_product_shapes,
        infer_type=_product_types,
        flops=lambda p, ins, outs, rule=_flops: rule(p, ins[: len(ins) // 3], outs),
        drawing=_drawing,
        recompute="if forced",
        **LAST,
        doc=f"{_float} of 8-bit integers: the exact sums, int32, and the range that 2³¹ - 1 stands for.",
    )

# -- sums and products of elements -----------------------------------------------------------------------------------


class QuantizedMulParams(CalibratedParams):
    enable_float_output: bool = param(False, doc="give the product as float32, without a range")


def _pair_shapes(p: CalibratedParams, ins: Shapes, outs: Shapes):
    """lhs, rhs (…), four ranges (1,) → (…)."""
    arrays, out = same_shape(p, ins[:2], outs[:1])
    return [*arrays, *[RANGE] * 4], [*out, *[RANGE] * (len(outs) - 1)]


def _sum_types(p: CalibratedParams, ins: Types, outs: Types):
    for name, dtype in zip(("lhs", "rhs"), ins[:2], strict=True):
        need_levels(dtype, name)
    out: DType | None = "int32"
    if p.is_calibrated:
        out = None if None in ins[:2] else ins[0] if ins[0] == ins[1] else "int8"
    return [*ins[:2], *["float32"] * 4], [out, "float32", "float32"]


def _product_of_elements_types(p: QuantizedMulParams, ins: Types, outs: Types):
    for name, dtype in zip(("lhs", "rhs"), ins[:2], strict=True):
        need_levels(dtype, name, "int8")
    out = "float32" if p.enable_float_output else "int8" if p.is_calibrated else "int32"
    return ["int8", "int8", *["float32"] * 4], [out, *["float32"] * (len(outs) - 1)]


_CLIPPED = Deviation(
    "a product beyond the calibrated range is the greatest or least int8; MXNet's wraps around",
    "outputs",
    lambda p: p.is_calibrated and not p.enable_float_output,
)

for _name, _params, _types, _outputs, _doc in (
    ("add", CalibratedParams, _sum_types, lambda p: OUTPUTS, "Sum of 8-bit integers"),
    (
        "mul",
        QuantizedMulParams,
        _product_of_elements_types,
        lambda p: OUTPUTS[:1] if p.enable_float_output else OUTPUTS,
        "Product of int8",
    ),
):
    register_op(
        f"_contrib_quantized_elemwise_{_name}",
        FDequantized=float_layer(f"elemwise_{_name}"),
        params=_params,
        inputs=("lhs", "rhs", "lhs_min", "lhs_max", "rhs_min", "rhs_max"),
        num_outputs=lambda p, names=_outputs: len(names(p)),
        infer_shape=_pair_shapes,
        infer_type=_types,
        flops=3,
        drawing="elementwise",
        FListOutputNames=lambda attrs, names=_outputs: names(attrs.parsed),
        deviation=_CLIPPED if _name == "mul" else (),
        **LAST,
        doc=f"{_doc} of one shape: 8-bit integers where the range of the result was calibrated, else int32.",
    )

# -- layers that keep the range --------------------------------------------------------------------------------------


class QuantizedPoolingParams(PoolingParams):
    def check(self) -> str | None:
        if self.pool_type not in ("max", "avg"):
            return f"Parameter pool_type={self.pool_type!r}: QuantizedPoolingOp only supports pool_type=max/avg"
        if len(self.kernel) not in (2, 3):
            return f"Parameter kernel={self.kernel}: QuantizedPoolingOp only supports 2D/3D pooling"
        if self.layout not in (None, "NCHW", "NCDHW"):
            return f"Parameter layout={self.layout!r}: QuantizedPoolingOp only supports NCHW/NCDHW layout"
        return super().check()


class QuantizedActivationParams(ActivationParams):
    def check(self) -> str | None:
        """Whether the function keeps the range."""
        if self.act_type != "relu":
            return f"Parameter act_type={self.act_type!r}: _contrib_quantized_act only supports act_type=relu"
        return None


def _kept_types(p: Any, ins: Types, outs: Types):
    need_levels(ins[0] or outs[0], "data")
    dtype = ins[0] or outs[0]
    return [dtype, "float32", "float32"], [dtype, "float32", "float32"]


def _pooled_shapes(p: QuantizedPoolingParams, ins: Shapes, outs: Shapes):
    """data (n, c, …d) → (n, c, …), and ranges (1,)."""
    inputs, outputs = pooling_shapes(p, ins[:1], outs[:1])
    return [*inputs, RANGE, RANGE], [*outputs, RANGE, RANGE]


def _flattened_shapes(p: NoParams, ins: Shapes, outs: Shapes):
    """data (n, …) ↔ (n, d), and ranges (1,)."""
    inputs, outputs = flatten_shapes(p, ins[:1], outs[:1])
    return [*inputs, RANGE, RANGE], [*outputs, RANGE, RANGE]


_KEEPING: dict[str, Any] = {
    "inputs": ("data", "min_data", "max_data"),
    "outputs": OUTPUTS,
    "infer_type": _kept_types,
    **LAST,
}
register_op(
    "_contrib_quantized_pooling",
    FDequantized=float_layer("Pooling"),
    params=QuantizedPoolingParams,
    infer_shape=_pooled_shapes,
    flops=pooling_flops,
    workspace=reached_data(0),
    drawing="pooling",
    doc="The maximum or mean of every window of 8-bit integers, in their range. A mean is rounded to the nearest.",
    **_KEEPING,
)
register_op(
    "_contrib_quantized_act",
    FDequantized=float_layer("Activation"),
    params=QuantizedActivationParams,
    infer_shape=elementwise_shapes,
    flops=1,
    drawing="activation",
    doc="max(x, 0) of 8-bit integers, in their range.",
    **_KEEPING,
)
register_op(
    "_contrib_quantized_flatten",
    FDequantized=float_layer("Flatten"),
    infer_shape=_flattened_shapes,
    drawing="shape",
    doc="Collapse all axes but the first of 8-bit integers: (n, …) → (n, d), in their range.",
    **ARRANGES,
    **_KEEPING,
)

# -- concat ----------------------------------------------------------------------------------------------------------


def _concat_inputs(attrs: NodeAttrs) -> list[str]:
    names = [f"arg{i}" for i in range(attrs.parsed.num_args)]
    return [*names, *(f"{name}_{end}" for name in names for end in ("min", "max"))]


def _joined_shapes(p: ConcatParams, ins: Shapes, outs: Shapes):
    """The shapes of Concat, and ranges (1,), two for each array."""
    inputs, outputs = concat_shapes(p, ins[: p.num_args], outs[:1])
    return [*inputs, *[RANGE] * 2 * p.num_args], [*outputs, RANGE, RANGE]


def _joined_types(p: ConcatParams, ins: Types, outs: Types):
    arrays = ins[: p.num_args]
    for i, dtype in enumerate(arrays):
        need_levels(dtype, f"arg{i}")
    out = "int8" if "int8" in arrays else None if None in arrays else "uint8"
    return [*arrays, *["float32"] * 2 * p.num_args], [out, "float32", "float32"]


register_op(
    "_contrib_quantized_concat",
    FDequantized=float_layer("Concat"),
    params=ConcatParams,
    variadic="num_args",
    list_inputs=_concat_inputs,
    outputs=OUTPUTS,
    infer_shape=_joined_shapes,
    infer_type=_joined_types,
    flops=1,
    drawing="shape",
    **LAST,
    doc="Join arrays of 8-bit integers along an axis, in the range that holds all their ranges and 0; int8 if any is.",
).set_num_inputs(lambda attrs: 3 * attrs.parsed.num_args)

# -- parameters that stay float --------------------------------------------------------------------------------------


class QuantizedBatchNormParams(BatchNormParams, CalibratedParams):
    positional: ClassVar = tuple(BatchNormParams.__dataclass_fields__)


def _normalised_shapes(p: QuantizedBatchNormParams, ins: Shapes, outs: Shapes):
    """data (…, c, …), gamma, beta, moving_mean, moving_var (c,), ranges (1,) → (…, c, …), ranges (1,)."""
    inputs, outputs = batch_norm_shapes(p, ins[:5], [outs[0], None, None])
    return [*inputs, RANGE, RANGE], [outputs[0], RANGE, RANGE]


def _normalised_types(p: QuantizedBatchNormParams, ins: Types, outs: Types):
    if not p.is_calibrated:
        raise InferenceError(
            "min_calib_range or max_calib_range is not available. Quantized BN currently don't support calib_mode=None",
            fix="Calibrate the network, or leave this layer out: excluded=[its name].",
        )
    need_levels(ins[0], "data")
    return [ins[0], *["float32"] * 6], ["int8", "float32", "float32"]


def _rows_shapes(p: EmbeddingParams, ins: Shapes, outs: Shapes):
    """data (…), weight (input_dim, output_dim), ranges (1,) → (…, output_dim), ranges (1,)."""
    inputs, outputs = embedding_shapes(p, ins[:2], outs[:1])
    return [*inputs, RANGE, RANGE], [*outputs, RANGE, RANGE]


def _rows_types(p: EmbeddingParams, ins: Types, outs: Types):
    need_levels(ins[1], "weight", "int8")
    return [ins[0], "int8", "float32", "float32"], ["int8", "float32", "float32"]


register_op(
    "_contrib_quantized_batch_norm",
    FDequantized=float_layer("BatchNorm"),
    TCalibrated="output",
    params=QuantizedBatchNormParams,
    inputs=("data", "gamma", "beta", "moving_mean", "moving_var", "min_data", "max_data"),
    outputs=OUTPUTS,
    mutates=(3, 4),
    infer_shape=_normalised_shapes,
    infer_type=_normalised_types,
    flops=2,
    drawing="normalization",
    FSetInputVarAttrOnCompose=initial_moving_statistics,
    **LAST,
    doc="Batch normalisation of 8-bit integers by the moving statistics, to int8 of the calibrated range. gamma counts "
    "even where fix_gamma says that it is 1.",
)
register_op(
    "_contrib_quantized_embedding",
    FDequantized=float_layer("Embedding"),
    params=EmbeddingParams,
    inputs=("data", "weight", "min_weight", "max_weight"),
    outputs=OUTPUTS,
    infer_shape=_rows_shapes,
    infer_type=_rows_types,
    flops=0,
    numbers=(0, lambda p, shapes: p.input_dim),
    drawing="dense",
    **LAST,
    doc="Rows of int8 by number, in their range; numbers outside are clipped.",
)

# -- RNN -------------------------------------------------------------------------------------------------------------


class QuantizedRNNParams(RNNParams):
    any_key: ClassVar[bool] = True

    def check(self) -> str | None:
        if self.mode != "lstm":
            return f"Parameter mode={self.mode!r}: Quantized recurrent neural network only supports LSTM operator"
        for name, unsupported in (
            ("projection_size", self.projection_size is not None),
            ("use_sequence_length", self.use_sequence_length),
            ("lstm_state_clip_min", self.lstm_state_clip_min is not None),
        ):
            if unsupported:
                return f"Parameter {name}={getattr(self, name)}: quantized_rnn only supports Vanilla LSTM"
        return super().check()


def _recurrent_shapes(p: QuantizedRNNParams, ins: Shapes, outs: Shapes):
    """The shapes of RNN, and scale and shift (1,)."""
    at = operand_shapes(p, Operands(list(outs), list(ins[:4]), [], []))
    return [*at.smooth, RANGE, RANGE], at.heads


def _recurrent_types(p: QuantizedRNNParams, ins: Types, outs: Types):
    return ["uint8", *["float32"] * 5], ["float32"] * len(outs)


def _recurrent_outputs(p: QuantizedRNNParams) -> Sequence[str]:
    # MXNet misspells the last.
    return ("output", "state_output", "statecell_ouput") if p.state_outputs else ("output",)


register_op(
    "_contrib_quantized_rnn",
    FDequantized=float_layer("RNN"),
    params=QuantizedRNNParams,
    inputs=("data", "parameters", "state", "state_cell", "data_scale", "data_shift"),
    inputs_used=lambda p: ("data", "parameters", "state", "state_cell", "min_data", "max_data"),  # MXNet's two lists
    num_outputs=lambda p: len(_recurrent_outputs(p)),
    infer_shape=_recurrent_shapes,
    infer_type=_recurrent_types,
    flops=lambda p, ins, outs: rnn_flops(p, ins, outs),
    drawing="recurrent",
    recompute="if forced",
    FListOutputNames=lambda attrs: _recurrent_outputs(attrs.parsed),
    **LAST,
    doc="LSTM of uint8 data, (q - shift) / scale, and of weights that are rounded to int8, a scale for each row; "
    "states and biases are float32.",
)
