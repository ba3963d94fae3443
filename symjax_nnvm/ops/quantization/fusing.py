"""Which layers MXNet 1.9.1 fuses for oneDNN: a product with what follows it, a layer of integers with its rounding."""

from __future__ import annotations

from collections.abc import Sequence

from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, NodeAttrs
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.rules.fusing import Fusing
from symjax_nnvm.ops.nn.batch_norm import channel_axis
from symjax_nnvm.ops.quantization.fused import FusedConvolution, FusedDense

_PRODUCTS, _DENSE, _ATTENTION, _ROUNDING = range(4)


def _kind(node: Node) -> str:
    return "" if node.op is None else node.op.name


def _reads_once(node: Node, last: Node) -> bool:
    """Whether a node reads the first output of another, once, and none but that; as its data, but for sums."""
    read = [i for i, entry in enumerate(node.inputs) if entry.node is last]
    return len(read) == 1 and not node.inputs[read[0]].index and (not read[0] or _kind(node) == "elemwise_add")


def _is_function(node: Node, leaky: Sequence[str], others: Sequence[str] = ("clip",)) -> bool:
    """Whether a node is a function of each element that fused integers have. leaky: kinds of LeakyReLU."""
    p = node.attrs.parsed
    match _kind(node):
        case "Activation":
            return p.act_type == "relu"
        case "LeakyReLU":
            return p.act_type in leaky
        case "clip":
            return "clip" in others and p.a_min == 0
        case kind:
            return kind in others


def _joins_convolution(row: Sequence[Node], node: Node) -> bool:
    p = node.attrs.parsed
    if not row:
        return len(p.kernel) in (2, 3)
    before = [_kind(other) for other in row]
    if not _reads_once(node, row[-1]) or before[-1] not in ("Convolution", "BatchNorm", "elemwise_add"):
        return False
    if _kind(node) == "BatchNorm":
        convolution = row[0].attrs.parsed
        axis = channel_axis(p.axis, len(convolution.kernel) + 2)
        return len(row) == 1 and axis == convolution.channel_axis and not p.output_mean_var
    if _kind(node) == "elemwise_add":
        return before[-1] != "elemwise_add"
    return _is_function(node, ("leaky", "gelu"), () if before[-1] == "elemwise_add" else ("clip",))


def _fused_convolution(row: Sequence[Node], number: int, body: Graph) -> NodeAttrs:
    kinds = [{"Convolution": "conv", "BatchNorm": "bn", "elemwise_add": "add"}.get(_kind(node), "act") for node in row]
    act = "with_postsum_act" if "add" in kinds else "with_act"
    params = {"bn": "with_bn", "add": "with_sum", "act": act}
    flags = {params[kind]: "true" for kind in kinds[1:]}
    return _with_subgraph("conv", f"sg_mkldnn_{'_'.join(kinds)}_{number}", flags, body)


def _joins_dense(row: Sequence[Node], node: Node) -> bool:
    if not row:
        return True
    functions = _is_function(node, ("leaky", "elu", "gelu"), ("clip", "abs"))
    return len(row) == 1 and _reads_once(node, row[0]) and functions


def _fused_dense(row: Sequence[Node], number: int, body: Graph) -> NodeAttrs:
    more = len(row) > 1
    name = f"sg_mkldnn_fully_connected_{'eltwise_' * more}{number}"
    return _with_subgraph("fully_connected", name, {"with_eltwise": "True"} if more else {}, body)


def _fused_attention(row: Sequence[Node], number: int, body: Graph) -> NodeAttrs:
    kind = f"selfatt_{_kind(row[0]).rsplit('_', 1)[1]}"
    flags = {"heads": str(row[0].attrs.parsed.heads), "quantized": "False", "enable_float_output": "False"}
    return _with_subgraph(kind, f"sg_mkldnn_{kind}_{number}", flags, body)


def _with_subgraph(kind: str, name: str, params: dict[str, str], body: Graph) -> NodeAttrs:
    attrs = NodeAttrs(Op.get(f"_sg_mkldnn_{kind}"), name, params, subgraphs=[body])
    attrs.parse()
    return attrs


# -- rounding --------------------------------------------------------------------------------------------------------


def _joins_rounding(row: Sequence[Node], node: Node) -> bool:
    p = node.attrs.parsed
    if not row:
        return p.node.quantized if isinstance(p, FusedConvolution | FusedDense) else getattr(p, "quantized", True)
    if len(row) == 1:
        return _kind(node) == "_contrib_requantize" and p.is_calibrated
    is_float = _kind(row[0]) not in ("_sg_mkldnn_conv", "_contrib_quantized_elemwise_add")
    return len(row) == 2 and is_float and _kind(node) == "_contrib_dequantize"


def _rounded(row: Sequence[Node], number: int, body: Graph) -> NodeAttrs | None:
    if len(row) == 1:
        return None
    attrs, ranges = row[0].attrs.copy(), row[1].attrs.dict
    is_float = len(row) == 3
    attrs.dict |= (
        {"enable_float_output": "True"}
        if is_float
        else {end: ranges[end] for end in ("min_calib_range", "max_calib_range")}
    )
    attrs.parse()
    return attrs


for _op, _fusing in {
    "Convolution": Fusing(_PRODUCTS, _joins_convolution, _fused_convolution),
    "FullyConnected": Fusing(_DENSE, _joins_dense, _fused_dense),
    **dict.fromkeys(
        ("_contrib_interleaved_matmul_selfatt_qk", "_contrib_interleaved_matmul_selfatt_valatt"),
        Fusing(_ATTENTION, lambda row, node: not row, _fused_attention),
    ),
    **dict.fromkeys(
        (
            *(f"_sg_mkldnn_{kind}" for kind in ("conv", "fully_connected", "selfatt_qk", "selfatt_valatt")),
            *(f"_contrib_quantized_elemwise_{kind}" for kind in ("add", "mul")),
        ),
        Fusing(_ROUNDING, _joins_rounding, _rounded),
    ),
}.items():
    Op.get(_op).set_attr("FFusing", _fusing)
for _op, _joins in (("_contrib_quantized_concat", True), ("_contrib_quantized_pooling", False)):
    Op.get(_op).set_attr("TJoinsRanges", _joins)
