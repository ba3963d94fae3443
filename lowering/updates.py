"""The update formulas of MXNet's optimisers: pure functions of arrays, which operators and training share.

Each takes (weight, gradient, *states) and returns (new weight, *new states). Hyper-parameters are keywords: numbers, or
arrays of one element where they change from step to step without a new compilation. `clip_gradient` and `clip_weights`
are numbers; a negative one means none. In the formulas w is the weight, g the gradient, c the factor `rescale_grad`, λ
the weight decay `wd`, η the learning rate `lr`, and clip(x) limits |x| to `clip_gradient`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

__all__ = [
    "Array",
    "Number",
    "Update",
    "adam",
    "adamw",
    "clip",
    "ftml",
    "ftrl",
    "in_float32",
    "mix",
    "nag",
    "rmsprop",
    "rmsprop_alex",
    "sgd",
    "sgd_mom",
    "signsgd",
    "signum",
    "with_master_copy",
]

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
    """An array of one element as a scalar of the dtype; a number stays what it is."""
    return value.astype(dtype).reshape(()) if isinstance(value, jax.Array) else value


def clip(x: Array, limit: float) -> Array:
    """x, or with limit ≥ 0 the nearest value in [-limit, limit]."""
    return jnp.clip(x, -limit, limit) if limit >= 0 else x


def mix(old: Array, new: Array, share: Number) -> Array:
    """The moving average: `share` of the old value, the rest of the new one."""
    return share * old + (1 - share) * new


def with_master_copy(update: Update) -> Update:
    """(weight, grad, *states, weight32) → (weight, *states, weight32): the update of the float32 copy of a weight.

    The weight that goes in is not read: what counts is its copy.
    """

    @wraps(update)
    def master_update(weight: Array, grad: Array, *states: Array, **hyper: Number) -> tuple[Array, ...]:
        *others, weight32 = states
        new, *new_states = update(weight32, grad, *others, **hyper)
        return (new.astype(weight.dtype), *new_states, new)

    return master_update


# -- stochastic gradient descent -------------------------------------------------------------------------------------


@in_float32
def sgd(
    weight: Array,
    grad: Array,
    *,
    lr: Number,
    wd: Number = 0.0,
    rescale_grad: Number = 1.0,
    clip_gradient: float = -1.0,
) -> tuple[Array]:
    """w ← w - η (clip(c g) + λ w)."""
    return (weight - lr * (clip(rescale_grad * grad, clip_gradient) + wd * weight),)


@in_float32
def sgd_mom(
    weight: Array,
    grad: Array,
    mom: Array,
    *,
    lr: Number,
    momentum: Number = 0.0,
    wd: Number = 0.0,
    rescale_grad: Number = 1.0,
    clip_gradient: float = -1.0,
) -> tuple[Array, Array]:
    """m ← μ m - η (clip(c g) + λ w); w ← w + m."""
    mom = momentum * mom - lr * (clip(rescale_grad * grad, clip_gradient) + wd * weight)
    return weight + mom, mom


@in_float32
def nag(
    weight: Array,
    grad: Array,
    mom: Array,
    *,
    lr: Number,
    momentum: Number = 0.0,
    wd: Number = 0.0,
    rescale_grad: Number = 1.0,
    clip_gradient: float = -1.0,
) -> tuple[Array, Array]:
    """d = η (clip(c g) + λ w); m ← μ m - d; w ← w + μ m - d: Nesterov's momentum, looking one step ahead."""
    step = lr * (clip(rescale_grad * grad, clip_gradient) + wd * weight)
    mom = momentum * mom - step
    return weight + momentum * mom - step, mom


@in_float32
def signsgd(
    weight: Array,
    grad: Array,
    *,
    lr: Number,
    wd: Number = 0.0,
    rescale_grad: Number = 1.0,
    clip_gradient: float = -1.0,
) -> tuple[Array]:
    """w ← w - η (sign(g) + λ w). Rescaling and clipping leave the sign as it is."""
    return (weight - lr * (lax.sign(grad) + wd * weight),)


@in_float32
def signum(
    weight: Array,
    grad: Array,
    mom: Array,
    *,
    lr: Number,
    momentum: Number = 0.0,
    wd: Number = 0.0,
    rescale_grad: Number = 1.0,
    clip_gradient: float = -1.0,
    wd_lh: Number = 0.0,
) -> tuple[Array, Array]:
    """m ← μ m - (1 - μ) (clip(c g) + λ w); w ← (1 - η wd_lh) w + η sign(m) (Bernstein et al., 2018)."""
    mom = mix(mom, -(clip(rescale_grad * grad, clip_gradient) + wd * weight), momentum)
    return weight + lr * (lax.sign(mom) - wd_lh * weight), mom


# -- adaptive learning rates -----------------------------------------------------------------------------------------


@in_float32
def adam(
    weight: Array,
    grad: Array,
    mean: Array,
    var: Array,
    *,
    lr: Number,
    beta1: Number = 0.9,
    beta2: Number = 0.999,
    epsilon: Number = 1e-8,
    wd: Number = 0.0,
    rescale_grad: Number = 1.0,
    clip_gradient: float = -1.0,
) -> tuple[Array, Array, Array]:
    """h = clip(c g + λ w); w ← w - η m / (√v + ε) with the moving averages m of h and v of h² (Kingma & Ba, 2015).

    The caller corrects the bias of m and v, in η.
    """
    grad = clip(rescale_grad * grad + wd * weight, clip_gradient)
    mean = mix(mean, grad, beta1)
    var = mix(var, lax.square(grad), beta2)
    return weight - lr * mean / (lax.sqrt(var) + epsilon), mean, var


