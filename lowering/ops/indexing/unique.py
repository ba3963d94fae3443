"""JAX rules of unique and nonzero, which need values."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lowering.core.rules import lowers
from lowering.ops.indexing.boolean_mask import values_of
from symjax_nnvm.ir.node import NodeAttrs
from symjax_nnvm.ops.indexing.unique import UniqueParams

_SAME_SHAPE = "Keep the shape instead: sort the elements, or choose with where."


def _int64(indices: np.ndarray) -> Array:
    return jnp.asarray(indices, jax.dtypes.canonicalize_dtype(np.int64))


@lowers("_npi_unique", needs=("attrs",), by_values=lambda p: True)
def _unique(p: UniqueParams, data: Array, *, attrs: NodeAttrs) -> list[Array]:
    values = values_of(data, attrs, "data", _SAME_SHAPE)
    results = np.unique(np.atleast_1d(values), True, True, True, p.axis)
    elements, first, inverse, counts = results
    requests = ((p.return_index, first), (p.return_inverse, inverse.reshape(-1)), (p.return_counts, counts))
    return [jnp.asarray(elements), *(_int64(indices) for is_asked, indices in requests if is_asked)]


@lowers("_npx_nonzero", needs=("attrs",), by_values=lambda p: True)
def _nonzero(p: object, x: Array, *, attrs: NodeAttrs) -> Array:
    return _int64(np.argwhere(np.atleast_1d(values_of(x, attrs, "x", _SAME_SHAPE))))
