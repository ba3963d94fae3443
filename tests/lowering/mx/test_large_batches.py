"""`mx.optimizer.LBSGD`: ten updates by each of its strategies are MXNet's."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowering import mx
from lowering.mx.optimizer import Updater
from symjax_nnvm.errors import ParamError
from tests.lowering.training import cases

THEIRS = np.load(Path(__file__).parents[2] / "goldens" / "training" / "large_batches.npz")
NAMES = list(cases.SHAPES)


def updater_of(case: str) -> Updater:
    options: dict[str, Any] = dict(cases.LARGE_BATCHES[case])
    if "lr_scheduler" in options:
        scheduler, arguments = options["lr_scheduler"]
        options["lr_scheduler"] = getattr(mx.lr_scheduler, scheduler)(**arguments)
    variables = [mx.sym.Variable(name, None, **cases.MULTIPLIERS.get(name, {})) for name in NAMES]
    made = mx.optimizer.create("lbsgd", sym=mx.sym.Group(variables), param_idx2name=dict(enumerate(NAMES)), **options)
    assert isinstance(made, mx.optimizer.LBSGD)
    return mx.optimizer.get_updater(made)


@pytest.mark.slow("has many cases")
@pytest.mark.parametrize("case", cases.LARGE_BATCHES)
def test_ten_updates_equal_mxnet(case: str):
    dtype = "float16" if case == "half" else "float32"
    updater = updater_of(case)
    weights = {name: mx.nd.array(value, dtype=dtype) for name, value in cases.weights().items()}
    for step in range(cases.LARGE_STEPS):
        for number, name in enumerate(NAMES):
            updater(number, mx.nd.array(cases.gradients(step)[name], dtype=dtype), weights[name])
        ours = np.concatenate([weights[name].asnumpy().ravel() for name in NAMES])
        np.testing.assert_allclose(ours, THEIRS[case][step], rtol=1e-3 if case == "half" else 1e-6, atol=1e-6)


def test_deviation_a_gradient_that_is_written_anew_counts_as_it_was():
    """As of a module, whose gradients are the same arrays in each batch."""
    updater = mx.optimizer.get_updater(mx.optimizer.LBSGD(learning_rate=1.0, batch_scale=2, warmup_strategy="none"))
    weight, grad = mx.nd.zeros(1), mx.nd.zeros(1)
    for value in (1.0, 3.0):
        grad[:] = value
        updater(0, grad, weight)
    assert weight.asscalar() == -2


def test_a_large_batch_has_one_at_least():
    with pytest.raises(ParamError, match="batch_scale is too small.*'batch_scale'; expected 1 or more; got 0"):
        mx.optimizer.LBSGD(batch_scale=0)
    with pytest.raises(ParamError, match="momentun"):
        mx.optimizer.create("lbsgd", momentun=0.9)
