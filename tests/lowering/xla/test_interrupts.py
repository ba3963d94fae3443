"""An interrupt does not come between a program that writes in the arrays it is given and what holds its results."""

import signal
from collections.abc import Iterator
from contextlib import nullcontext

import numpy as np
import pytest

import lowering
from lowering.xla import compile_options
from lowering.xla.interrupts import Held, hold_interrupts
from tests.lowering.training.networks import classifier


@pytest.fixture(autouse=True)
def as_in_a_terminal() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background ignores it
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("held", "interrupts", "ends"), [(True, 1, True), (False, 1, False), (True, 2, False), (True, 0, True)]
)
def test_an_interrupt_waits_for_the_end_of_a_block_once_it_is_held(held: bool, interrupts: int, ends: bool):
    ended: list[bool] = []

    def block() -> None:
        with Held():
            if held:
                hold_interrupts()
            for _ in range(interrupts):
                signal.raise_signal(signal.SIGINT)
            ended.append(True)

    with pytest.raises(KeyboardInterrupt) if interrupts else nullcontext():
        block()
    assert bool(ended) == ends
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.slow("compiles")
def test_an_interrupted_step_leaves_a_state_that_is_there(monkeypatch: pytest.MonkeyPatch):
    trainer = lowering.Trainer(classifier(), "adam", effort="full", lanes="off")
    trainer.init(0, data=(4, 3))
    batch = {"data": np.ones((4, 3), "f"), "softmax_label": np.zeros(4, "f")}
    trainer.step(batch)
    run = compile_options.Jitted._run

    def interrupted(*args: object) -> object:
        results = run(*args)  # pyright: ignore
        signal.raise_signal(signal.SIGINT)
        return results

    with monkeypatch.context() as patch:
        patch.setattr(compile_options.Jitted, "_run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            trainer.step(batch)
    assert int(trainer.require_state().step) == 2
    trainer.step(batch)
    assert int(trainer.require_state().step) == 3
