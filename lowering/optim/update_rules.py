"""The optimisers that MXNet 1.9.1 registers, one row each: hyper-parameters, the arrays they keep, and the update.

The formulas are those of `updates.py` and `layerwise_updates.py`, which the update operators share, and here those that
MXNet has in Python only. Names as there: w weight, g gradient, c `rescale_grad`, λ `wd`, η `lr`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer

from lowering.optim import layerwise_updates, updates
from lowering.optim.updates import Array, Number, formula, mix
from symjax_nnvm.errors import ParamError

Hyper = Mapping[str, Any]


@dataclass(frozen=True)
class Update:
    """One update of one parameter.

    name: the parameter's. lr: its learning rate, traced. previous_lr: that of the update before. wd: its weight decay.
    rescale_grad, clip_gradient: as in `lowering.optim.updates`. t: the number of the update, 1 for the first; float32,
    traced. key: the parameter's PRNG key for this update, made where a rule needs it.
    """

    name: str
    lr: Array
    previous_lr: Callable[[], Array]
    wd: float
    rescale_grad: Number
    clip_gradient: float
    t: Array
    key: Callable[[], jax.Array]

    @property
    def preprocessing(self) -> dict[str, Number]:
        """Return keywords that nearly every formula takes."""
        return {"wd": self.wd, "rescale_grad": self.rescale_grad, "clip_gradient": self.clip_gradient}

    @property
    def common(self) -> dict[str, Number]:
        """Return the common hyper-parameters, with the learning rate."""
        return {"lr": self.lr, **self.preprocessing}


@dataclass(frozen=True, eq=False)
class Rule:
    """An optimiser. defaults: its own hyper-parameters, and another learning_rate than 0.01 where it has one.

    slots: (weight, hyper-parameters) → the arrays it keeps for a parameter. update: (weight, gradient, slots, Update,
    hyper-parameters) → (new weight, *new slots). decays: endings of the names of parameters that weight decay reaches.
    """

    update: Callable[[Array, Array, tuple[Array, ...], Update, Hyper], tuple[Array, ...]]
    slots: Callable[[Array, Hyper], tuple[Array, ...]] = lambda weight, h: ()
    defaults: Hyper = field(default_factory=dict)
    decays: tuple[str, ...] = ("_weight", "_gamma")


def zeros(count: int) -> Callable[[Array, Hyper], tuple[Array, ...]]:
    """Return slots of zeros like the weight."""
    return lambda weight, h: tuple(_zeros_like(weight) for _ in range(count))


def _zeros_like(weight: Array) -> Array:
    """Return zeros made on the host, unless a function is traced: eager `zeros_like` compiles one for each shape."""
    if isinstance(weight, Tracer):
        return jnp.zeros_like(weight)
    where = weight.sharding if weight.committed else None
    return jax.device_put(np.zeros(weight.shape, weight.dtype), where, may_alias=False)


def _momentum_slot(weight: Array, h: Hyper) -> tuple[Array, ...]:
    return zeros(1)(weight, h) if h["momentum"] else ()


def one_minus_power(beta: float, t: Array) -> Array:
    """Return 1 - βᵗ; written so that float32 keeps its digits for a β near 1."""
    return -jnp.expm1(t * math.log(beta)) if beta > 0 else jnp.ones_like(t)


# -- formulas that MXNet has in Python only --------------------------------------------------------------------------


@formula("apart")
def adagrad(w: Array, h: Array, history: Array, *, lr: Number, wd: Number, eps: float) -> tuple[Array, Array]:
    """Compute G ← G + h², w ← w - η (h / √(G + ε) + λ w) (Duchi et al., 2011)."""
    history = history + lax.square(h)
    return w - lr * (h / lax.sqrt(history + eps) + wd * w), history


@formula("apart")
def group_adagrad(w: Array, h: Array, history: Array, *, lr: Number, eps: float) -> tuple[Array, Array]:
    """Compute AdaGrad with one learning rate for each row, from the mean of h² over it."""
    history = history + jnp.mean(lax.square(h), axis=1, keepdims=True)
    return w - lr * h / lax.sqrt(history + eps), history


@formula("apart")
def adadelta(
    w: Array, h: Array, acc_g: Array, acc_delta: Array, *, wd: Number, rho: float, epsilon: float
) -> tuple[Array, Array, Array]:
    """Compute w ← w - δ - λ w, with δ = √(D + ε) / √(G + ε) h and averages G of h² and D of δ² (Zeiler, 2012)."""
    acc_g = mix(acc_g, lax.square(h), rho)
    delta = lax.sqrt(acc_delta + epsilon) / lax.sqrt(acc_g + epsilon) * h
    return w - delta - wd * w, acc_g, mix(acc_delta, lax.square(delta), rho)


@formula("clipped")
def adamax(
    w: Array, h: Array, mean: Array, largest: Array, *, lr: Number, beta1: float, beta2: float
) -> tuple[Array, Array, Array]:
    """Compute w ← w - η m / u, with m the moving average of h and u ← max(β₂ u, |h|) (Kingma & Ba, 2015, section 7).

    Where u is 0, as no gradient has come yet, w stays; MXNet divides 0 by 0 there.
    """
    mean = mix(mean, h, beta1)
    largest = jnp.maximum(beta2 * largest, lax.abs(h))
    return w - lr * jnp.where(largest > 0, mean / jnp.where(largest > 0, largest, 1), 0), mean, largest


@formula("clipped")
def nadam(w: Array, h: Array, mean: Array, var: Array, schedule: Array, *, t: Array, lr: Number, beta1: float,
          beta2: float, epsilon: float, schedule_decay: float) -> tuple[Array, ...]:  # fmt: skip
    """Compute Adam with Nesterov's momentum (Dozat, 2016); schedule: the product of the momenta so far, shape ()."""
    momentum = beta1 * (1 - 0.5 * 0.96 ** (t * schedule_decay))
    next_momentum = beta1 * (1 - 0.5 * 0.96 ** ((t + 1) * schedule_decay))
    schedule = schedule * momentum
    mean = mix(mean, h, beta1)
    var = mix(var, lax.square(h), beta2)
    ahead = (1 - momentum) * h / (1 - schedule) + next_momentum * mean / (1 - schedule * next_momentum)
    return w - lr * ahead / (lax.sqrt(var / one_minus_power(beta2, t)) + epsilon), mean, var, schedule


