"""_npx_constraint_check: an error with a message where a condition does not hold."""

from __future__ import annotations

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Types, register_op


class ConstraintCheckParams(Params):
    msg: str = param("Constraint violated.", doc="the error's message")


def _constraint_type(p: ConstraintCheckParams, ins: Types, outs: Types):
    """bool → bool."""
    if ins[0] not in (None, "bool"):
        raise InferenceError("A constraint is a bool array", input="input", expected="bool", got=ins[0])
    return ["bool"], ["bool"]


register_op(
    "_npx_constraint_check",
    params=ConstraintCheckParams,
    inputs=("input",),
    infer_shape=lambda p, ins, outs: (ins, [()]),
    infer_type=_constraint_type,
    gradient=lambda node, ograds: [None],
    flops=0,
    deviation="code that jax.jit traces as a whole returns false and raises no error",
    doc="Whether all elements are true; where one is false, an error with a message of the caller's. Code that jax.jit "
    "traces as a whole returns false, where MXNet's raises it.",
)
