"""`mx.lr_scheduler`: the schedules of `lowering.training` as MXNet's objects, called with the number of the update."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lowering.optim import schedules


class LRScheduler:
    """A learning rate that changes: a subclass says in `__call__(num_update)` what it is.

    base_lr: the rate after the warm-up, which an optimiser's learning_rate overwrites.
    """

    def __init__(
        self, base_lr: float = 0.01, warmup_steps: int = 0, warmup_begin_lr: float = 0, warmup_mode: str = "linear"
    ):
        self.base_lr = base_lr
        self.warmup_steps = warmup_steps
        self.warmup_begin_lr = warmup_begin_lr
        self.warmup_mode = warmup_mode

    @property
    def _warmup(self) -> dict[str, Any]:
        names = ("base_lr", "warmup_steps", "warmup_begin_lr", "warmup_mode")
        return {name: getattr(self, name) for name in names}

    def get_warmup_lr(self, num_update: int) -> float:
        """The rate of an update of the warm-up."""
        return schedules.LRScheduler(**self._warmup).exactly(num_update)

    def __call__(self, num_update: int) -> float:
        """The learning rate of an update, 1 for the first."""
        raise NotImplementedError("must override this: __call__(num_update) returns the learning rate")


class _Scheduled(LRScheduler):
    """A schedule of `lowering.training`."""

    def __init__(self, made: schedules.LRScheduler):
        super().__init__(made.base_lr, made.warmup_steps, made.warmup_begin_lr, made.warmup_mode)
        self._schedule, self._last = made, 0

    def __call__(self, num_update: int) -> float:
        """The learning rate of an update, 1 for the first."""
        self._last = max(self._last, num_update)
        if self._schedule.base_lr != self.base_lr:
            self._schedule = replace(self._schedule, base_lr=self.base_lr)
        return self._schedule.exactly(num_update)

    def __getattr__(self, name: str) -> Any:
        """An argument that the schedule was made with: `step`, `factor`, `max_update`, …"""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._schedule, name)


class FactorScheduler(_Scheduled):
    """base_lr times factor after each `step` updates."""

    def __init__(
        self, step: int, factor: float = 1, stop_factor_lr: float = 1e-8, base_lr: float = 0.01, *args: Any, **kw: Any
    ):
        warmup = _warmup_of(base_lr, *args, **kw)
        super().__init__(schedules.FactorScheduler(step=step, factor=factor, stop_factor_lr=stop_factor_lr, **warmup))

    @property
    def count(self) -> int:
        """The update after which the rate changed last; 0 before."""
        return max(-(-self._last // self.step) - 1, 0) * self.step


class MultiFactorScheduler(_Scheduled):
    """base_lr times factor after each of some numbers of updates."""

    def __init__(self, step: Sequence[int], factor: float = 1, base_lr: float = 0.01, *args: Any, **kw: Any):
        super().__init__(schedules.MultiFactorScheduler(step=step, factor=factor, **_warmup_of(base_lr, *args, **kw)))

    @property
    def cur_step_ind(self) -> int:
        """How often the rate has changed."""
        return sum(self._last > step for step in self.step)

    @property
    def count(self) -> int:
        """The update after which the rate changed last; 0 before."""
        return self.step[self.cur_step_ind - 1] if self.cur_step_ind else 0


class PolyScheduler(_Scheduled):
    """A schedule from base_lr to final_lr by a power of the share of updates that is left."""

    def __init__(
        self, max_update: int, base_lr: float = 0.01, pwr: float = 2, final_lr: float = 0, *args: Any, **kw: Any
    ):
        warmup = _warmup_of(base_lr, *args, **kw)
        super().__init__(schedules.PolyScheduler(max_update=max_update, pwr=pwr, final_lr=final_lr, **warmup))


class CosineScheduler(_Scheduled):
    """A schedule from base_lr to final_lr by half a cosine wave."""

    def __init__(self, max_update: int, base_lr: float = 0.01, final_lr: float = 0, *args: Any, **kw: Any):
        warmup = _warmup_of(base_lr, *args, **kw)
        super().__init__(schedules.CosineScheduler(max_update=max_update, final_lr=final_lr, **warmup))


def _warmup_of(
    base_lr: float, warmup_steps: int = 0, warmup_begin_lr: float = 0, warmup_mode: Any = "linear"
) -> dict[str, Any]:
    """The keywords that all schedules take, which follow by position in MXNet."""
    return {
        "base_lr": base_lr,
        "warmup_steps": warmup_steps,
        "warmup_begin_lr": warmup_begin_lr,
        "warmup_mode": warmup_mode,
    }