@formula("apart")
def dcasgd(
    w: Array, h: Array, *slots: Array, lr: Number, wd: Number, momentum: float, lamda: float
) -> tuple[Array, ...]:
    """Compute m ← μ m - η (h + λ w + `lamda` h² (w - w_previous)); w ← w + m: for delays (Zheng et al., 2017)."""
    *mom, previous = slots
    step = -lr * (h + wd * w + lamda * lax.square(h) * (w - previous))
    if mom:
        step = momentum * mom[0] + step
    return (w + step, *(step for _ in mom), w)


# -- rows ------------------------------------------------------------------------------------------------------------


def _with_momentum(formula: Callable[..., tuple[Array, ...]]) -> Callable[..., tuple[Array, ...]]:
    """Return the formula where there is momentum, else plain gradient descent."""

    def update(w: Array, g: Array, slots: tuple[Array, ...], at: Update, h: Hyper) -> tuple[Array, ...]:
        return formula(w, g, *slots, momentum=h["momentum"], **at.common) if slots else updates.sgd(w, g, **at.common)

    return update


def _signum(w: Array, g: Array, slots: tuple[Array, ...], at: Update, h: Hyper) -> tuple[Array, ...]:
    if not slots:
        return updates.signsgd(w, g, **at.common)
    return updates.signum(w, g, *slots, momentum=h["momentum"], wd_lh=h["wd_lh"] or 0.0, **at.common)


