"""JAX rules of the functions of two broadcast arrays in the NumPy dialect: inputs are cast before the classic rule."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.core.rules import lowers_table
from lowering.jax_casts import cast
from lowering.ops.elementwise.binary import ALL_FUNCTIONS, COMPARISONS, Function
from symjax_nnvm.ir.rules.promotion import promoted
from symjax_nnvm.ops.elementwise.promoted import MIXING, NUMPY

_OF_BOOLEANS: dict[str, Function] = {
    "add": lax.bitwise_or,
    "mul": lax.bitwise_and,
    "power": lambda x, y: lax.bitwise_or(x, lax.bitwise_not(y)),
}


def _rule(name: str) -> Function:
    function, mixing = {**ALL_FUNCTIONS, **COMPARISONS}[name], MIXING.get(name)

    def rule(lhs: Array, rhs: Array) -> Array:
        if mixing is not None:
            dtype = promoted(lhs.dtype.name, rhs.dtype.name, mixing)
            lhs, rhs = cast(lhs, dtype), cast(rhs, dtype)
        chosen = _OF_BOOLEANS.get(name, function) if lhs.dtype == np.bool_ else function
        return chosen(*jnp.broadcast_arrays(lhs, rhs))

    return rule


lowers_table({operator: _rule(name) for name, operator in NUMPY.items()})
