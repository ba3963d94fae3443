"""The update formulas of MXNet's optimisers: pure functions of arrays, which operators and training share.

Each takes (weight, gradient, *states) and returns (new weight, *new states). Hyper-parameters are keywords: numbers, or
arrays of one element where they change from step to step without a new compilation. `clip_gradient` and `clip_weights`
are numbers; a negative one means none. In the formulas w is the weight, g the gradient, c the factor `rescale_grad`, λ
the weight decay `wd`, η the learning rate `lr`, and clip(x) limits |x| to `clip_gradient`. h is the gradient that a
formula takes: `formula` makes it of w, g, c and, where a formula does not use it in another way, λ.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import lax

Array = jax.Array
Number = Any
"""A hyper-parameter: a Python number, or an array of one element."""

Update = Callable[..., tuple[Array, ...]]


def in_float32(formula: Update) -> Update:
    """Calculate half-precision arrays in float32, and round each result once, to the dtype of what it replaces.

    MXNet rounds every step, hyper-parameters included, so that in float16 an epsilon of 1e-8 is 0.
    """

    @wraps(formula)
    def update(weight: Array, grad: Array, *states: Array, **hyper: Number) -> tuple[Array, ...]:
        dtype = jnp.promote_types(weight.dtype, jnp.float32)
        numbers = {name: _scalar(value, dtype) for name, value in hyper.items()}
        results = formula(weight.astype(dtype), grad.astype(dtype), *[s.astype(dtype) for s in states], **numbers)
        return tuple(new.astype(old.dtype) for new, old in zip(results, (weight, *states), strict=True))

    return update


def _scalar(value: Number, dtype: Any) -> Number:
    """Return an array of one element as a scalar of the dtype; a number stays a number."""
    return value.astype(dtype).reshape(()) if isinstance(value, jax.Array) else value


def in_rows_of(grad: Array, new_values: Any, old_values: Any) -> Any:
    """Return arrays, a pytree, of which the rows where the gradient is not zero are new."""
    has_gradient = jnp.any(grad != 0, axis=tuple(range(1, grad.ndim)), keepdims=True)
    return jax.tree.map(lambda new, old: jnp.where(has_gradient, new, old), new_values, old_values)


def clip(x: Array, limit: float) -> Array:
    """Return x, or with limit ≥ 0 the nearest value in [-limit, limit]."""
    return jnp.clip(x, -limit, limit) if limit >= 0 else x


def mix(old: Array, new: Array, share: Number) -> Array:
    """Return the moving average: `share` of the old value, the rest of the new one."""
    return share * old + (1 - share) * new


def formula(decay: Literal["clipped", "added", "apart"]) -> Callable[[Update], Update]:
    """Wrap a formula of (weight, h, *states), in float32; h: the gradient, rescaled, clipped, and with the weight
    decay.

    decay: "clipped", h = clip(c g + λ w); "added", h = clip(c g) + λ w; "apart", h = clip(c g), and the formula takes
    `wd`, if any.
    """

    def decorate(formula: Update) -> Update:
        @wraps(formula)
        def update(weight: Array, grad: Array, *states: Array, rescale_grad: Number = 1.0,
                   clip_gradient: float = -1.0, **hyper: Number) -> tuple[Array, ...]:  # fmt: skip
            wd = 0.0 if decay == "apart" else hyper.pop("wd", 0.0)
            decays = isinstance(wd, jax.Array) or wd != 0  # else XLA would read the weight, for 0 · ∞ is not 0
            h = rescale_grad * grad
            h = clip(h + wd * weight if decays and decay == "clipped" else h, clip_gradient)
            return formula(weight, h + wd * weight if decays and decay == "added" else h, *states, **hyper)

        return in_float32(update)

    return decorate


def with_master_copy(update: Update) -> Update:
    """Map (weight, grad, *states, weight32) → (weight, *states, weight32): the update of the float32 copy of a weight.

    The weight that goes in is not read: what counts is its copy.
    """

    @wraps(update)
    def master_update(weight: Array, grad: Array, *states: Array, **hyper: Number) -> tuple[Array, ...]:
        *others, weight32 = states
        new, *new_states = update(weight32, grad, *others, **hyper)
        return (new.astype(weight.dtype), *new_states, new)

    return master_update


# -- stochastic gradient descent -------------------------------------------------------------------------------------


@formula("added")
def sgd(weight: Array, h: Array, *, lr: Number) -> tuple[Array]:
    """Compute w ← w - η h."""
    return (weight - lr * h,)


@formula("added")
def sgd_mom(weight: Array, h: Array, mom: Array, *, lr: Number, momentum: Number = 0.0) -> tuple[Array, Array]:
    """Compute m ← μ m - η h; w ← w + m."""
    mom = momentum * mom - lr * h
    return weight + mom, mom


@formula("added")
def nag(weight: Array, h: Array, mom: Array, *, lr: Number, momentum: Number = 0.0) -> tuple[Array, Array]:
    """Compute m ← μ m - η h; w ← w + μ m - η h: Nesterov's momentum, looking one step ahead."""
    mom = momentum * mom - lr * h
    return weight + momentum * mom - lr * h, mom


@formula("apart")
def signsgd(weight: Array, h: Array, *, lr: Number, wd: Number) -> tuple[Array]:
    """Compute w ← w - η (sign(h) + λ w). Rescaling and clipping leave the sign as it is."""
    return (weight - lr * (lax.sign(h) + wd * weight),)