def _lars(w: Array, g: Array, slots: tuple[Array, ...], at: Update, h: Hyper) -> tuple[Array, ...]:
    lr, momentum = at.lr, h["momentum"]
    if not at.name.endswith(("gamma", "beta", "bias")):
        w_sum, g_sum = (layerwise_updates.sum_of_squares(x).reshape(1) for x in (w, g))
        numbers = {"eta": h["eta"], "eps": h["eps"], "rescale_grad": at.rescale_grad}
        lr = layerwise_updates.lars(at.lr.reshape(1), w_sum, g_sum, jnp.full(1, at.wd), **numbers).reshape(())
    if h["momentum_correction"] and slots:
        before = at.previous_lr()
        momentum = momentum * jnp.where(before != 0, at.lr / jnp.where(before != 0, before, 1), 1)
    numbers = {**at.preprocessing, "lr": lr}
    return updates.sgd_mom(w, g, *slots, momentum=momentum, **numbers) if slots else updates.sgd(w, g, **numbers)


def _lamb(w: Array, g: Array, slots: tuple[Array, ...], at: Update, h: Hyper) -> tuple[Array, ...]:
    bounds = {name: h[name] or -1.0 for name in ("lower_bound", "upper_bound")}
    return layerwise_updates.lamb(w, g, *slots, t=at.t, **bounds, **_only(h, _LAMB), **at.common)


def _adam(w: Array, g: Array, slots: tuple[Array, ...], at: Update, h: Hyper) -> tuple[Array, ...]:
    lr = at.lr * jnp.sqrt(one_minus_power(h["beta2"], at.t)) / one_minus_power(h["beta1"], at.t)
    return updates.adam(w, g, *slots, lr=lr, **_only(h, _BETAS), **at.preprocessing)


def _adamw(w: Array, g: Array, slots: tuple[Array, ...], at: Update, h: Hyper) -> tuple[Array, ...]:
    lr = jnp.sqrt(one_minus_power(h["beta2"], at.t)) / one_minus_power(h["beta1"], at.t)
    return updates.adamw(w, g, *slots, lr=lr, eta=at.lr, **_only(h, _BETAS), **at.preprocessing)


def _rmsprop(w: Array, g: Array, slots: tuple[Array, ...], at: Update, h: Hyper) -> tuple[Array, ...]:
    numbers = {**_only(h, ("gamma1", "epsilon")), "clip_weights": h["clip_weights"] or -1.0}
    if h["centered"]:
        return updates.rmsprop_alex(w, g, *slots, gamma2=h["gamma2"], **numbers, **at.common)
    return updates.rmsprop(w, g, *slots, **numbers, **at.common)


def _sgld(w: Array, g: Array, slots: tuple[Array, ...], at: Update, h: Hyper) -> tuple[Array, ...]:
    """Compute w ← w - η / 2 (clip(c g) + λ w) + √η ν with normal noise ν: Langevin dynamics (Welling & Teh, 2011)."""
    (new,) = updates.sgd(w.astype(jnp.float32), g, lr=at.lr / 2, **at.preprocessing)
    return ((new + jnp.sqrt(at.lr) * jax.random.normal(at.key(), w.shape, jnp.float32)).astype(w.dtype),)


def _group_adagrad(w: Array, g: Array, slots: tuple[Array, ...], at: Update, h: Hyper) -> tuple[Array, ...]:
    numbers = {"lr": at.lr, "rescale_grad": at.rescale_grad, "clip_gradient": at.clip_gradient}
    return group_adagrad(w, g, *slots, eps=h["eps"], **numbers)


def _group_adagrad_slot(w: Array, h: Hyper) -> tuple[Array, ...]:
    """Return a number for each row of a matrix. Raises ParamError for other arrays."""
    if w.ndim != 2:
        fix = "Use another optimiser for parameters that are not matrices, such as biases."
        problem = "Optimiser 'groupadagrad' can update only matrices"
        raise ParamError(problem, expected="shape (rows, columns)", got=w.shape, fix=fix)
    return (jnp.zeros((w.shape[0], 1), w.dtype),)


