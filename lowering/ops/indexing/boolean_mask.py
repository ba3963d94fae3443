"""JAX rules of boolean_mask and of its gradient."""

from __future__ import annotations

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax import Array

from lowering.core.rules import lowers
from symjax_nnvm.errors import LoweringError
from symjax_nnvm.ir.node import NodeAttrs
from symjax_nnvm.ops.indexing import boolean_mask as ops


def values_of(array: Array, attrs: NodeAttrs, name: str, fix: str) -> np.ndarray:
    """Return an input on whose values a shape depends. Raises LoweringError when they are not known yet."""
    if isinstance(array, jax.core.Tracer):
        raise LoweringError(
            "The shape of the result depends on the values of an input, but XLA must know shapes when it compiles",
            op=attrs.op,
            node=attrs.name,
            input=name,
            expected="an array whose values are known: outside jax.jit, or a jax.Array closed over by jitted code",
            got=f"a traced {array.dtype} array of shape {array.shape}",
            fix=fix,
        )
    return np.asarray(array)


def _selected_indices(index: Array, attrs: NodeAttrs) -> np.ndarray:
    """Return the numbers of the slices that a mask keeps. Raises LoweringError when the mask is not known yet."""
    fix = (
        "Keep the shape instead: multiply data by the mask, choose with where, or mask the ends of sequences with "
        "SequenceMask."
    )
    return np.flatnonzero(values_of(index, attrs, "index", fix))


@lowers("_contrib_boolean_mask", needs=("attrs",), by_values=lambda p: True)
def _boolean_mask(p: ops.BooleanMaskParams, data: Array, index: Array, *, attrs: NodeAttrs) -> Array:
    return jnp.take(data, _selected_indices(index, attrs), axis=p.axis, mode="clip")


@lowers("_backward_boolean_mask", needs=("attrs",), by_values=lambda p: True)
def _backward_boolean_mask(
    p: ops.BooleanMaskParams, ograd: Array, data: Array, index: Array, *, attrs: NodeAttrs
) -> Array:
    places = (slice(None),) * (p.axis % data.ndim) + (_selected_indices(index, attrs),)
    return jnp.zeros(data.shape, ograd.dtype).at[places].set(ograd, unique_indices=True, indices_are_sorted=True)
