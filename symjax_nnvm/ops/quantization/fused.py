"""What MXNet fuses for oneDNN: a product with what follows it, and attention, of floats or of 8-bit integers.

A node of `_sg_mkldnn_conv` or `_sg_mkldnn_fully_connected` has a subgraph: the product, and the operators that it was
fused with, in a row. The parser takes their parameters out of it. Files of MXNet 2 call the operators `_sg_onednn_…`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from symjax_nnvm.errors import ParamError
from symjax_nnvm.ir.listing import subgraph_variables
from symjax_nnvm.ir.node import Node, NodeAttrs, NodeEntry
from symjax_nnvm.ir.op import Deviation, Op
from symjax_nnvm.ir.params import param, schema_of
from symjax_nnvm.ir.register import Shapes, Types, register_op
from symjax_nnvm.ir.rules.costs import FlopsRule
from symjax_nnvm.ir.rules.quantized_form import QuantizedForm, float_layer, quantized_attrs, unfolded
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.ir.types import DType
from symjax_nnvm.ops.control.subgraph import DTYPES, SHAPES, SubgraphInference
from symjax_nnvm.ops.nn.attention import HeadsParams, mixture_flops, score_flops, self_mixing_shapes, self_score_shapes
from symjax_nnvm.ops.nn.batch_norm import BatchNormParams
from symjax_nnvm.ops.nn.convolution import ConvolutionParams, convolution_flops
from symjax_nnvm.ops.nn.fully_connected import FullyConnectedParams, fully_connected_flops
from symjax_nnvm.ops.quantization.layers import product_inputs
from symjax_nnvm.ops.quantization.ranges import LAST, OUTPUTS, RANGE, CalibratedParams, need_levels

_NOT_NEGATIVE = ("sigmoid", "softrelu")
_ACTIVATIONS = ("Activation", "LeakyReLU", "clip")
_FUNCTIONS = (*_ACTIVATIONS, "square", "sqrt", "exp", "abs")


class FusedParams(CalibratedParams):
    quantized: bool = param(False, doc="the product is one of 8-bit integers")
    enable_float_output: bool = param(False, doc="quantized: give the result as float32, without a range")


class FusedInt8ConvolutionParams(CalibratedParams):
    positional: ClassVar = (
        *("with_bn", "with_act", "with_sum", "with_postsum_act", "quantized"),
        *("min_calib_range", "max_calib_range"),
    )
    with_bn: bool = param(False, doc="BatchNorm follows the convolution")
    with_act: bool = param(False, alias="with_relu", doc="an activation follows these")
    with_sum: bool = param(False, doc="another array is added to these")
    with_postsum_act: bool = param(False, alias="with_postsum_relu", doc="an activation follows the sum")
    quantized: bool = param(False, doc="the convolution is one of 8-bit integers")


class FusedDenseParams(FusedParams):
    positional: ClassVar = (
        *("quantized", "enable_float_output", "with_eltwise"),
        *("min_calib_range", "max_calib_range", "channel_wise_quantize"),
    )
    with_eltwise: bool = param(False, alias="with_relu", doc="a function of each element follows")
    channel_wise_quantize: bool | None = param(None, doc="quantized: weights are floats, and get a scale for each row")


class FusedAttentionParams(FusedParams, HeadsParams):
    positional: ClassVar = ("heads", "quantized", "enable_float_output", "min_calib_range", "max_calib_range")


@dataclass(frozen=True)
class FusedFunction:
    """A function of each element: an operator's name, and its parameters."""

    op: str
    params: Any

    @property
    def kind(self) -> str:
        """The function's name: relu of Activation, leaky of LeakyReLU, the operator's of others."""
        return getattr(self.params, "act_type", self.op)

    @property
    def is_positive(self) -> bool:
        """Whether oneDNN's function has no negative results, as MXNet sees it for a convolution."""
        return (self.kind == "leaky" and self.params.slope == 0) or self.kind in ("relu", "clip", *_NOT_NEGATIVE)


