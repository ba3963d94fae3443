"""JAX rules of Embedding."""

from __future__ import annotations

from jax import Array

from lowering.core.rules import lowers
from lowering.ops.indexing.take import add_along, take_along
from symjax_nnvm.ops.nn import embedding as ops


@lowers("Embedding")
def _embedding(p: ops.EmbeddingParams, data: Array, weight: Array) -> Array:
    return take_along(weight, data, 0, "clip")


@lowers("_backward_Embedding")
def _backward_embedding(p: ops.EmbeddingParams, ograd: Array, data: Array) -> Array:
    return add_along((p.input_dim, p.output_dim), ograd, data, 0, "clip")
