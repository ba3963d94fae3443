"""Products of matrices, of which convolutions are made.

A gradient of a weight is one over rows, aᵀb, for which Eigen, which XLA:CPU calls, lays both matrices anew: of float32
(100352, 32) and (100352, 64) one core takes 8.5 ms, oneDNN 5.8; of (1568, 512) and (1568, 512) 9.5 and 8.6. Of 23
products of MobileNet's and ResNet's none takes longer in oneDNN, on one core or two (AMD EPYC with AVX-512, jaxlib
0.10.2 and 0.12.0.1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array, lax

from lowering.convolutions.backends import onednn
from lowering.convolutions.choose import SMALL
from lowering.xla.library_call import library_call

__all__ = ["contract", "row_product"]


def contract(a: Array, b: Array, over_a: int, over_b: int) -> Array:
    """The product of matrices, or of sequences of them, over an axis of each; half precision is summed in float32."""
    wide = jnp.promote_types(a.dtype, jnp.float32)
    along = (0,) if a.ndim == 3 else ()
    out = lax.dot_general(a, b, (((over_a,), (over_b,)), (along, along)), preferred_element_type=wide)
    return out.astype(a.dtype)


def row_product(a: Array, b: Array) -> Array:
    """Map (k, m), (k, n) → (m, n), aᵀb: by oneDNN where it computes that; half precision is summed in float32."""
    (k, m), n = a.shape, b.shape[1]
    is_large = isinstance(k * m * n, int) and k * m * n > SMALL  # an exported program may leave a size open
    if a.dtype == b.dtype == jnp.float32 and is_large and onednn.multiplies(k, m, n):
        return library_call(_RowProduct(), a, b)
    return contract(a, b, 0, 0)


@dataclass(frozen=True)
class _RowProduct:
    """Computes a product over rows by the platform's library, or by XLA without it."""

    adds_samples = True

    def by_library(self, a: Array, b: Array) -> Array:
        return onednn.product(a, b)

    def elsewhere(self, a: Array, b: Array) -> Array:
        return contract(a, b, 0, 0)

    def of_samples(self, count: int) -> Callable[..., Array]:
        return row_product
