"""The order of axes of recurrent cells' arrays, and the products and pieces that depend on it.

Everything is written for numbers that may have nilpotent parts (`lowering.ops.dual`); on plain arrays it is plain JAX.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from lowering.ops import dual
from lowering.ops.dual import Number, bilinear, linear
from lowering.ops.wide import wide_dtype


def cast(x: Number, dtype: Any) -> Any:
    """The number in another dtype."""
    return linear(lambda a: a.astype(dtype), x)


def swapped(x: Number) -> Any:
    """The last two axes swapped: batch and features, or a matrix's."""
    return linear(lambda a: jnp.swapaxes(a, -1, -2), x)


@dataclass(frozen=True)
class Layout:
    """Features first, data are (t, d, n), outputs (t, s, n) and states (s, n); batch first n is before d and s.

    Either way weights are multiplied as stored, which the libraries behind XLA need not pack anew in every step.
    Of large ones that is faster features first, a weight's rows the product's: 64 products of float32[2048, 512] with a
    batch of 32, one in each step of a loop, on a CPU: 21 ms so, 35 ms with the batch first, 199 ms of a weight (k, m).

    features: their axis, -2 or -1.
    """

    features: int

    @property
    def batch(self) -> int:
        return -3 - self.features

    def batch_first(self, x: Number) -> Any:
        """From this layout to batch first, as the operator has its arrays, or back."""
        return x if self == BATCH_FIRST else swapped(x)

    def features_first(self, x: Number) -> Any:
        """From this layout to features first, as what the gradient reads is kept, or back."""
        return x if self == FEATURES_FIRST else swapped(x)

    def project(self, w: Number, x: Number) -> Any:
        """w (m, k), x (…, k, n) → (…, m, n), or x (…, n, k), w (k, m) → (…, n, m); of half-precision operands it is
        float32."""

        def multiply(w: Array, x: Array) -> Array:
            wide, x = wide_dtype(w.dtype), x.astype(w.dtype)
            if self == BATCH_FIRST:
                return lax.dot_general(x, w, (((x.ndim - 1,), (0,)), ((), ())), preferred_element_type=wide)
            product = lax.dot_general(w, x, (((1,), (x.ndim - 2,)), ((), ())), preferred_element_type=wide)
            return jnp.moveaxis(product, 0, -2)

        return bilinear(multiply, w, x)

    def project_each(self, w: Array, x: Array) -> Array:
        """Products of plain arrays as `project` makes them: of each w with its x, in one."""
        a, b = (x, w) if self == BATCH_FIRST else (w, x)
        numbers = (((2,), (1,)), ((0,), (0,)))
        return lax.dot_general(
            a.astype(w.dtype), b.astype(w.dtype), numbers, preferred_element_type=wide_dtype(w.dtype)
        )

    def outer(self, a: Number, like: Number, b: Number) -> Any:
        """The outer product (m, k) of the features, added up over steps and batch, in the dtype of `like`: both
        operands were made from values of that dtype."""
        dtype = dual.plain(like).dtype
        axes = (0, 3 + self.batch)

        def multiply(a: Array, b: Array) -> Array:
            return lax.dot_general(a, b, ((axes, axes), ((), ())), preferred_element_type=wide_dtype(dtype))

        return bilinear(multiply, cast(a, dtype), cast(b, dtype))

    def total(self, x: Number) -> Any:
        """x added up over steps and batch."""
        return linear(lambda a: jnp.sum(a, (0, self.batch)), x)

    def bias(self, x: Number) -> Any:
        """x (m,), to be added to features."""
        return linear(lambda a: jnp.expand_dims(a, self.batch), x)

    def parts(self, x: Number, count: int) -> list[Any]:
        """The equal parts of the features."""
        size = dual.plain(x).shape[self.features] // count

        def cut(k: int) -> Any:
            return linear(lambda a: lax.slice_in_dim(a, k * size, (k + 1) * size, axis=self.features), x)

        return [cut(k) for k in range(count)]

    def joined(self, *parts: Number) -> Any:
        """The numbers' features one after the other."""
        return linear(lambda *arrays: jnp.concatenate(arrays, self.features), *parts)


FEATURES_FIRST, BATCH_FIRST = Layout(-2), Layout(-1)
