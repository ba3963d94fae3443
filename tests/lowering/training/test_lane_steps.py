"""Steps in lanes: each core computes samples of its own, and the results are those of the whole batch."""

# Some calls are wrong on purpose.
# pyright: reportArgumentType=false

from __future__ import annotations

import gc
import signal
import threading
from typing import Any

import numpy as np
import pytest

from lowering import Trainer
from lowering.lanes.lanes import Lanes
from symjax_nnvm import TrainingError
from symjax_nnvm import symbol as sym
from tests.lowering.training.networks import classifier, convolutional, images, points, values

pytestmark = pytest.mark.usefixtures("compiled_fully")


def branched() -> sym.Symbol:
    """Two heads over a batch norm with drawn zeros, one that counts the labels that are valid."""
    net = sym.Convolution(sym.Variable("data"), kernel=(3, 3), num_filter=4, pad=(1, 1), num_group=1, name="conv")
    net = sym.Dropout(sym.BatchNorm(net, fix_gamma=False, name="bn"), p=0.3, name="drop")
    net = sym.Pooling(sym.Activation(net, act_type="relu", name="relu"), kernel=(2, 2), stride=(2, 2), pool_type="max")
    net = sym.FullyConnected(net, num_hidden=2, name="fc")
    head = sym.SoftmaxOutput(net, normalization="valid", use_ignore=True, ignore_label=1, name="softmax")
    return sym.Group([head, sym.MakeLoss(sym.sum(sym.square(net)), grad_scale=0.1, name="loss"), sym.BlockGrad(net)])


def trained(net: sym.Symbol, batch: dict[str, np.ndarray], lanes: Any, steps: int = 2) -> tuple[Trainer, Any]:
    trainer = Trainer(net, optimizer_params={"learning_rate": 0.1, "momentum": 0.9}, lanes=lanes)
    trainer.init(0, data=batch["data"].shape)
    return trainer, [trainer.step(batch) for _ in range(steps)][-1]


@pytest.mark.slow("compiles networks for each lane")
def test_lanes_train_as_the_whole_does_and_repeat_every_bit():
    for net, batch, counts in (
        (branched(), images(), (2,)),
        (convolutional(), images(), (4,)),
        (classifier("batch"), points(6), (3,)),
    ):
        whole, expected = trained(net, batch, "off")
        for count in counts:
            ours, outputs = trained(net, batch, count)
            assert f"in {count} lanes" in ours.ways()[-1]
            for output, value in zip(outputs, expected, strict=True):
                np.testing.assert_allclose(output, value, rtol=1e-4, atol=1e-5)
            states = [trainer.require_state() for trainer in (ours, whole)]
            for group in ("params", "aux"):
                for name, value in getattr(states[0], group).items():
                    np.testing.assert_allclose(
                        value, getattr(states[1], group)[name], rtol=1e-4, atol=1e-5, err_msg=name
                    )
            again = values(trained(net, batch, count)[0].require_state().params)
            for name, value in values(states[0].params).items():
                np.testing.assert_array_equal(value, again[name])


@pytest.mark.slow("compiles")
def test_what_cannot_be_split_runs_as_the_whole_and_says_why():
    trainer, _ = trained(convolutional(), images(5), 2, steps=1)
    assert "not in lanes: 5 samples are not divided by 2" in trainer.ways()[-1]
    mixed = sym.MakeLoss(sym.sort(sym.FullyConnected(sym.Variable("data"), num_hidden=2), axis=0, name="by_sample"))
    trainer, _ = trained(mixed, {"data": points(4)["data"]}, 2, steps=1)
    assert trainer.ways()[-1].endswith("by_sample: sort mixes samples")
    trainer, _ = trained(classifier(), points(4), "auto", steps=1)
    assert "not in lanes" in trainer.ways()[-1]


@pytest.mark.slow("compiles")
def test_a_lane_that_fails_or_an_interrupt_ends_the_others(monkeypatch: pytest.MonkeyPatch):
    trainer, _ = trained(convolutional(), images(), 2, steps=1)
    assert trainer._lanes is not None
    [lanes] = trainer._lanes._lanes.values()
    assert isinstance(lanes, Lanes)
    lanes._programs[0], first = lambda *_: 1 / 0, lanes._programs[0]
    with pytest.raises(ZeroDivisionError):
        trainer.step(images())
    before = values(trainer.require_state().params)

    def interrupted(*_: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        lanes._meeting.barrier.wait()  # for ever, unless the call that was interrupted ends it

    lanes._programs[0] = interrupted
    with pytest.raises(KeyboardInterrupt):
        trainer.step(images())
    for name, value in values(trainer.require_state().params).items():
        np.testing.assert_array_equal(value, before[name])
    lanes._programs[0] = first
    assert np.isfinite(trainer.step(images())[0]).all()


@pytest.mark.slow("compiles")
def test_lanes_count_among_kept_programs_and_end_with_the_trainer():
    trainer, _ = trained(convolutional(), images(), 2, steps=1)
    assert trainer._lanes is not None
    [(key, kept)] = trainer._lanes._kept.items()
    assert kept.bytes > 2e6
    count = threading.active_count()
    kept.forget()
    assert key not in trainer._lanes._lanes
    trainer.step(images())
    assert "in 2 lanes" in trainer.ways()[-1]
    del trainer
    gc.collect()
    assert threading.active_count() <= count - 2


def test_a_wrong_number_of_lanes_is_told():
    for wrong in (0, -1, 1.5, "on", None):
        with pytest.raises(TrainingError, match="Wrong lanes"):
            Trainer(classifier(), lanes=wrong)
