"""The update formulas of LAMB and LARS, whose steps depend on norms of whole arrays; conventions as in `updates`."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from lowering.norms import norm
from lowering.optim.updates import Array, Number, formula, in_float32, mix, with_master_copy


@formula("apart")
def lamb_phase1(weight: Array, h: Array, mean: Array, var: Array, *, t: Number, wd: Number, beta1: Number = 0.9,
                beta2: Number = 0.999, epsilon: Number = 1e-6, bias_correction: bool = True):  # fmt: skip
    """Return (direction, m, v): m̂ / (√v̂ + ε) + λ w, with the moving averages m of h and v of its square.

    The first half of LAMB (You et al., 2020). bias_correction: m̂ = m / (1 - β₁ᵗ) and v̂ = v / (1 - β₂ᵗ), else m and v.
    """
    mean = mix(mean, h, beta1)
    var = mix(var, lax.square(h), beta2)
    fair_mean, fair_var = (mean / (1 - beta1**t), var / (1 - beta2**t)) if bias_correction else (mean, var)
    return fair_mean / (lax.sqrt(fair_var) + epsilon) + wd * weight, mean, var


@in_float32
def lamb_phase2(
    weight: Array, g: Array, *, r1: Array, r2: Array, lr: Number, lower_bound: float = -1.0, upper_bound: float = -1.0
) -> tuple[Array]:
    """Compute w ← w - η r₁ / r₂ g, with the norms r₁ of the weight, kept within bounds ≥ 0, and r₂ of the direction g.

    The second half of LAMB. Where a norm is 0 the ratio is 1.
    """
    if lower_bound >= 0:
        r1 = jnp.maximum(r1, lower_bound)
    if upper_bound >= 0:
        r1 = jnp.minimum(r1, upper_bound)
    ratio = jnp.where((r1 == 0) | (r2 == 0), 1, r1 / r2)
    return (weight - lr * ratio * g,)


def lamb(weight: Array, grad: Array, mean: Array, var: Array, *, weight_norm: Array | None = None, **hyper: Number):
    """Return (weight, mean, var) after a step of LAMB. hyper: the parameters of both phases. weight_norm: r₁, if
    known."""
    phase2 = {name: hyper.pop(name) for name in ("lr", "lower_bound", "upper_bound") if name in hyper}
    wide = weight.astype(jnp.promote_types(weight.dtype, jnp.float32))
    direction, new_mean, new_var = lamb_phase1(wide, grad, mean, var, **hyper)
    r1 = norm(wide) if weight_norm is None else weight_norm
    (new,) = lamb_phase2(wide, direction, r1=r1, r2=norm(direction), **phase2)
    return new.astype(weight.dtype), new_mean, new_var


def lamb_with_master_copy(weight: Array, grad: Array, *states: Array, **hyper: Number) -> tuple[Array, ...]:
    """Compute LAMB of the float32 copy of a weight, where r₁ is the norm of the weight itself."""
    return with_master_copy(lamb)(weight, grad, *states, weight_norm=norm(weight), **hyper)


def sum_of_squares(array: Array) -> Array:
    """Compute Σ x², in float32 at least."""
    return jnp.sum(lax.square(array.astype(jnp.promote_types(array.dtype, jnp.float32))))


def lars(
    lrs: Array,
    weights_sum_sq: Array,
    grads_sum_sq: Array,
    wds: Array,
    *,
    eta: Number,
    eps: Number,
    rescale_grad: Number,
) -> Array:
    """Compute η `eta` |w| / (c |g| + λ |w| + ε) for each layer (You et al., 2017); η where a norm is 0.

    All arrays hold one element for each layer, the norms as their squares.
    """
    weight_norm = lax.sqrt(weights_sum_sq)
    scaled = lrs * eta * weight_norm / (rescale_grad * lax.sqrt(grads_sum_sq) + wds * weight_norm + eps)
    return jnp.where((weights_sum_sq > 0) & (grads_sum_sq > 0), scaled, lrs)
