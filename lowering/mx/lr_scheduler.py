"""`mx.lr_scheduler`: learning rates by the number of the update. As in MXNet, a scheduler counts on from its last rate;
the same schedules as functions are in `lowering.optim.schedules`."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

from lowering.messages.counts import checks_flags
from lowering.mx.shared_arguments import explained_by
from symjax_nnvm.errors import ParamError


def _check(holds: bool, problem: str, param: str, got: Any) -> None:
    """Raise ParamError, a ValueError, unless it holds."""
    if not holds:
        raise ParamError(problem, param=param, got=repr(got))


class LRScheduler:
    """The base class of learning rates that change; a subclass defines `__call__(num_update)`, which returns the rate.

    Args:
        base_lr: the rate after the warm-up, and then the present one; an optimiser's learning_rate replaces it.
        warmup_steps: the number of updates in the warm-up.
        warmup_begin_lr: the rate at the beginning of the warm-up.
        warmup_mode: "linear": the rate grows to `base_lr`; "constant": it stays at `warmup_begin_lr`.

    Raises:
        ParamError: a value is out of range; the error is a ValueError, too.
    """

    @checks_flags
    def __init__(
        self, base_lr: float = 0.01, warmup_steps: int = 0, warmup_begin_lr: float = 0, warmup_mode: str = "linear"
    ):
        _check(warmup_begin_lr <= base_lr, "Base lr has to be higher than warmup_begin_lr", "base_lr", base_lr)
        _check(warmup_steps >= 0, "Warmup steps has to be positive or 0", "warmup_steps", warmup_steps)
        modes = "Supports only linear and constant modes of warmup"
        _check(warmup_mode in ("linear", "constant"), modes, "warmup_mode", warmup_mode)
        self.base_lr = self.warmup_final_lr = base_lr
        self.warmup_steps, self.warmup_begin_lr, self.warmup_mode = warmup_steps, warmup_begin_lr, warmup_mode

    def get_warmup_lr(self, num_update: int) -> float:
        """Return the rate of an update in the warm-up."""
        if self.warmup_mode == "constant":
            return self.warmup_begin_lr
        growth = (self.warmup_final_lr - self.warmup_begin_lr) * float(num_update) / float(self.warmup_steps)
        return self.warmup_begin_lr + growth

    def go_on_from(self, num_update: int) -> None:
        """Continue after this number of updates, which were counted elsewhere."""

    def __call__(self, num_update: int) -> float:
        """Return the learning rate of an update, 1 for the first."""
        raise NotImplementedError("must override this: __call__(num_update) returns the learning rate")


class FactorScheduler(LRScheduler):
    """A learning rate that is multiplied with a factor after every `step` updates.

    Args:
        step: the number of updates between two changes.
        factor: the factor, at most 1.
        stop_factor_lr: the lowest rate.
        base_lr: the rate after the warm-up; an optimiser's learning_rate replaces it.
        args: `warmup_steps`, `warmup_begin_lr` and `warmup_mode`, as in `LRScheduler`.
        kw: the same by name.

    Attributes:
        count: the update after which the rate changed last; 0 before.
    """

    @checks_flags
    def __init__(
        self, step: int, factor: float = 1, stop_factor_lr: float = 1e-8, base_lr: float = 0.01, *args: Any, **kw: Any
    ):
        super().__init__(base_lr, *args, **kw)
        _check(step >= 1, "Schedule step must be greater or equal than 1 round", "step", step)
        _check(factor <= 1, "Factor must be no more than 1 to make lr reduce", "factor", factor)
        self.step, self.factor, self.stop_factor_lr, self.count = step, factor, stop_factor_lr, 0

    def __call__(self, num_update: int) -> float:
        """The learning rate of an update, 1 for the first; a change is logged."""
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        while num_update > self.count + self.step:
            self.count += self.step
            self.base_lr *= self.factor
            if self.base_lr < self.stop_factor_lr:
                self.base_lr = self.stop_factor_lr
                message = "Update[%d]: now learning rate arrived at %0.5e, will not change in the future"
                logging.info(message, num_update, self.base_lr)
            else:
                logging.info("Update[%d]: Change learning rate to %0.5e", num_update, self.base_lr)
        return self.base_lr


@explained_by(FactorScheduler)
class MultiFactorScheduler(LRScheduler):
    """A learning rate that is multiplied with a factor after each of several numbers of updates.

    Args:
        step: the numbers of updates, increasing.

    Attributes:
        count: the update after which the rate changed last; 0 before.
        cur_step_ind: how often it has changed.
    """

    @checks_flags
    def __init__(self, step: Sequence[int], factor: float = 1, base_lr: float = 0.01, *args: Any, **kw: Any):
        super().__init__(base_lr, *args, **kw)
        steps = list(step)
        _check(bool(steps), "Schedule step must be a list with numbers in it", "step", step)
        _check(steps[0] >= 1, "Schedule step must be greater or equal than 1 round", "step", step)
        _check(steps == sorted(set(steps)), "Schedule step must be an increasing integer list", "step", step)
        _check(factor <= 1, "Factor must be no more than 1 to make lr reduce", "factor", factor)
        self.step, self.factor, self.cur_step_ind, self.count = step, factor, 0, 0

    def __call__(self, num_update: int) -> float:
        """The learning rate of an update, 1 for the first; a change is logged."""
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        while self.cur_step_ind < len(self.step) and num_update > self.step[self.cur_step_ind]:
            self.count = self.step[self.cur_step_ind]
            self.cur_step_ind += 1
            self.base_lr *= self.factor
            logging.info("Update[%d]: Change learning rate to %0.5e", num_update, self.base_lr)
        return self.base_lr


class _UntilMaxUpdateScheduler(LRScheduler):
    """A schedule that ends with update max_update. After it the rate stays what it was last."""

    def __init__(self, max_update: int, base_lr: float, final_lr: float, *args: Any, **kw: Any):
        super().__init__(base_lr, *args, **kw)
        problem = "maximum number of updates must be strictly positive"
        _check(isinstance(max_update, int) and max_update >= 1, problem, "max_update", max_update)
        self.base_lr_orig, self.max_update, self.final_lr = base_lr, max_update, final_lr
        self.max_steps = max_update - self.warmup_steps

    def _remaining(self, done: float) -> float:
        """Return how much of the way from base_lr to final_lr is left. done: the share of updates done."""
        raise NotImplementedError

    def go_on_from(self, num_update: int) -> None:
        """Have had all updates up to this one: the rate after the last is the last one's."""
        self(min(num_update, self.max_update))

    def __call__(self, num_update: int) -> float:
        """Return the learning rate of an update, 1 for the first."""
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        if num_update <= self.max_update:
            done = float(num_update - self.warmup_steps) / float(self.max_steps)
            self.base_lr = self.final_lr + (self.base_lr_orig - self.final_lr) * self._remaining(done)
        return self.base_lr


@explained_by(FactorScheduler)
class PolyScheduler(_UntilMaxUpdateScheduler):
    """A learning rate final_lr + (base_lr - final_lr) (1 - s)^pwr, where s is the share of updates done.

    Args:
        max_update: the number of updates after which the rate is `final_lr`.
        pwr: the exponent.
        final_lr: the last rate.
    """

    @checks_flags
    def __init__(
        self, max_update: int, base_lr: float = 0.01, pwr: float = 2, final_lr: float = 0, *args: Any, **kw: Any
    ):
        super().__init__(max_update, base_lr, final_lr, *args, **kw)
        self.power = pwr

    def _remaining(self, done: float) -> float:
        return pow(1 - done, self.power)


@explained_by(PolyScheduler)
class CosineScheduler(_UntilMaxUpdateScheduler):
    """A learning rate that falls from base_lr to final_lr by half a cosine wave."""

    @checks_flags
    def __init__(self, max_update: int, base_lr: float = 0.01, final_lr: float = 0, *args: Any, **kw: Any):
        super().__init__(max_update, base_lr, final_lr, *args, **kw)

    def _remaining(self, done: float) -> float:
        return (1 + math.cos(math.pi * done)) / 2
