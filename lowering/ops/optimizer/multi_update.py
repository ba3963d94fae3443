"""JAX rules of the optimisers' updates of many weights: the updates of one weight, in turn."""

from __future__ import annotations

from typing import Any

import jax
from jax import Array

from lowering.core.rules import lowers
from lowering.ops.optimizer.update import CHANGING, hyper_parameters
from lowering.optim import layerwise_updates, updates
from symjax_nnvm.ops.optimizer import multi_update as ops

FORMULAS: dict[str, updates.Update] = {
    "multi_sgd_update": updates.sgd,
    "multi_sgd_mom_update": updates.sgd_mom,
    "multi_mp_sgd_update": updates.with_master_copy(updates.sgd),
    "multi_mp_sgd_mom_update": updates.with_master_copy(updates.sgd_mom),
    "preloaded_multi_sgd_update": updates.sgd,
    "preloaded_multi_sgd_mom_update": updates.sgd_mom,
    "preloaded_multi_mp_sgd_update": updates.with_master_copy(updates.sgd),
    "preloaded_multi_mp_sgd_mom_update": updates.with_master_copy(updates.sgd_mom),
    "_multi_adamw_update": updates.adamw,
    "_multi_mp_adamw_update": updates.with_master_copy(updates.adamw),
    "_multi_lamb_update": layerwise_updates.lamb,
    "_multi_mp_lamb_update": layerwise_updates.lamb_with_master_copy,
}

_EACH = {"lrs": "lr", "learning_rates": "lr", "wds": "wd", "etas": "eta", "step_count": "t"}
"""Parameters and inputs with a number for each weight → what the formula of one weight calls it."""


def _register(row: ops.MultiUpdateSchema) -> None:
    formula = FORMULAS[row.name]

    @lowers(row.name, changing=CHANGING)
    def rule(p: Any, *arrays: Array) -> list[Array]:
        of_weights, shared = row.split(p, arrays)
        hyper = hyper_parameters(p) | dict(zip(row.shared, shared, strict=True))
        del hyper[row.count]
        per_weight = {name: _numbers(hyper.pop(plural)) for plural, name in _EACH.items() if plural in hyper}
        results = [
            formula(*of_weight, **{name: values[i] for name, values in per_weight.items()}, **hyper)
            for i, of_weight in enumerate(of_weights)
        ]
        return [new for new, *_ in results] + [state for _, *states in results for state in states]


def _numbers(values: Any) -> Any:
    """Return one number for each weight, from an array of any shape."""
    return values.reshape(-1) if isinstance(values, jax.Array) else values


for _row in ops.UPDATES:
    _register(_row)


@lowers("multi_lars")
def _multi_lars(p: ops.LarsParams, lrs: Array, weights_sum_sq: Array, grads_sum_sq: Array, wds: Array) -> Array:
    return layerwise_updates.lars(lrs, weights_sum_sq, grads_sum_sq, wds, **hyper_parameters(p))
