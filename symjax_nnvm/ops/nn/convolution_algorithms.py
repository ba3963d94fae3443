"""Which algorithm a convolution with a constant weight is computed by, and what its weight becomes for that."""

from __future__ import annotations

from symjax_nnvm.algorithms import choose
from symjax_nnvm.geometry import LIBRARY, Library, winograd_tile
from symjax_nnvm.ir.node import Node, NodeEntry, altered
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.types import DType
from symjax_nnvm.ops.nn.channels_last import geometry
from symjax_nnvm.ops.nn.fused_convolution import FusedConvolutionParams, blocked, epilogue_of, taken_apart
from symjax_nnvm.ops.nn.winograd import by_winograd


def _choose(
    node: Node, shape: tuple[int, ...], dtype: DType, platform: str, library: Library | None
) -> NodeEntry | None:
    """FChooseAlgorithm: by the library; or by another algorithm, and what follows in nodes of its own. Algorithms that
    make nothing of a constant weight are chosen when the operator is lowered: None. So is that of a weight in
    blocks, as a file may have it."""
    if isinstance(node.attrs.parsed, FusedConvolutionParams) and node.attrs.parsed.block:
        return None
    g, epilogue = geometry(node.attrs.parsed, shape, dtype), epilogue_of(node)
    block = library(g, epilogue) if library else None
    algorithm = choose("forward", g, platform, constant=True, library=block is not None)
    if block is not None and algorithm == LIBRARY:
        return blocked(node, block, g.channels)
    tile = winograd_tile(algorithm)
    if not (tile or epilogue.addend or epilogue.act_type):
        return None
    plain = Node(altered(node.attrs, "_channels_last_convolution"), node.inputs[: 2 + epilogue.bias])
    return taken_apart(node, by_winograd(plain, algorithm, tile) if tile else NodeEntry(plain))


for _name in ("_channels_last_convolution", "_fused_convolution"):
    Op.get(_name).set_attr("FChooseAlgorithm", _choose)
