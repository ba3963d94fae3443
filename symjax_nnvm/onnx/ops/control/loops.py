"""ONNX forms of loops over subgraphs: foreach as Scan, while_loop as Loop."""

from __future__ import annotations

from collections.abc import Sequence

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.ops.control.cond import scalar
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.control import loops as ops


def _like(inner: Builder, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return inputs of a body in the shapes of tensors outside."""
    return [inner.body_input(tensor.dtype, tensor.shapes) for tensor in tensors]


@onnx_form("_foreach")
def _foreach(g: Builder, p: ops.ForeachParams, *inputs: Tensor) -> list[Tensor]:
    count = len(p.in_data_locs)
    data, states, outer = inputs[:count], inputs[count:][: p.num_states], inputs[count + p.num_states :]
    if not data:
        g.refuse("foreach needs data, which give it its length", "Pass at least one data array to foreach.")
    inner = g.body()
    pieces = [inner.body_input(x.dtype, [shape[1:] for shape in x.shapes or ()]) for x in data]
    carried = _like(inner, states)
    slices: list[Tensor] = []
    for piece in pieces:  # of a vector it is (1,), which has an axis in MXNet
        slices.append(piece if piece.ndim else inner.reshape(piece, 1))
        slices[-1].shapes = [shape or (1,) for shape in piece.shapes or ()]
    values: dict[int, Tensor] = dict(
        zip((*p.in_data_locs, *p.in_state_locs, *p.remain_locs), (*slices, *carried, *outer), strict=True)
    )
    body_outputs = inner.inline(g.node.attrs.subgraphs[0], [values[i] for i in range(len(values))])
    outputs, new = body_outputs[: p.num_out_data], body_outputs[p.num_out_data :]
    body = inner.end_body([*carried, *pieces], [*new, *outputs])
    dtypes = [tensor.dtype for tensor in (*new, *outputs)]
    results = g.ops("Scan", *states, *data, dtypes=dtypes, body=body, num_scan_inputs=count)
    return [*results[len(new) :], *results[: len(new)]]


@onnx_form("_while_loop")
def _while_loop(g: Builder, p: ops.WhileLoopParams, *inputs: Tensor) -> list[Tensor]:
    test, step = g.node.attrs.subgraphs
    first = [inputs[i] for i in p.var_inputs]

    def holds(b: Builder, variables: Sequence[Tensor]) -> Tensor:
        values = dict(zip(p.var_inputs, variables, strict=True))
        (truth,) = b.inline(test, [values.get(i, inputs[i]) for i in p.cond_input_locs])
        return scalar(b, truth)

    inner = g.body()
    number, going = inner.body_input("int64", [()] * g.count), inner.body_input("bool", [()] * g.count)
    variables = _like(inner, first)
    values = [inputs[i] for i in p.func_input_locs]
    for loc, value in zip(p.func_var_locs, variables, strict=True):
        values[loc] = value
    body_outputs = inner.inline(step, values)
    outputs, new = body_outputs[: p.num_out_data], body_outputs[p.num_out_data :]
    body = inner.end_body([number, going, *variables], [holds(inner, new), *new, *outputs])
    dtypes = [tensor.dtype for tensor in (*new, *outputs)]
    limit = g.constant(p.max_iterations, "int64")
    results = g.ops("Loop", limit, holds(g, first), *first, dtypes=dtypes, body=body)
    stacked = [_filled_up(g, p, output, out) for output, out in zip(results[len(new) :], g.outs, strict=False)]
    return [*stacked, *results[: len(new)]]


def _filled_up(g: Builder, p: ops.WhileLoopParams, stacked: Tensor, out: Tensor) -> Tensor:
    """Return the outputs of the steps, with zeros for those that did not run."""
    missing = g.op("Sub", g.constant([p.max_iterations], "int64"), g.op("Shape", stacked, start=0, end=1))
    none = [0] * (out.ndim - 1)
    pads = g.dims(0, *none, missing, *none)
    return g.op("Pad", stacked, pads, g.constant(0, out.dtype))
