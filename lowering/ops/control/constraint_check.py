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


class ConstraintError(LoweringError, ValueError):
    """A condition that does not hold. MXNet raises a ValueError."""


@lowers("_npx_constraint_check", needs=("attrs",), by_values=lambda p: True)
def _constraint_check(p: ConstraintCheckParams, condition: Array, *, attrs: NodeAttrs) -> Array:
    if not isinstance(condition, jax.core.Tracer) and not np.asarray(condition).all():
        raise ConstraintError(p.msg, op=attrs.op, node=attrs.name)
    return jnp.all(condition)
