"""JAX rule of `_fused_attention`: cuDNN's kernel on a GPU, products and softmax elsewhere."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax

from lowering.core.rules import lowers
from symjax_nnvm.errors import LoweringError
from symjax_nnvm.ops.nn import fused_attention as ops

_LEAST = -(2.0**15)
"""The least addend: float16 has hardly any below, and JAX gives cuDNN none, which subtracts them from each other."""


@lowers("_fused_attention", needs=("platform",))
def _attention(p: ops.FusedAttentionParams, query: Array, key: Array, value: Array, *more: Array, platform: str):
    given = dict(zip(ops.input_names(p)[3:], more, strict=True))
    b, t, n, s = *query.shape[:3], key.shape[1]
    bias = mask = None
    if p.with_addend:
        bias = jnp.maximum(given["addend"].astype(query.dtype), _LEAST)
        bias = jnp.broadcast_to(bias, (*bias.shape[:2], t, s))
    if p.with_length:
        mask = lax.broadcasted_iota(given["length"].dtype, (b, n, t, s), 3) < given["length"][..., None]
    if p.with_mask:
        mask = (given["mask"] != 0) if mask is None else mask & (given["mask"] != 0)
    if platform == "gpu":
        try:
            out = jax.nn.dot_product_attention(query, key, value, bias, mask, scale=p.scale, implementation="cudnn")
        except RuntimeError as error:  # JAX asks this process's cuDNN and GPU as it traces
            fix = 'Leave out attention="cudnn".'
            raise LoweringError(
                f"cuDNN does not compute attention here: {error}", op="_fused_attention", fix=fix
            ) from error
    else:  # not JAX's "xla": XLA:CPU cannot compile its products of float16
        out = _by_products(query, key, value, bias, mask, p.scale)
    if mask is None:
        return out
    equal = jnp.zeros((), out.dtype) if p.with_length else value.mean(1, keepdims=True)
    return jnp.where(mask.any(-1).swapaxes(1, 2)[..., None], out, equal)


def _by_products(query: Array, key: Array, value: Array, bias: Array | None, mask: Array | None, scale: float) -> Array:
    """Return attention with scores in float32 at least."""
    wide = jnp.promote_types(query.dtype, jnp.float32)
    scores = jnp.einsum("btnd,bsnd->bnts", query, key, preferred_element_type=wide) * scale
    scores = scores if bias is None else scores + bias
    scores = scores if mask is None else jnp.where(mask, scores, jnp.finfo(wide).min)
    weights = jax.nn.softmax(scores).astype(value.dtype)
    return jnp.einsum("bnts,bsnd->btnd", weights, value, preferred_element_type=wide).astype(value.dtype)