@dataclass(frozen=True)
class FusedConvolution:
    """Parameters of a fused convolution: of the node, and of the operators in its subgraph."""

    node: FusedInt8ConvolutionParams
    convolution: ConvolutionParams
    batch_norm: BatchNormParams | None
    act: FusedFunction | None
    postsum_act: FusedFunction | None

    @property
    def arrays(self) -> list[str]:
        """Names of the inputs that the subgraph has."""
        return [
            *("data", "weight"),
            *["bias"] * (not self.convolution.no_bias),
            *(("gamma", "beta", "mean", "var") if self.node.with_bn else ()),
            *["sum"] * self.node.with_sum,
        ]

    @property
    def inputs(self) -> list[str]:
        """Names of all inputs."""
        ranged = ("data", "sum") if self.node.with_sum else ("data",)
        return [*self.arrays, *(f"{name}_{end}" for name in ranged * self.node.quantized for end in ("min", "max"))]

    @property
    def outputs(self) -> Sequence[str]:
        """Names of the outputs."""
        return ("output", "output_min", "output_max") if self.node.quantized else ("output",)

    @property
    def dtype(self) -> DType:
        """The dtype of the result, which is float32 where nothing is quantised."""
        if not self.node.quantized:
            return "float32"
        if not self.node.is_calibrated:
            return "int32"
        last = self.postsum_act if self.node.with_sum else self.act
        return "uint8" if last is not None and last.is_positive else "int8"


@dataclass(frozen=True)
class FusedDense:
    """Parameters of a fused dense layer: of the node, and of the operators in its subgraph."""

    node: FusedDenseParams
    dense: FullyConnectedParams
    function: FusedFunction | None

    @property
    def arrays(self) -> list[str]:
        """Names of the inputs that the subgraph has."""
        return ["data", "weight", *["bias"] * (not self.dense.no_bias)]

    @property
    def is_channel_wise(self) -> bool:
        """Whether weights are floats that get a scale for each row."""
        return bool(self.node.channel_wise_quantize)

    @property
    def inputs(self) -> list[str]:
        """Names of all inputs."""
        if not self.node.quantized:
            return self.arrays
        return [*self.arrays, "min_data", "max_data"] if self.is_channel_wise else list(product_inputs(self.dense))

    @property
    def outputs(self) -> Sequence[str]:
        """Names of the outputs."""
        return OUTPUTS if self.node.quantized and not self.node.enable_float_output else OUTPUTS[:1]

    @property
    def dtype(self) -> DType:
        """The dtype of the result."""
        if not self.node.quantized or self.node.enable_float_output:
            return "float32"
        if not self.node.is_calibrated:
            return "int32"
        kinds = ("leaky", "relu", *_NOT_NEGATIVE, *_FUNCTIONS[2:])
        return "uint8" if self.function is not None and self.function.kind in kinds else "int8"


# -- from the subgraph -----------------------------------------------------------------------------------------------


def _row(attrs: NodeAttrs, expected: Sequence[Sequence[str]]) -> list[Node]:
    """The operators of a node's subgraph, which stand in a row. expected: the names that each may have.

    Raises ParamError for another subgraph.
    """
    op = attrs.op
    if len(attrs.subgraphs) != 1:
        raise ParamError(
            "The operator needs a subgraph",
            op=op,
            node=attrs.name,
            expected="one, of the operators that were fused",
            got=len(attrs.subgraphs),
            fix="It occurs in files of networks that MXNet fused for oneDNN, or quantised; no function makes it.",
        )
    graph = attrs.subgraphs[0]
    row = [node for node in post_order(graph.outputs) if not node.is_variable]
    fits = len(row) == len(expected) and all(
        node.op is not None and node.op.name in names for node, names in zip(row, expected, strict=True)
    )
    fed: list[Node] = []
    for last, node in zip([None, *row], row, strict=False):
        sources = [entry.node for entry in node.inputs]
        fits = fits and (last is None or sources[:1] == [last])
        fed += sources[last is not None :]
    if not fits or fed != subgraph_variables(graph) or [entry.node for entry in graph.outputs] != row[-1:]:
        raise ParamError(
            "The subgraph does not fit the parameters",
            op=op,
            node=attrs.name,
            expected=f"{' → '.join(map('|'.join, expected))}, each fed by the one before and by variables",
            got=" → ".join(node.op.name for node in row if node.op is not None) or "no operator",
        )
    return row


def _function(node: Node | None) -> FusedFunction | None:
    return None if node is None or node.op is None else FusedFunction(node.op.name, node.attrs.parsed)


def _convolution_of(attrs: NodeAttrs, p: FusedInt8ConvolutionParams) -> FusedConvolution:
    expected = [
        ("Convolution",),
        *[("BatchNorm",)] * p.with_bn,
        *[_ACTIVATIONS] * p.with_act,
        *[("elemwise_add",)] * p.with_sum,
        *[_ACTIVATIONS] * p.with_postsum_act,
    ]
    nodes = iter(_row(attrs, expected))
    convolution = next(nodes).attrs.parsed
    batch_norm = next(nodes).attrs.parsed if p.with_bn else None
    act = next(nodes) if p.with_act else None
    if p.with_sum:
        next(nodes)
    return FusedConvolution(p, convolution, batch_norm, _function(act), _function(next(nodes, None)))


