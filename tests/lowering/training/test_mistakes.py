"""What training tells: labels without a class, predictions that are not finite, statistics that stay, short texts."""

import warnings
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import symjax_nnvm as nn
from lowering import Batches, Trainer, mx
from lowering.training.history import EpochRecord, History, StepEvent
from lowering.training.numbered_inputs import ClassNumbers, Numbered, first_outside
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import NonFiniteWarning, OutOfMemoryError, SymbolValueError, TrainingError
from tests.lowering.training.networks import classifier, convolutional, images, points, values


def trained(symbol: sym.Symbol, **options: Any) -> Trainer:
    trainer = Trainer(symbol, "sgd", {"learning_rate": 0.1}, **options)
    trainer.init(0, data=(8, 3))
    return trainer


def labelled(*labels: float) -> list[dict[str, Any]]:
    """Batches of eight points; the given labels stand at the end of the second."""
    batch = points(8)
    wrong = batch["softmax_label"].copy()
    wrong[len(wrong) - len(labels) :] = labels
    return [batch, {**batch, "softmax_label": wrong}]


# -- labels ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("check_finite", ["interval", "step"])
@pytest.mark.parametrize("label", [2.0, -1.0, np.nan])
def test_a_label_that_numbers_no_class_ends_training(label: float, check_finite: Any):
    trainer = trained(classifier())
    says = rf"'softmax_label' holds {label:g} as element 7 of batch 1 of epoch 0.*'softmax'.*from 0 to 1"
    with pytest.raises(TrainingError, match=f"{says}.*check_labels=False"):
        trainer.fit(labelled(label), 1, progress=False, check_finite=check_finite)
    if check_finite == "step":
        assert int(trainer.require_state().step) == 1  # the step with the wrong label is undone


def test_labels_are_let_be_when_asked():
    trained(classifier()).fit(labelled(7.0), 1, progress=False, check_labels=False)


def test_the_ignored_label_is_no_mistake():
    scores = sym.FullyConnected(sym.Variable("data"), num_hidden=2, name="fc")
    net = sym.SoftmaxOutput(scores, use_ignore=True, ignore_label=-1, name="softmax")
    trained(net).fit(labelled(-1.0), 1, progress=False)
    with pytest.raises(TrainingError, match="holds -2"):
        trained(net).fit(labelled(-2.0), 1, progress=False)


@pytest.mark.slow("compiles")
def test_a_batch_on_the_device_is_looked_at_too():
    with pytest.raises(TrainingError, match="holds 5 as element 7"):
        trained(classifier()).fit(jax.device_put(labelled(5.0)), 1, progress=False)


def numbered(symbol: sym.Symbol, **shapes: tuple[int, ...]) -> list[Numbered | None]:
    return ClassNumbers(symbol, shapes).of_batch(shapes)


def test_who_numbers_what():
    data, label = sym.Variable("data"), sym.Variable("label")
    embedded = sym.Embedding(sym.cast(data, dtype="int32"), input_dim=11, output_dim=2, name="words")
    assert numbered(embedded, data=(2, 3)) == [Numbered("data", "words", "Embedding", 11, None)]
    pixels = sym.SoftmaxOutput(data, label, multi_output=True, use_ignore=True, ignore_label=255, name="pixels")
    expected = [Numbered("label", "pixels", "SoftmaxOutput", 7, 255.0)]
    assert numbered(pixels, data=(2, 7, 4, 4), label=(2, 4, 4)) == expected
    picked = sym.pick(data, sym.reshape(label, shape=(-1,)), axis=1, name="picked")
    assert numbered(picked, data=(4, 6), label=(4, 1)) == [Numbered("label", "picked", "pick", 6, None)]
    one_hot = sym.one_hot(label, depth=9, name="one")
    assert numbered(one_hot, label=(4,)) == [Numbered("label", "one", "one_hot", 9, None)]


def test_what_numbers_nothing():
    data, label = sym.Variable("data"), sym.Variable("label")
    soft = sym.SoftmaxOutput(data, label, name="soft")
    assert numbered(soft, data=(4, 3), label=(4, 3)) == [None]  # probabilities
    assert numbered(sym.pick(data, label, mode="wrap"), data=(4, 3), label=(4,)) == [None]
    assert numbered(sym.SoftmaxOutput(data, label + 1), data=(4, 3), label=(4,)) == []  # another value is read
    assert numbered(sym.LinearRegressionOutput(data, label), data=(4, 3), label=(4, 3)) == []


@pytest.mark.slow("computes much")
def test_bytes_and_booleans_can_number():
    row = Numbered("label", "softmax", "SoftmaxOutput", 200, None)
    wrong, place, value = first_outside(row, jnp.array([3, 250, 201], jnp.uint8))
    assert (bool(wrong), int(place), float(value)) == (True, 1, 250)
    assert not first_outside(row, jnp.array([True, False]))[0]