@formula("added")
def signum(weight: Array, h: Array, mom: Array, *, lr: Number, momentum: Number, wd_lh: Number) -> tuple[Array, Array]:
    """Compute m ← μ m - (1 - μ) h; w ← (1 - η wd_lh) w + η sign(m) (Bernstein et al., 2018)."""
    mom = mix(mom, -h, momentum)
    return weight + lr * (lax.sign(mom) - wd_lh * weight), mom


# -- adaptive learning rates -----------------------------------------------------------------------------------------


@formula("clipped")
def adam(weight: Array, h: Array, mean: Array, var: Array, *, lr: Number, beta1: Number = 0.9, beta2: Number = 0.999,
         epsilon: Number = 1e-8) -> tuple[Array, Array, Array]:  # fmt: skip
    """Compute w ← w - η m / (√v + ε) with the moving averages m of h and v of h² (Kingma & Ba, 2015).

    The caller corrects the bias of m and v, in η.
    """
    mean = mix(mean, h, beta1)
    var = mix(var, lax.square(h), beta2)
    return weight - lr * mean / (lax.sqrt(var) + epsilon), mean, var


@in_float32
def adamw(weight: Array, grad: Array, mean: Array, var: Array, *, lr: Number, eta: Number = 1.0,
          beta1: Number = 0.9, beta2: Number = 0.999, epsilon: Number = 1e-8, wd: Number = 0.0,
          rescale_grad: Number = 1.0, clip_gradient: float = -1.0) -> tuple[Array, ...]:  # fmt: skip
    """Compute w ← w - `eta` (η m / (√v + ε) + λ w), with the moving averages m of clip(c g) and v of its square.

    Adam with decoupled weight decay (Loshchilov & Hutter, 2019). Where `rescale_grad` is 0, infinite or NaN, which
    marks a gradient that overflowed, nothing changes.
    """
    scaled = clip(rescale_grad * grad, clip_gradient)
    new_mean = mix(mean, scaled, beta1)
    new_var = mix(var, lax.square(scaled), beta2)
    new_weight = weight - eta * (lr * new_mean / (lax.sqrt(new_var) + epsilon) + wd * weight)
    usable = jnp.isfinite(rescale_grad) & (rescale_grad != 0)
    new_and_old = ((new_weight, weight), (new_mean, mean), (new_var, var))
    return tuple(jnp.where(usable, new, old) for new, old in new_and_old)


@formula("clipped")
def ftml(weight: Array, h: Array, d: Array, v: Array, z: Array, *, lr: Number, t: Number, beta1: Number,
         beta2: Number, epsilon: Number) -> tuple[Array, Array, Array, Array]:  # fmt: skip
    """Follow the moving leader (Zheng & Kwok, 2017), with v the moving average of h²:

    d' = (1 - β₁ᵗ) / η (√(v / (1 - β₂ᵗ)) + ε); z ← β₁ z + (1 - β₁) h - (d' - β₁ d) w; w ← -z / d'; d ← d'.
    """
    v = mix(v, lax.square(h), beta2)
    new_d = (1 - beta1**t) / lr * (lax.sqrt(v / (1 - beta2**t)) + epsilon)
    z = mix(z, h, beta1) - (new_d - beta1 * d) * weight
    return -z / new_d, new_d, v, z


@formula("apart")
def ftrl(
    weight: Array, h: Array, z: Array, n: Array, *, lr: Number, lamda1: Number, beta: Number, wd: Number
) -> tuple[Array, Array, Array]:
    """Follow the regularised leader (McMahan et al., 2013), with n ← n + h²:

    z ← z + h - (√n_new - √n_old) w / η; w ← (λ₁ sign(z) - z) / ((β + √n) / η + λ) where |z| > λ₁, else 0.
    """
    new_n = n + lax.square(h)
    root = lax.sqrt(new_n)
    z = z + h - (root - lax.sqrt(n)) * weight / lr
    shrunk = (lamda1 * lax.sign(z) - z) / ((beta + root) / lr + wd)
    return jnp.where(lax.abs(z) > lamda1, shrunk, 0), z, new_n


@formula("clipped")
def rmsprop(
    weight: Array, h: Array, n: Array, *, lr: Number, gamma1: Number, epsilon: Number, clip_weights: float
) -> tuple[Array, Array]:
    """Compute w ← w - η h / √(n + ε), with n the moving average of h² (Tieleman & Hinton, 2012)."""
    n = mix(n, lax.square(h), gamma1)
    return clip(weight - lr * h / lax.sqrt(n + epsilon), clip_weights), n


@formula("clipped")
def rmsprop_alex(weight: Array, h: Array, n: Array, g: Array, delta: Array, *, lr: Number, gamma1: Number,
                 gamma2: Number, epsilon: Number, clip_weights: float) -> tuple[Array, ...]:  # fmt: skip
    """Compute δ ← γ₂ δ - η h / √(n - g² + ε); w ← w + δ, with the moving averages n, g of h², h.

    Graves (2013), equations 38 to 45.
    """
    n = mix(n, lax.square(h), gamma1)
    g = mix(g, h, gamma1)
    delta = gamma2 * delta - lr * h / lax.sqrt(n - lax.square(g) + epsilon)
    return clip(weight + delta, clip_weights), n, g, delta