def _dense_of(attrs: NodeAttrs, p: FusedDenseParams) -> FusedDense:
    dense, *functions = _row(attrs, [("FullyConnected",), *[_FUNCTIONS] * p.with_eltwise])
    return FusedDense(p, dense.attrs.parsed, _function(next(iter(functions), None)))


def _parse_with(op: Op, params: type, fused: Callable[[NodeAttrs, Any], Any]) -> None:
    schema = schema_of(params)

    def parser(attrs: NodeAttrs) -> None:
        for old, new in schema.aliases.items():  # as MXNet renames them
            if old in attrs.dict:
                attrs.dict[new] = attrs.dict.pop(old)
        attrs.parsed = fused(attrs, schema.parse(attrs.dict, op.name, attrs.name))

    op.set_attr_parser(parser)


# -- inference -------------------------------------------------------------------------------------------------------


def _inside(infer: SubgraphInference, attrs: NodeAttrs, ins: Sequence[Any], outs: Sequence[Any], of_range: Any):
    """What the subgraph declares of its inputs, its output and ranges."""
    arrays = len(attrs.parsed.arrays)
    inputs, heads = infer.inside(attrs.subgraphs[0], ins[:arrays], outs[:1])
    return [*inputs, *[of_range] * (len(ins) - arrays)], [*heads, *[of_range] * (len(outs) - 1)]


def _shapes(attrs: NodeAttrs, ins: Shapes, outs: Shapes):
    """The shapes of the subgraph, and ranges (1,)."""
    return _inside(SHAPES, attrs, ins, outs, RANGE)


def _types(attrs: NodeAttrs, ins: Types, outs: Types):
    """The dtypes of the subgraph; quantized: data and a sum of 8 bits."""
    p: FusedConvolution | FusedDense = attrs.parsed
    if not p.node.quantized:
        return _inside(DTYPES, attrs, ins, outs, None)
    weight: DType = "float32" if isinstance(p, FusedConvolution) or p.is_channel_wise else "int8"
    ranges = len(ins) - len(p.arrays)
    inputs: list[DType | None] = [*[weight] * len(p.arrays), *["float32"] * ranges]
    for i, name in enumerate(p.arrays):
        if name in ("data", "sum"):
            need_levels(ins[i], name)
            inputs[i] = ins[i]
        elif inputs[i] == "int8":
            need_levels(ins[i], name, "int8")
    return inputs, [p.dtype, *["float32"] * (len(outs) - 1)]


def _mutated(attrs: NodeAttrs) -> Sequence[int]:
    names = attrs.parsed.arrays
    return [names.index(name) for name in ("mean", "var") if name in names]


def _at_inference(node: Node) -> NodeEntry | None:
    """What stands in the subgraph, of floats: an FInference."""
    p = node.attrs.parsed
    return None if getattr(p, "node", p).quantized or not node.attrs.subgraphs else unfolded(node)


_SCALED = Deviation(
    "each filter has levels of its own; MXNet rounds all filters of group g of several by those of filter g, and then "
    "takes each for its own",
    "outputs",
    lambda p: p.node.quantized and 1 < p.convolution.num_group < p.convolution.num_filter,
)


def _quantized_convolution(attrs: NodeAttrs) -> QuantizedForm | None:
    p: FusedConvolution = attrs.parsed
    if p.node.quantized:
        return None
    floats = [i for i, name in enumerate(p.arrays) if name not in ("data", "sum")]
    form_attrs = quantized_attrs(attrs, "_sg_mkldnn_conv", quantized="true")
    return QuantizedForm(form_attrs, is_product=True, float_inputs=floats, requantized=True)


def _quantized_dense(attrs: NodeAttrs) -> QuantizedForm | None:
    p: FusedDense = attrs.parsed
    if p.node.quantized:
        return None
    op = "_sg_mkldnn_fully_connected"
    by_channel = quantized_attrs(attrs, op, quantized="True", channel_wise_quantize="True")
    floats = range(1, len(p.arrays))
    rows = QuantizedForm(by_channel, is_product=True, requantized=True, float_inputs=floats)
    form_attrs = quantized_attrs(attrs, op, quantized="True")
    return QuantizedForm(form_attrs, is_product=True, requantized=True, by_channel=rows)


def _quantized_attention(attrs: NodeAttrs) -> QuantizedForm | None:
    assert attrs.op is not None
    if attrs.parsed.quantized:
        return None
    return QuantizedForm(quantized_attrs(attrs, attrs.op.name, quantized="True"), is_product=True, requantized=True)