def _only(h: Hyper, names: tuple[str, ...]) -> dict[str, Any]:
    """Return hyper-parameters as MXNet's operators hold them, in float32: in Adam 1 - β₂ differs from 0.001 by 1e-5."""
    return {name: float(np.float32(h[name])) if isinstance(h[name], float) else h[name] for name in names}


_BETAS = ("beta1", "beta2", "epsilon")
_LAMB = (*_BETAS, "bias_correction")
_ADAM = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}

_SGD = Rule(_with_momentum(updates.sgd_mom), _momentum_slot, {"momentum": 0.0, "lazy_update": True})

RULES: dict[str, Rule] = {
    "sgd": _SGD,
    "ccsgd": _SGD,
    "nag": Rule(_with_momentum(updates.nag), _momentum_slot, {"momentum": 0.0}),
    "signum": Rule(_signum, _momentum_slot, {"learning_rate": 0.01, "momentum": 0.9, "wd_lh": 0.0}),
    "lars": Rule(
        _lars,
        _momentum_slot,
        {"momentum": 0.0, "lazy_update": True, "eta": 0.001, "eps": 0.0, "momentum_correction": True},
        decays=("_weight",),
    ),
    "lamb": Rule(
        _lamb,
        zeros(2),
        {"learning_rate": 0.001, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-6, "lower_bound": None,
         "upper_bound": None, "bias_correction": True},
    ),
    "dcasgd": Rule(
        lambda w, g, slots, at, h: dcasgd(w, g, *slots, **at.common, **h),
        lambda w, h: (*_momentum_slot(w, h), jnp.array(w)),
        {"momentum": 0.0, "lamda": 0.04},
    ),
    "sgld": Rule(_sgld),
    "adam": Rule(_adam, zeros(2), {"learning_rate": 0.001, **_ADAM, "lazy_update": True}),
    "adamw": Rule(_adamw, zeros(2), {"learning_rate": 0.001, **_ADAM}),
    "adagrad": Rule(lambda w, g, slots, at, h: adagrad(w, g, *slots, **at.common, **h), zeros(1), {"eps": 1e-7}),
    "groupadagrad": Rule(_group_adagrad, _group_adagrad_slot, {"eps": 1e-5}),
    "rmsprop": Rule(
        _rmsprop,
        lambda w, h: zeros(3 if h["centered"] else 1)(w, h),
        {"learning_rate": 0.001, "gamma1": 0.9, "gamma2": 0.9, "epsilon": 1e-8, "centered": False,
         "clip_weights": None},
    ),
    "adadelta": Rule(
        lambda w, g, slots, at, h: adadelta(w, g, *slots, **at.preprocessing, **h),
        zeros(2),
        {"rho": 0.9, "epsilon": 1e-5},
    ),
    "ftrl": Rule(
        lambda w, g, slots, at, h: updates.ftrl(w, g, *slots, **at.common, **h),
        zeros(2),
        {"lamda1": 0.01, "learning_rate": 0.1, "beta": 1.0},
    ),
    "ftml": Rule(
        lambda w, g, slots, at, h: updates.ftml(w, g, *slots, t=at.t, **_only(h, _BETAS), **at.common),
        zeros(3),
        {"beta1": 0.6, "beta2": 0.999, "epsilon": 1e-8},
    ),
    "adamax": Rule(
        lambda w, g, slots, at, h: adamax(
            w, g, *slots, lr=at.lr / one_minus_power(h["beta1"], at.t), **h, **at.preprocessing
        ),
        zeros(2),
        {"learning_rate": 0.002, "beta1": 0.9, "beta2": 0.999},
    ),
    "nadam": Rule(
        lambda w, g, slots, at, h: nadam(w, g, *slots, t=at.t, **at.common, **h),
        lambda w, h: (*zeros(2)(w, h), jnp.ones((), jnp.float32)),
        {"learning_rate": 0.001, **_ADAM, "schedule_decay": 0.004},
    ),
}  # fmt: skip
"""Optimisers by MXNet's names. `adamw` is MXNet's operator of that name, which no MXNet optimiser class uses; `lbsgd`
(gradients summed over several updates, then LARS) and `test` are left out."""
