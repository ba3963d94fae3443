"""JAX rules of the operators whose gradient is deliberately not their derivative: their values are those of others."""

from __future__ import annotations

import lowering.ops.elementwise.unary  # noqa: F401  (registers the rules that are shared)
from lowering.core.rules import FLowering, lowers
from symjax_nnvm.ir.op import Op

for _name, _same in (
    ("_contrib_round_ste", "round"),
    ("_contrib_sign_ste", "sign"),
    ("_contrib_gradientmultiplier", "_copy"),
):
    lowers(_name)(FLowering[Op.get(_same)].rule)
