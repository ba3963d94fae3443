"""bincount of MXNet's NumPy dialect: how often each number occurs. How many there are depends on values."""

from __future__ import annotations

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Shapes, Types, register_op
from symjax_nnvm.ir.types import format_shape
from symjax_nnvm.ops.elementwise.binary import need_whole


class BincountParams(Params):
    minlength: int = param(0, ge=0, doc="the least length of the result")
    has_weights: bool = param(False, doc="whether an input has weights")


def _bincount_shapes(p: BincountParams, ins: Shapes, outs: Shapes):
    """data (n,), weights (n,) → (?,)."""
    if ins[0] is not None and len(ins[0]) != 1:
        raise InferenceError("Input only accept 1d array", input="data", expected="(n,)", got=format_shape(ins[0]))
    return [ins[0]] * len(ins), [(None,)]


def _bincount_type(p: BincountParams, ins: Types, outs: Types):
    """data of whole numbers → their dtype, or that of the weights."""
    need_whole(ins[0])
    return ins, [ins[-1]]


register_op(
    "_npi_bincount",
    params=BincountParams,
    inputs=("data", "weights"),
    inputs_used=lambda p: ("data", "weights") if p.has_weights else ("data",),
    infer_shape=_bincount_shapes,
    infer_type=_bincount_type,
    gradient=lambda node, ograds: [None] * len(node.inputs),
    not_derivative="MXNet passes no gradient through it",
    TDataDependentShape=True,
    flops="how many numbers there are depends on values",
    doc="out[k] is how many elements are k, or the sum of their weights. The length depends on values, and XLA "
    "compiles for shapes, so it runs where the data are known: outside jax.jit.",
)