@in_float32
def adamw(
    weight: Array,
    grad: Array,
    mean: Array,
    var: Array,
    *,
    lr: Number,
    eta: Number = 1.0,
    beta1: Number = 0.9,
    beta2: Number = 0.999,
    epsilon: Number = 1e-8,
    wd: Number = 0.0,
    rescale_grad: Number = 1.0,
    clip_gradient: float = -1.0,
) -> tuple[Array, Array, Array]:
    """w ← w - `eta` (η m / (√v + ε) + λ w), with the moving averages m of clip(c g) and v of its square.

    Adam with decoupled weight decay (Loshchilov & Hutter, 2019). Where `rescale_grad` is 0, infinite or NaN, which says
    that the gradient overflowed, everything stays as it was.
    """
    scaled = clip(rescale_grad * grad, clip_gradient)
    new_mean = mix(mean, scaled, beta1)
    new_var = mix(var, lax.square(scaled), beta2)
    new_weight = weight - eta * (lr * new_mean / (lax.sqrt(new_var) + epsilon) + wd * weight)
    usable = jnp.isfinite(rescale_grad) & (rescale_grad != 0)
    new_and_old = ((new_weight, weight), (new_mean, mean), (new_var, var))
    return tuple(jnp.where(usable, new, old) for new, old in new_and_old)  # pyright: ignore[reportReturnType]


@in_float32
def ftml(
    weight: Array,
    grad: Array,
    d: Array,
    v: Array,
    z: Array,
    *,
    lr: Number,
    t: Number,
    beta1: Number = 0.6,
    beta2: Number = 0.999,
    epsilon: Number = 1e-8,
    wd: Number = 0.0,
    rescale_grad: Number = 1.0,
    clip_grad: float = -1.0,
) -> tuple[Array, Array, Array, Array]:
    """Follow the moving leader (Zheng & Kwok, 2017), with h = clip(c g + λ w) and v the moving average of h²:

    d' = (1 - β₁ᵗ) / η (√(v / (1 - β₂ᵗ)) + ε); z ← β₁ z + (1 - β₁) h - (d' - β₁ d) w; w ← -z / d'; d ← d'.
    """
    grad = clip(rescale_grad * grad + wd * weight, clip_grad)
    v = mix(v, lax.square(grad), beta2)
    new_d = (1 - beta1**t) / lr * (lax.sqrt(v / (1 - beta2**t)) + epsilon)
    z = mix(z, grad, beta1) - (new_d - beta1 * d) * weight
    return -z / new_d, new_d, v, z


@in_float32
def ftrl(
    weight: Array,
    grad: Array,
    z: Array,
    n: Array,
    *,
    lr: Number,
    lamda1: Number = 0.01,
    beta: Number = 1.0,
    wd: Number = 0.0,
    rescale_grad: Number = 1.0,
    clip_gradient: float = -1.0,
) -> tuple[Array, Array, Array]:
    """Follow the regularised leader (McMahan et al., 2013), with h = clip(c g) and n ← n + h²:

    z ← z + h - (√n_new - √n_old) w / η; w ← (λ₁ sign(z) - z) / ((β + √n) / η + λ) where |z| > λ₁, else 0.
    """
    grad = clip(rescale_grad * grad, clip_gradient)
    new_n = n + lax.square(grad)
    root = lax.sqrt(new_n)
    z = z + grad - (root - lax.sqrt(n)) * weight / lr
    shrunk = (lamda1 * lax.sign(z) - z) / ((beta + root) / lr + wd)
    return jnp.where(lax.abs(z) > lamda1, shrunk, 0), z, new_n


@in_float32
def rmsprop(
    weight: Array,
    grad: Array,
    n: Array,
    *,
    lr: Number,
    gamma1: Number = 0.95,
    epsilon: Number = 1e-8,
    wd: Number = 0.0,
    rescale_grad: Number = 1.0,
    clip_gradient: float = -1.0,
    clip_weights: float = -1.0,
) -> tuple[Array, Array]:
    """w ← w - η h / √(n + ε), with h = clip(c g + λ w) and n the moving average of h² (Tieleman & Hinton, 2012)."""
    grad = clip(rescale_grad * grad + wd * weight, clip_gradient)
    n = mix(n, lax.square(grad), gamma1)
    return clip(weight - lr * grad / lax.sqrt(n + epsilon), clip_weights), n


@in_float32
def rmsprop_alex(
    weight: Array,
    grad: Array,
    n: Array,
    g: Array,
    delta: Array,
    *,
    lr: Number,
    gamma1: Number = 0.95,
    gamma2: Number = 0.9,
    epsilon: Number = 1e-8,
    wd: Number = 0.0,
    rescale_grad: Number = 1.0,
    clip_gradient: float = -1.0,
    clip_weights: float = -1.0,
) -> tuple[Array, Array, Array, Array]:
    """δ ← γ₂ δ - η h / √(n - g² + ε); w ← w + δ, with h = clip(c g + λ w), and n, g the moving averages of h², h.

    Graves (2013), equations 38 to 45.
    """
    grad = clip(rescale_grad * grad + wd * weight, clip_gradient)
    n = mix(n, lax.square(grad), gamma1)
    g = mix(g, grad, gamma1)
    delta = gamma2 * delta - lr * grad / lax.sqrt(n - lax.square(g) + epsilon)
    return clip(weight + delta, clip_weights), n, g, delta
