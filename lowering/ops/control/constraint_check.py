"""The JAX rule of _npx_constraint_check."""

from __future__ import annotations

import jax.core
import jax.numpy as jnp
import numpy as np
from jax import Array

from lowering.core.rules import lowers
from symjax_nnvm.errors import LoweringError
from symjax_nnvm.ir.node import NodeAttrs
from symjax_nnvm.ops.control.constraint_check import ConstraintCheckParams


@lowers("_npx_constraint_check", needs=("attrs",))
def _constraint_check(p: ConstraintCheckParams, condition: Array, *, attrs: NodeAttrs) -> Array:
    if not isinstance(condition, jax.core.Tracer) and not np.asarray(condition).all():
        raise LoweringError(p.msg, op=attrs.op, node=attrs.name)
    return jnp.all(condition)
