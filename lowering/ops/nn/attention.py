"""JAX rules of multi-head attention over interleaved projections: one batched product each."""

from __future__ import annotations

import math

import jax.numpy as jnp
from jax import Array, lax

from lowering.core.rules import lowers
from symjax_nnvm.ops.nn import attention as ops


def _part(array: Array, heads: int, parts: int, part: int) -> Array:
    """Map (t, n, h·parts·d) → (t, n, h, d): one of the interleaved parts."""
    t, n, features = array.shape
    split = array.reshape(t, n, heads, parts, features // (heads * parts))
    return lax.index_in_dim(split, part, 3, keepdims=False)


def _scores(p: ops.ScoresParams, a: Array, b: Array) -> Array:
    a, b = _part(a, p.heads, p.a_parts, p.a_part), _part(b, p.heads, p.b_parts, p.b_part)
    scores = _product("inhd,jnhd->nhij", a, b, p.scaled, a.shape[-1])
    return scores.reshape(-1, *scores.shape[2:])


def _mixture(p: ops.MixtureParams, weights: Array, b: Array) -> Array:
    b = _part(b, p.heads, p.parts, p.part)
    weights = weights.reshape(b.shape[1], p.heads, *weights.shape[1:])
    sums = "nhji,jnhd->inhd" if p.transposed else "nhij,jnhd->inhd"
    mixed = _product(sums, weights, b, p.scaled, b.shape[-1])
    if p.out_parts > 1:
        zero = jnp.zeros((), mixed.dtype)
        mixed = lax.pad(mixed[..., None, :], zero, [*[(0, 0, 0)] * 3, _margins(p), (0, 0, 0)])
    return mixed.reshape(*mixed.shape[:2], -1)


def _margins(p: ops.MixtureParams) -> tuple[int, int, int]:
    return p.out_part, p.out_parts - 1 - p.out_part, 0


def _product(sums: str, a: Array, b: Array, scaled: bool, d: int) -> Array:
    """Return an Einstein sum, accumulated in float32 at least, times 1 / √d where it is scaled."""
    product = jnp.einsum(sums, a, b, preferred_element_type=jnp.promote_types(a.dtype, jnp.float32))
    return (product * (1 / math.sqrt(d)) if scaled else product).astype(a.dtype)


lowers("_backward_attention_mixture_weights")(_scores)
lowers("_backward_attention_scores")(_mixture)


@lowers("_contrib_interleaved_matmul_selfatt_qk")
def _self_scores(p: ops.HeadsParams, data: Array) -> Array:
    return _scores(ops.self_scores(p), data, data)


@lowers("_contrib_interleaved_matmul_encdec_qk")
def _encoder_scores(p: ops.HeadsParams, queries: Array, keys_values: Array) -> Array:
    return _scores(ops.encoder_scores(p), queries, keys_values)


@lowers("_contrib_interleaved_matmul_selfatt_valatt")
def _self_mixture(p: ops.HeadsParams, data: Array, attention: Array) -> Array:
    return _mixture(ops.self_mixture(p), attention, data)


@lowers("_contrib_interleaved_matmul_encdec_valatt")
def _encoder_mixture(p: ops.HeadsParams, data: Array, attention: Array) -> Array:
    return _mixture(ops.encoder_mixture(p), attention, data)