# -- predictions -------------------------------------------------------------------------------------------------------


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("what", ["predict", "evaluate"])
def test_outputs_that_are_not_finite_are_told_with_sample_and_node(what: str):
    trainer = trained(classifier())
    batch = points(40)
    batch["data"][[29, 33], 1] = np.nan
    says = rf"{what}: output 'softmax_output' is NaN or infinite for sample 29, and for 1 more, of 40.*\n.*\n.*'data'"
    with pytest.warns(NonFiniteWarning, match=says) as seen:
        getattr(trainer, what)(Batches(batch, 8))
    assert seen[0].filename == __file__


@pytest.mark.slow("compiles")
def test_the_node_where_it_begins_is_named():
    net = sym.FullyConnected(sym.log(sym.Variable("data"), name="logarithm"), num_hidden=2, name="fc")
    trainer = trained(sym.SoftmaxOutput(net, name="softmax"))
    with pytest.warns(NonFiniteWarning, match=r"'log', output 0 of node 'logarithm': 1 NaN"):
        trainer.predict(np.array([[1.0, -1.0, 1.0]], np.float32))


def test_finite_predictions_are_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trained(classifier()).predict(Batches(points(40), 8))


# -- frozen statistics -------------------------------------------------------------------------------------------------


def states_after_a_step(
    frozen: Sequence[str] = ("conv_*", "bn_*"), **options: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    net = convolutional()
    trainer = Trainer(net, "sgd", {"learning_rate": 0.1}, wrt=nn.freeze(net, frozen), **options)
    before = values(trainer.init(0, data=(8, 1, 6, 6)).aux)
    trainer.step(images())
    assert "use_global_stats" not in trainer.symbol.tojson()  # what is exported is what was given
    return before, values(trainer.require_state().aux)


def test_statistics_of_frozen_layers_stay_when_asked():
    before, after = states_after_a_step(frozen_statistics=True)
    for name in before:
        assert np.array_equal(before[name], after[name])


def test_statistics_of_frozen_layers_follow_what_is_trained_below_them():  # as in MXNet
    for frozen, moves in ((["conv_*", "bn_*"], False), (["bn_*"], True)):
        before, after = states_after_a_step(frozen)
        assert np.array_equal(before["bn_moving_mean"], after["bn_moving_mean"]) != moves


def test_batch_norms_that_are_trained_cannot_have_frozen_statistics():
    with pytest.raises(SymbolValueError, match=r"\['bn'\].*symjax_nnvm.freeze"):
        Trainer(convolutional(), "sgd", frozen_statistics=True)


# -- texts -------------------------------------------------------------------------------------------------------------


def test_what_events_and_states_print_is_short():
    event = StepEvent(2, 3, 40, [jnp.zeros((64, 10)), jnp.zeros((), jnp.int32)])
    assert repr(event) == "StepEvent(epoch=2, batch=3, step=40, outputs=[float32[64,10], int32[]])"
    assert repr(trained(classifier()).state).startswith("<TrainState: 4 params, 0 frozen, 0 aux")


def test_epochs_count_from_zero_everywhere(capsys: pytest.CaptureFixture[str]):
    history = trained(classifier()).fit([points(8)], 3, begin_epoch=1)
    assert [record.epoch for record in history.epochs] == [1, 2]
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("  ")[0] for line in lines] == ["epoch 1 (2 of 3)", "epoch 2 (3 of 3)"]
    assert str(History([EpochRecord(0, 1, 0.0, {"loss": 1.0})])) == "epoch 0: loss 1"


@pytest.mark.parametrize("is_consumed", [False, True])
def test_a_step_without_memory_keeps_the_state_or_says_that_it_is_lost(
    is_consumed: bool, monkeypatch: pytest.MonkeyPatch
):
    trainer = Trainer(classifier())
    trainer.init(0, data=(4, 2))
    state = trainer.state

    def step(state: Any, _: Any) -> None:
        if is_consumed:
            state.step.delete()
        raise OutOfMemoryError("The program needs more memory than there is")

    monkeypatch.setattr(trainer, "_step", step)
    batch = {"data": np.zeros((4, 2), "float32"), "softmax_label": np.zeros(4, "float32")}
    with pytest.raises(OutOfMemoryError, match="more memory than there is" + ".*is lost.*init" * is_consumed):
        trainer.step(batch)
    assert trainer.state is (None if is_consumed else state)


def test_a_batch_of_mx_is_told():
    batch: Any = mx.io.DataBatch([mx.nd.ones((8, 3))], [mx.nd.zeros(8)])
    trainer = trained(classifier())
    for use in (trainer.step, lambda batch: trainer.fit([batch], 1, progress=False)):
        with pytest.raises(TrainingError, match=r"a batch of an iterator of mx.io; .*mx.mod.Module.fit"):
            use(batch)
