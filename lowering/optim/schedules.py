"""MXNet's learning rate schedulers as pure functions of the number of updates.

Each is called with the number of the update, 1 for the first, as a Python number or as a traced array, so a schedule
runs inside the compiled step. Given the same arguments they return what MXNet 1.9.1's return when training calls them
with 1, 2, 3, …
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from symjax_nnvm.errors import ParamError


@dataclass(frozen=True, kw_only=True)
class LRScheduler:
    """The base class of all schedulers: a learning rate with a warm-up before it.

    Args:
        base_lr: the rate after the warm-up.
        warmup_steps: the number of updates in the warm-up.
        warmup_begin_lr: the rate at the beginning of the warm-up.
        warmup_mode: "linear": the rate grows to `base_lr`; "constant": it stays at `warmup_begin_lr`.

    Raises:
        ParamError: a value is out of range.
    """

    base_lr: float = 0.01
    warmup_steps: int = 0
    warmup_begin_lr: float = 0.0
    warmup_mode: Literal["linear", "constant"] = "linear"

    def __post_init__(self) -> None:
        self._check(self.warmup_begin_lr <= self.base_lr, "warmup_begin_lr", f"at most base_lr = {self.base_lr}")
        self._check(self.warmup_steps >= 0, "warmup_steps", "0 or more")
        self._check(self.warmup_mode in ("linear", "constant"), "warmup_mode", "'linear' or 'constant'")

    def _check(self, holds: bool, param: str, expected: str) -> None:
        if not holds:
            problem = f"{type(self).__name__} cannot be made"
            raise ParamError(problem, param=param, expected=expected, got=getattr(self, param))

    def __call__(self, num_update: Any) -> jax.Array:
        """Return the learning rate of an update: float32, shape ()."""
        return self._rate(jnp.asarray(num_update, jnp.float32), jnp)

    def exactly(self, num_update: int) -> float:
        """Return the learning rate of an update in float64, as Python computes it."""
        return float(self._rate(np.float64(num_update), np))

    def _rate(self, count: Any, xp: Any) -> Any:
        """Return the rate of an update. xp: the module of its arrays, NumPy's or JAX's."""
        rate = self._after_warmup(count, xp)
        if not self.warmup_steps:
            return rate
        growth = (self.base_lr - self.warmup_begin_lr) / self.warmup_steps if self.warmup_mode == "linear" else 0.0
        return xp.where(count < self.warmup_steps, self.warmup_begin_lr + growth * count, rate)

    def _after_warmup(self, count: Any, xp: Any) -> Any:
        return xp.full_like(count, self.base_lr)


@dataclass(frozen=True)
class FactorScheduler(LRScheduler):
    """A learning rate that is multiplied with a factor after every `step` updates.

    Args:
        step: the number of updates between two changes.
        factor: the factor, at most 1.
        stop_factor_lr: the lowest rate.
        base_lr: the rate after the warm-up.
        warmup_steps: the number of updates in the warm-up.
        warmup_begin_lr: the rate at the beginning of the warm-up.
        warmup_mode: "linear": the rate grows to `base_lr`; "constant": it stays at `warmup_begin_lr`.

    Raises:
        ParamError: a value is out of range.
    """

    step: int
    factor: float = 1.0
    stop_factor_lr: float = 1e-8

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(self.step >= 1, "step", "1 or more")
        self._check(self.factor <= 1, "factor", "at most 1")

    def _after_warmup(self, count: Any, xp: Any) -> Any:
        times = xp.maximum(xp.ceil(count / self.step) - 1, 0)
        return xp.where(times > 0, xp.maximum(self.base_lr * self.factor**times, self.stop_factor_lr), self.base_lr)


@dataclass(frozen=True)
class MultiFactorScheduler(LRScheduler):
    """A learning rate that is multiplied with a factor at several numbers of updates.

    Args:
        step: the numbers of updates, increasing; the rate changes with the first update beyond each.
        factor: the factor.
        base_lr: the rate after the warm-up.
        warmup_steps: the number of updates in the warm-up.
        warmup_begin_lr: the rate at the beginning of the warm-up.
        warmup_mode: "linear": the rate grows to `base_lr`; "constant": it stays at `warmup_begin_lr`.

    Raises:
        ParamError: a value is out of range.
    """

    step: Sequence[int]
    factor: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        steps = list(self.step)
        increasing = all(a < b for a, b in itertools.pairwise(steps))
        self._check(bool(steps) and steps[0] >= 1 and increasing, "step", "increasing integers, the first 1 or more")
        self._check(self.factor <= 1, "factor", "at most 1")

    def _after_warmup(self, count: Any, xp: Any) -> Any:
        return self.base_lr * self.factor ** xp.sum(count > xp.asarray(self.step, count.dtype)).astype(count.dtype)


@dataclass(frozen=True)
class _UntilMaxUpdate(LRScheduler):
    """A schedule from base_lr at the end of the warm-up to final_lr at update max_update, and final_lr from
    there on."""

    max_update: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(self.max_update > self.warmup_steps, "max_update", f"more than warmup_steps = {self.warmup_steps}")

    def _share_done(self, count: Any, xp: Any) -> Any:
        """Return the share of updates done: 0 at the end of the warm-up, 1 at max_update and after."""
        return (xp.minimum(count, self.max_update) - self.warmup_steps) / (self.max_update - self.warmup_steps)

    def _remaining_share(self, count: Any, xp: Any) -> Any:
        """Return 1 less that, and exactly 0 in the end, which the difference may not be: XLA divides by multiplying."""
        return (self.max_update - xp.minimum(count, self.max_update)) / (self.max_update - self.warmup_steps)


@dataclass(frozen=True)
class PolyScheduler(_UntilMaxUpdate):
    """A learning rate final_lr + (base_lr - final_lr) (1 - s)^pwr, where s is the share of updates done.

    Args:
        max_update: the number of updates after which the rate is `final_lr`.
        pwr: the exponent.
        final_lr: the last rate.
        base_lr: the rate after the warm-up.
        warmup_steps: the number of updates in the warm-up.
        warmup_begin_lr: the rate at the beginning of the warm-up.
        warmup_mode: "linear": the rate grows to `base_lr`; "constant": it stays at `warmup_begin_lr`.

    Raises:
        ParamError: a value is out of range.
    """

    pwr: float = 2
    final_lr: float = 0.0

    def _after_warmup(self, count: Any, xp: Any) -> Any:
        return self.final_lr + (self.base_lr - self.final_lr) * self._remaining_share(count, xp) ** self.pwr


@dataclass(frozen=True)
class CosineScheduler(_UntilMaxUpdate):
    """A learning rate final_lr + (base_lr - final_lr) (1 + cos(π s)) / 2, where s is the share of updates done.

    Args:
        max_update: the number of updates after which the rate is `final_lr`.
        final_lr: the last rate.
        base_lr: the rate after the warm-up.
        warmup_steps: the number of updates in the warm-up.
        warmup_begin_lr: the rate at the beginning of the warm-up.
        warmup_mode: "linear": the rate grows to `base_lr`; "constant": it stays at `warmup_begin_lr`.

    Raises:
        ParamError: a value is out of range.
    """

    final_lr: float = 0.0

    def _after_warmup(self, count: Any, xp: Any) -> Any:
        wave = (1 + xp.cos(math.pi * self._share_done(count, xp))) / 2
        return self.final_lr + (self.base_lr - self.final_lr) * wave
