"""JAX rules of the loss heads other than SoftmaxOutput."""

from __future__ import annotations

import math

import jax
from jax import Array

from lowering.core.rules import lowers, lowers_table
from symjax_nnvm.ops.loss import heads as ops

lowers_table(
    {
        "LinearRegressionOutput": lambda data, label: data,
        "LogisticRegressionOutput": lambda data, label: jax.nn.sigmoid(data),
        "MAERegressionOutput": lambda data, label: data,
        "MakeLoss": lambda data: data,
        "SVMOutput": lambda data, label: data,
        "make_loss": lambda data: data,
    }
)


@lowers("_backward_per_count")
def _per_count(p: ops.PerCountParams, data: Array) -> Array:
    count = math.prod(data.shape[1:] if p.count == "outputs" else data.shape[:-1])
    return data if p.scale == count else data * (p.scale / count)
