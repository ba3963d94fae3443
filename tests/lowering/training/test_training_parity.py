"""Four networks, trained 100 steps by MXNet 1.9.1 and by Trainer: the same parameters, states and losses.

`tests/support/training_cases.py` says what is trained, `tests/goldens/training/make.py` what MXNet made of it.
"""

from pathlib import Path

import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from tests.support.training_cases import CASES, Arrays, TrainingCase

GOLDENS = Path(__file__).parents[2] / "goldens" / "training"

TOLERANCE = 1e-4
"""Of the norm of the difference, relative to the norm, for each parameter and auxiliary state."""


def train(case: TrainingCase, optimizer: str) -> tuple[Arrays, np.ndarray]:
    """(parameters and states after the last step, loss of each step)."""
    symbol, shapes = case.network(sym), case.shapes()
    arg_shapes, _, aux_shapes = symbol.infer_shape(**shapes)
    every = dict(zip(symbol.list_arguments(), arg_shapes, strict=True))
    states = symbol.list_auxiliary_states()
    every |= dict(zip(states, aux_shapes, strict=True))
    initial = case.initial({name: shape for name, shape in every.items() if name not in shapes})
    args = {name: value for name, value in initial.items() if name not in states}
    data_names = [name for name in shapes if name != case.label]
    trainer = lowering.Trainer(symbol, optimizer, case.optimizers[optimizer], data_names=data_names)
    trainer.init(0, args, {name: initial[name] for name in states}, **shapes)
    losses = [case.loss(np.asarray(trainer.step(batch)[0]), batch) for batch in case.batches()]
    state = trainer.require_state()
    return {name: np.asarray(value) for name, value in (state.params | state.aux).items()}, np.array(losses)


OTHER = pytest.mark.nightly("the largest network, and the others by their other optimiser")


@pytest.mark.slow("computes much")
@pytest.mark.parametrize(
    ("case", "optimizer"),
    [
        pytest.param(
            case, optimizer, id=f"{case.name}-{optimizer}", marks=[OTHER] * ((i + j) % 2 or case.name == "resnet20")
        )
        for i, case in enumerate(CASES)
        for j, optimizer in enumerate(["sgd", "adam"])
    ],
)
def test_parameters_after_100_steps_are_mxnets(case: TrainingCase, optimizer: str):
    with np.load(GOLDENS / f"{case.name}_{optimizer}.npz") as golden:
        theirs = dict(golden)
    ours, losses = train(case, optimizer)
    assert set(ours) == {name for name in theirs if name != "loss" and not name.startswith("drift:")}
    apart = {name: np.linalg.norm(ours[name] - theirs[name]) / np.linalg.norm(theirs[name]) for name in ours}
    assert max(apart.values()) < TOLERANCE, sorted(apart.items(), key=lambda item: -item[1])[:5]
    np.testing.assert_allclose(losses, theirs["loss"], rtol=0, atol=1e-4)
    assert losses[-5:].mean() < 0.6 * losses[:5].mean()  # it did learn something
