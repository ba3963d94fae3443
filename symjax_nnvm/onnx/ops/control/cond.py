"""The ONNX form of `_cond`: If."""

from __future__ import annotations

from symjax_nnvm.ir.node import Subgraph
from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.tensors import OnnxBody, Tensor
from symjax_nnvm.ops.control import cond as ops


def scalar(g: Builder, truth: Tensor) -> Tensor:
    """A number (1,), or of no axes, as a boolean without axes."""
    return g.cast(g.op("Reshape", truth, g.constant([], "int64")), "bool")


@onnx_form("_cond")
def _cond(g: Builder, p: ops.CondParams, *inputs: Tensor) -> list[Tensor]:
    test, then_branch, else_branch = g.node.attrs.subgraphs
    (predicate,) = g.inline(test, [inputs[i] for i in p.cond_input_locs])

    def branch(graph: Subgraph, locs: tuple[int, ...]) -> OnnxBody:
        inner = g.body()
        return inner.end_body([], inner.inline(graph, [inputs[i] for i in locs]))

    dtypes = [out.dtype for out in g.outs]
    return g.ops(
        "If",
        scalar(g, predicate),
        dtypes=dtypes,
        then_branch=branch(then_branch, p.then_input_locs),
        else_branch=branch(else_branch, p.else_input_locs),
    )
