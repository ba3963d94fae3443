"""The loop: epochs, metrics, validation, callbacks, checkpoints, and numbers that stop being finite."""

# Some calls are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import json
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
import symjax_nnvm as nn
from lowering import Batches, Trainer
from lowering.training import History, StepEvent
from symjax_nnvm import TrainingError
from symjax_nnvm import symbol as sym
from tests.lowering.training.networks import classifier, points, values


def trainer(net: sym.Symbol | None = None, **options: Any) -> Trainer:
    made = Trainer(
        classifier() if net is None else net, "adam", {"learning_rate": 0.05}, initializer="xavier", **options
    )
    made.init(0, data=(16, 3))
    return made


def batches(seed: int = 0, **options: Any) -> Batches:
    return Batches(points(seed=seed), 16, shuffle=True, **options)


class MemoryCheckpoints:
    """Checkpoints in memory, at given steps; positions pass through JSON, as they do on disk."""

    def __init__(self, every: int):
        self.every = every
        self.saved: dict[int, tuple[Any, str]] = {}

    def save(self, step: int, state: Any, position: dict[str, Any]) -> None:
        self.saved[step] = (jax.tree.map(jnp.copy, state), json.dumps(position))

    def restore(self, like: Any) -> tuple[Any, dict[str, Any]] | None:
        if not self.saved:
            return None
        state, position = self.saved[max(self.saved)]
        return jax.tree.map(jnp.copy, state), json.loads(position)

    def wait(self) -> None:
        """Nothing is written in the background."""


@pytest.mark.slow("compiles")
def test_fit_learns_and_tells_how():
    history = trainer().fit(batches(), 12, validation=batches(seed=1), metrics=["accuracy", "ce"], progress=False)
    assert len(history) == 12
    assert history["cross-entropy"][-1] < 0.6 * history["cross-entropy"][0]
    assert history["val-accuracy"][-1] > 0.85
    assert history.epochs[3].steps == 4
    assert "epoch 11: accuracy" in str(history)


@pytest.mark.slow("compiles")
def test_history_survives_json():
    history = trainer().fit(batches(), 2, progress=False)
    assert History.from_json(json.loads(json.dumps(history.to_json()))).epochs == history.epochs


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("form", ["dicts", "tuples", "lists of arrays"])
def test_any_re_iterable_of_batches_will_do(form: str):
    forms = {
        "dicts": lambda b: b,
        "tuples": lambda b: (b["data"], b["softmax_label"]),
        "lists of arrays": lambda b: ([b["data"]], [b["softmax_label"]]),
    }
    ours, theirs = trainer(), trainer()
    ours.fit([forms[form](batch) for batch in Batches(points(), 16)], 2, progress=False)
    theirs.fit(Batches(points(), 16), 2, progress=False)
    np.testing.assert_array_equal(*(t.require_state().params["fc1_weight"] for t in (ours, theirs)))


@pytest.mark.slow("compiles")
def test_without_a_terminal_an_epoch_is_a_line(capsys: pytest.CaptureFixture[str]):
    trainer().fit(batches(), 2)
    lines = capsys.readouterr().out.splitlines()
    assert [line[:23] for line in lines] == ["epoch 0 (1 of 2)  accur", "epoch 1 (2 of 2)  accur"]


def test_callbacks_hear_of_steps_and_epochs_and_can_stop_the_run():
    heard: list[tuple[int, int, int]] = []

    class Listener:
        def on_step_end(self, trainer: Trainer, event: StepEvent) -> None:
            heard.append((event.epoch, event.batch, event.step))

        def on_epoch_end(self, trainer: Trainer, record: Any) -> bool:
            return record.epoch == 1

    assert len(trainer().fit(batches(), 5, callbacks=[Listener()], progress=False)) == 2
    assert heard == [(0, 0, 1), (0, 1, 2), (0, 2, 3), (0, 3, 4), (1, 0, 5), (1, 1, 6), (1, 2, 7), (1, 3, 8)]


@pytest.mark.slow("compiles")
@pytest.mark.usefixtures("compiled_fully")
@pytest.mark.parametrize("stop", [3, pytest.param(4, marks=pytest.mark.nightly("at an epoch's end less is restored"))])
def test_a_run_goes_on_from_a_checkpoint_to_the_same_bits(stop: int):
    class Interrupt:
        def on_step_end(self, trainer: Trainer, event: StepEvent) -> None:
            if event.step == stop + 1:
                raise KeyboardInterrupt

    net = sym.SoftmaxOutput(sym.Dropout(classifier().get_internals()["fc2_output"], p=0.3), name="softmax")
    whole, broken, resumed = (trainer(net) for _ in range(3))
    expected = whole.fit(batches(), 3, metrics=["accuracy", "ce"], progress=False)
    checkpoints = MemoryCheckpoints(every=stop)
    with pytest.raises(KeyboardInterrupt):
        broken.fit(batches(), 3, metrics=["accuracy", "ce"], callbacks=[Interrupt()], checkpoints=checkpoints,
                   progress=False)  # fmt: skip
    assert max(checkpoints.saved) == stop
    history = resumed.fit(batches(), 3, metrics=["accuracy", "ce"], checkpoints=checkpoints, progress=False)
    for metric in ("accuracy", "cross-entropy"):
        assert history[metric] == expected[metric]
    for a, b in zip(jax.tree.leaves(resumed.state), jax.tree.leaves(whole.state), strict=True):
        assert jnp.array_equal(a, b)