for _name, _params, _fused, _quantized, _flops, _drawing, _doc in (
    (
        "conv",
        FusedInt8ConvolutionParams,
        _convolution_of,
        _quantized_convolution,
        lambda p, ins, outs: convolution_flops(p.convolution, ins[: 2 + (not p.convolution.no_bias)], outs),
        "convolution",
        "A convolution with what follows it in its subgraph: BatchNorm by its moving statistics, an activation, a sum, "
        "an activation. Each filter has levels of its own, as in MXNet where there is one group.",
    ),
    (
        "fully_connected",
        FusedDenseParams,
        _dense_of,
        _quantized_dense,
        lambda p, ins, outs: fully_connected_flops(p.dense, ins, outs),
        "dense",
        "A dense layer with the function of each element that follows it in its subgraph.",
    ),
):
    _rule: FlopsRule = _flops
    _op = register_op(
        f"_sg_mkldnn_{_name}",
        aliases=(f"_sg_onednn_{_name}",),
        params=_params,
        inputs=(),
        list_inputs=lambda attrs: attrs.parsed.inputs,
        num_outputs=lambda p: len(p.outputs),
        infer_shape=None,
        infer_type=None,
        flops=_rule,
        drawing=_drawing,
        recompute="if forced",
        FListOutputNames=lambda attrs: attrs.parsed.outputs,
        FInferShape=_shapes,
        FInferType=_types,
        FMutateInputs=_mutated,
        FDequantized=unfolded,
        FQuantized=_quantized,
        FInference=_at_inference,
        deviation=_SCALED if _name == "conv" else (),
        **LAST,
        doc=f"{_doc} quantized: of 8-bit integers and their range, to such of the calibrated range, or to int32.",
    )
    _parse_with(_op, _params, _fused)

# -- attention -------------------------------------------------------------------------------------------------------


def _attention_types(p: FusedAttentionParams, ins: Types, outs: Types):
    if not p.quantized:
        return ["float32"] * len(ins), ["float32"]
    out = "float32" if p.enable_float_output else "int8" if p.is_calibrated else "int32"
    arrays = ["int8", "uint8"][: len(ins) // 3]
    return [*arrays, *["float32"] * (len(ins) - len(arrays))], [out, *["float32"] * (len(outs) - 1)]


_RANGED = Deviation(
    "sums of int32 come with their range; MXNet's is that of zeros",
    "outputs",
    lambda p: p.quantized and not p.is_calibrated and not p.enable_float_output,
)

for _name, _arrays, _scores, _cost, _doc in (
    ("qk", ("queries_keys_values",), self_score_shapes, score_flops, "The scores"),
    ("valatt", ("queries_keys_values", "attention"), self_mixing_shapes, mixture_flops, "The mixed values"),
):

    def _attention_shapes(
        p: FusedAttentionParams, ins: Shapes, outs: Shapes, rule: Any = _scores, arrays: Sequence[str] = _arrays
    ):
        """The shapes of the operator on floats, and ranges (1,)."""
        count = len(arrays)
        inputs, outputs = rule(p, ins[:count], outs[:1])
        return [*inputs, *[RANGE] * (len(ins) - count)], [*outputs, *[RANGE] * (len(outs) - 1)]

    _ends = tuple(f"{end}_{name}" for name in ("qkv", "attention")[: len(_arrays)] for end in ("min", "max"))
    _plain = float_layer(f"_contrib_interleaved_matmul_selfatt_{_name}")
    register_op(
        f"_sg_mkldnn_selfatt_{_name}",
        FDequantized=lambda node, plain=_plain: unfolded(node) if node.attrs.subgraphs else plain(node),
        FQuantized=_quantized_attention,
        FInference=_at_inference,
        aliases=(f"_sg_onednn_selfatt_{_name}",),
        params=FusedAttentionParams,
        inputs=(*_arrays, *_ends),
        inputs_used=lambda p, arrays=_arrays, ends=_ends: (*arrays, *ends) if p.quantized else arrays,
        num_outputs=lambda p: 3 if p.quantized and not p.enable_float_output else 1,
        infer_shape=_attention_shapes,
        infer_type=_attention_types,
        flops=_cost,
        drawing="dense",
        recompute="if forced",
        deviation=_RANGED if _name == "qk" else (),
        FListOutputNames=lambda attrs: (
            OUTPUTS if attrs.parsed.quantized and not attrs.parsed.enable_float_output else OUTPUTS[:1]
        ),
        **LAST,
        doc=f"{_doc} of _contrib_interleaved_matmul_selfatt_{_name}; quantized: of 8-bit integers and their range, to "
        "int8 of the calibrated range, or to int32; of those MXNet gives the range of zeros.",
    )
