"""JAX rules of the optimisers' updates of one weight: rows of (operator, formula)."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from jax import Array

from lowering.core.rules import lowers
from lowering.optim import layerwise_updates, updates
from symjax_nnvm.ops.optimizer import update as ops

_WITHOUT_EFFECT = {"lazy_update"}
_RENAMED = {"clip_grad": "clip_gradient"}
CHANGING = ("lr", "t", "eta", "lrs", "learning_rates", "step_count", "etas")
"""What a schedule, or the number of the update, changes from call to call."""


def hyper_parameters(p: Any) -> dict[str, Any]:
    """The parameters as keywords of a formula.

    MXNet's are float32. That shows where one is subtracted from 1: 1 - 0.999 is 0.00099998713.
    """
    numbers = {f.name: _single(getattr(p, f.name)) for f in fields(p) if f.name not in _WITHOUT_EFFECT}
    return {_RENAMED.get(name, name): value for name, value in numbers.items()}


def _single(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_single(item) for item in value)
    return float(np.float32(value)) if isinstance(value, float) else value


def _lamb_phase1_of_master(weight: Array, grad: Array, mean: Array, var: Array, weight32: Array, **hyper: Any):
    return layerwise_updates.lamb_phase1(weight32, grad, mean, var, **hyper)


FORMULAS: dict[str, updates.Update] = {
    "sgd_update": updates.sgd,
    "sgd_mom_update": updates.sgd_mom,
    "mp_sgd_update": updates.with_master_copy(updates.sgd),
    "mp_sgd_mom_update": updates.with_master_copy(updates.sgd_mom),
    "nag_mom_update": updates.nag,
    "mp_nag_mom_update": updates.with_master_copy(updates.nag),
    "signsgd_update": updates.signsgd,
    "signum_update": updates.signum,
    "adam_update": updates.adam,
    "_adamw_update": updates.adamw,
    "_mp_adamw_update": updates.with_master_copy(updates.adamw),
    "ftml_update": updates.ftml,
    "ftrl_update": updates.ftrl,
    "rmsprop_update": updates.rmsprop,
    "rmspropalex_update": updates.rmsprop_alex,
    "lamb_update_phase1": layerwise_updates.lamb_phase1,
    "lamb_update_phase2": layerwise_updates.lamb_phase2,
    "mp_lamb_update_phase1": _lamb_phase1_of_master,
    "mp_lamb_update_phase2": updates.with_master_copy(layerwise_updates.lamb_phase2),
}


def _register(row: ops.UpdateSchema) -> None:
    formula = FORMULAS[row.name]

    @lowers(row.name, changing=CHANGING)
    def rule(p: Any, *arrays: Array) -> tuple[Array, ...]:
        by_name = dict(zip(row.inputs, arrays, strict=True))
        numbers = {name: by_name.pop(name) for name in row.numbers}
        return formula(*by_name.values(), **numbers, **hyper_parameters(p))


for _row in ops.UPDATES:
    _register(_row)