# -- evaluate, predict, export ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", ["keep", "pad"])
def test_a_last_partial_batch_counts_exactly(last: Any):
    ready, data = trainer(), points(37)
    parts = Batches(data, 16, last=last)
    (probabilities,) = ready.predict(parts)
    assert probabilities.shape == (37, 2)
    np.testing.assert_allclose(probabilities, ready.predict(data["data"])[0], rtol=1e-5)
    right = np.mean(np.argmax(probabilities, 1) == data["softmax_label"])
    assert ready.evaluate(parts)["accuracy"] == pytest.approx(right)


def test_evaluation_changes_nothing_and_drops_nothing():
    net = sym.SoftmaxOutput(sym.Dropout(classifier().get_internals()["fc2_output"], p=0.5), name="softmax")
    ready = trainer(net)
    before = values(ready.require_state().params)
    first, second = (ready.predict(points()["data"])[0] for _ in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(before["fc1_weight"], ready.require_state().params["fc1_weight"])


def test_an_export_predicts_the_same(tmp_path: Any):
    ready = trainer()
    ready.fit(batches(), 1, progress=False)
    ready.export(tmp_path / "net", 1)
    net, args, aux = nn.load_checkpoint(tmp_path / "net", 1)
    ((expected,), _) = lowering.compile(net)({**args, **points()}, aux)
    np.testing.assert_allclose(ready.predict(points()["data"])[0], expected, rtol=1e-6)


def test_nothing_to_evaluate_is_an_error():
    with pytest.raises(TrainingError, match="no batches to evaluate"):
        trainer().evaluate(iter([]))


def test_data_that_has_run_out_is_an_error():
    with pytest.raises(TrainingError, match="Epoch 1 has no batches"):
        trainer().fit(iter([points()]), 2, progress=False)


# -- numbers that are not finite -------------------------------------------------------------------------------------


def logarithm() -> sym.Symbol:
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=2, name="fc")
    return sym.MakeLoss(sym.log(net, name="logarithm"), name="loss")


def test_an_output_that_is_not_finite_ends_the_run_with_its_name():
    with pytest.raises(TrainingError, match=r"since batch 0 of epoch 0; in node 'loss_output'.*check_finite=\"step\""):
        trainer(logarithm()).fit([points()["data"]] * 3, 1, metrics="loss", progress=False)


@pytest.mark.slow("compiles")
def test_checking_each_step_undoes_it_and_names_the_first_node():
    ready = trainer(logarithm())
    before = values(ready.require_state().params)
    with pytest.raises(TrainingError, match="1. operator 'log', output 0 of node 'logarithm'"):
        ready.fit([points()["data"]], 1, metrics="loss", progress=False, check_finite="step")
    np.testing.assert_array_equal(before["fc_weight"], ready.require_state().params["fc_weight"])
    assert int(ready.require_state().step) == 0


@pytest.mark.slow("compiles")
def test_a_gradient_that_is_not_finite_is_found_behind_finite_outputs():
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=2, name="fc")
    ready = trainer(sym.MakeLoss(sym.sqrt(net, name="root"), name="loss"))
    diagnosis = ready.diagnose(np.zeros((4, 3), np.float32))
    assert not diagnosis.ok
    assert "root" in diagnosis.origins[0].node
    assert diagnosis.origins[0].infinities == 8
    with pytest.raises(TrainingError, match="made a parameter infinite or NaN"):
        ready.fit([np.zeros((4, 3), np.float32)], 1, metrics="loss", progress=False, check_finite="step")


@pytest.mark.slow("compiles")
def test_lost_parameters_and_arrays_of_the_batch_are_named_apart_from_nodes():
    lost, batch = trainer(), points()
    bad = {name: value.at[0].set(np.nan) for name, value in lost.require_state().params.items() if "fc1" in name}
    lost.state = replace(lost.require_state(), params=lost.require_state().params | bad)
    text = str(lost.diagnose(batch))
    assert text.startswith(
        "Parameters or states that are not finite, before the batch:\n  1. variable 'fc1_weight': 3 NaN"
    )
    assert "2. variable 'fc1_bias': 1 NaN and 0 infinite" in text
    assert "lowering.Checkpoints(folder).restore(trainer.state)" in text
    assert 'check_finite="step"' in text
    assert "from finite inputs" not in text
    text = str(trainer().diagnose({**batch, "data": np.full((64, 3), np.inf, np.float32)}))
    assert text.startswith("Arrays of the batch that are not finite:\n  1. variable 'data': 0 NaN and 192 infinite")
    assert "checkpoint" not in text


@pytest.mark.slow("computes much")
def test_a_healthy_batch_has_no_diagnosis():
    diagnosis = trainer().diagnose(points())
    assert diagnosis.ok
    assert "finite" in str(diagnosis)


def test_not_looking_lets_the_run_end():
    history = trainer(logarithm()).fit([points()["data"]], 1, metrics="loss", progress=False, check_finite=None)
    assert np.isnan(history["loss"][0])


def test_unknown_check_is_an_error():
    with pytest.raises(TrainingError, match="Wrong check_finite"):
        trainer().fit(batches(), 1, check_finite="often")
