"""Products of matrices, of which convolutions are made.

A gradient of a weight is one over rows, aᵀb, for which Eigen, which XLA:CPU calls, lays both matrices anew: of float32
(100352, 32) and (100352, 64) one core takes 8.5 ms, oneDNN 5.8; of (1568, 512) and (1568, 512) 9.5 and 8.6. Of 23
products of MobileNet's and ResNet's none takes longer in oneDNN, on one core or two. Of Winograd's sequences of
products, (36, 1568, 64) over rows with as many takes 10.0 and 7.1 ms, (36, 32, 512) by (36, 512, 512) 10.7 and 9.0 (AMD
EPYC with AVX-512, jaxlib 0.10.2 and 0.12.0.1; alike with oneDNN's code for AVX2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import jax.numpy as jnp
from jax import Array, lax

from lowering.convolutions.backends import onednn
from lowering.convolutions.choose import SMALL
from lowering.xla.library_call import library_call

__all__ = ["contract", "row_product", "sequence_product"]

_FEW_ROWS = 64
"""Fewer rows are added up by XLA: of (36, 32, 512) with as many in 21 ms, by oneDNN in 25; of (16, 4096) 34 and 41."""


def contract(a: Array, b: Array, over_a: int, over_b: int) -> Array:
    """The product of matrices, or of sequences of them, over an axis of each; half precision is summed in float32."""
    wide = jnp.promote_types(a.dtype, jnp.float32)
    along = (0,) if a.ndim == 3 else ()
    out = lax.dot_general(a, b, (((over_a,), (over_b,)), (along, along)), preferred_element_type=wide)
    return out.astype(a.dtype)


def row_product(a: Array, b: Array) -> Array:
    """Map (k, m), (k, n) → (m, n), aᵀb, or sequences of them: by oneDNN where it computes that; half precision is
    summed in float32."""
    axis = a.ndim - 2
    few = isinstance(a.shape[axis], int) and a.shape[axis] < _FEW_ROWS
    return contract(a, b, axis, axis) if few else _product(a, b, over_rows=True)


def sequence_product(a: Array, b: Array) -> Array:
    """Map (s, m, k), (s, k, n) → (s, m, n), as `row_product`."""
    return _product(a, b, over_rows=False)


def _product(a: Array, b: Array, over_rows: bool) -> Array:
    function = _Product(over_rows, a.ndim - 2)
    sizes = (*a.shape, b.shape[-1])
    is_large = all(isinstance(n, int) for n in sizes) and prod(sizes) > SMALL  # an exported program may leave one open
    if not is_large or a.dtype != jnp.float32 or b.dtype != jnp.float32:
        return function.elsewhere(a, b)
    *sequence, rows, columns = a.shape
    k, m = (rows, columns) if over_rows else (columns, rows)
    is_right = onednn.multiplies(prod(sequence), k, m, b.shape[-1], over_rows)
    return library_call(function, a, b) if is_right else function.elsewhere(a, b)


@dataclass(frozen=True)
class _Product:
    """Computes products by the platform's library, or by XLA without it."""

    adds_samples: bool
    samples_axis: int

    def by_library(self, a: Array, b: Array) -> Array:
        return onednn.product(a, b, self.adds_samples)

    def elsewhere(self, a: Array, b: Array) -> Array:
        rows = self.samples_axis
        return contract(a, b, rows if self.adds_samples else rows + 1, rows)

    def of_samples(self, count: int) -> Callable[..., Array]:
        return row_product if self.adds_samples else sequence_product
