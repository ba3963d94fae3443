"""JAX rules of the operators that put the same elements in another shape, and of those that return shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lowering.core.rules import lowers, lowers_table
from symjax_nnvm.ops.shape import reshape
from symjax_nnvm.ops.shape import transpose as movement


def _lower_by_shape(name: str, shapes) -> None:
    """The operator is a reshape to the result of its shape rule."""

    def rule(p, data: Array, *like: Array) -> Array:
        _, (out,) = shapes(p, [data.shape, *(array.shape for array in like)], [None])
        return data.reshape(out)

    lowers(name)(rule)


for _name, _shapes in (
    ("Reshape", reshape.reshape_shapes),
    ("_np_reshape", reshape.reshape_shapes),
    ("_npx_reshape", reshape.reshape_shapes),
    ("Flatten", reshape.flatten_shapes),
    ("reshape_like", reshape.reshape_like_shapes),
    ("expand_dims", movement.expand_dims_shapes),
    ("squeeze", movement.squeeze_shapes),
    ("_np_squeeze", movement.numpy_squeeze_shapes),
):
    _lower_by_shape(_name, _shapes)


def _int64(values: Sequence[int]) -> Array:
    return jnp.asarray(values, jax.dtypes.canonicalize_dtype(np.int64))


@lowers("shape_array")
def _shape_array(p, data: Array) -> Array:
    return _int64(data.shape)


@lowers("size_array")
def _size_array(p, data: Array) -> Array:
    return _int64([math.prod(data.shape)])


def _lower_at_least(name: str, ndim: int) -> None:
    lowers(name)(lambda p, *arrays: [array.reshape(reshape.at_least(ndim, array.shape)) for array in arrays])


for _name, _ndim in reshape.AT_LEAST.items():
    _lower_at_least(_name, _ndim)


@lowers("_npi_share_memory")
def _share_memory(p, a: Array, b: Array) -> Array:
    return jnp.asarray(a is b)


lowers_table({"_np_copy": lambda a: a})
