"""What an operator on floats is on 8-bit integers, and the way back: values of FQuantized and FDequantized."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any

from symjax_nnvm.errors import ParamError
from symjax_nnvm.ir.listing import subgraph_variables
from symjax_nnvm.ir.node import Node, NodeAttrs, NodeEntry, altered
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.rewrite import rewrite

PREFIX = "quantized_"
"""How the name of a layer begins that was quantised, as MXNet calls it."""

QUANTIZED = "_quantize"
"""How the name of a parameter ends that was quantised before: `fc1_weight_quantize`, with `…_min` and `…_max`."""


@dataclass(frozen=True)
class QuantizedForm:
    """What a node of a network of floats is in one of 8-bit integers.

    Attributes:
        attrs: operator, name and parameters there.
        is_product: quantising it pays, and its neighbours are quantised with it; others only are between such.
        float_inputs: numbers of inputs that stay float.
        asymmetric: numbers of inputs that get a scale and a shift in place of a range.
        requantized: the result is of int32, and becomes one of 8 bits.
        is_float: the results are floats.
        by_channel: the form whose weights get a range for each channel, if there is one.
    """

    attrs: NodeAttrs
    is_product: bool = False
    float_inputs: Container[int] = ()
    asymmetric: Container[int] = ()
    requantized: bool = False
    is_float: bool = False
    by_channel: QuantizedForm | None = None


def quantized_as(
    op: str, applies: Callable[[Any], bool] = lambda p: True, **traits: Any
) -> Callable[[NodeAttrs], QuantizedForm | None]:
    """Return an FQuantized: this operator, of the same parameters, which it may refuse. applies: parameters → whether
    they have the form. traits: of `QuantizedForm`."""

    def form(attrs: NodeAttrs) -> QuantizedForm | None:
        if not applies(attrs.parsed):
            return None
        try:
            quantized = quantized_attrs(attrs, op)
        except ParamError:
            return None
        return None if getattr(quantized.parsed, "unsupported", None) else QuantizedForm(quantized, **traits)

    return form


def quantized_attrs(attrs: NodeAttrs, op: str, **params: str) -> NodeAttrs:
    """Return a layer's attributes where it is one of integers: of this operator, with further parameters, as text."""
    quantized = attrs.copy()
    quantized.op, quantized.name = Op.get(op), PREFIX + attrs.name
    quantized.dict |= params
    quantized.parse()
    return quantized


def float_layer(op: str) -> Callable[[Node], Node]:
    """Return an FDequantized: this operator, of the same parameters, under the layer's own name, without ranges."""

    def form(node: Node) -> Node:
        plain = node.attrs.copy()
        for end in ("min", "max"):
            plain.dict.pop(f"{end}_calib_range", None)
        attrs = altered(plain, op)
        attrs.name = attrs.name.removeprefix(PREFIX)
        return Node(attrs, node.inputs[: Op.get(op).num_inputs(attrs)], node.control_deps)

    return form


def its_data(node: Node) -> NodeEntry:
    """Return the data of an operator that only changes how numbers are stored: an FDequantized."""
    return node.inputs[0]


def unfolded(node: Node) -> NodeEntry:
    """Return the result of the operators in a node's subgraph, which read what the node does: an FDequantized."""
    (graph,) = node.attrs.subgraphs
    variables = subgraph_variables(graph)
    fed = dict(zip(variables, node.inputs[: len(variables)], strict=True))
    return rewrite(graph.outputs, lambda inner, draft: fed.get(inner), fresh=True).outputs[0]
