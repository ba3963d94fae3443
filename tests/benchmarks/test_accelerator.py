"""The sides of `benchmarks/accelerator.py` compute the same, and it runs with small networks."""

from __future__ import annotations

import time
from typing import Any

import jax
import numpy as np
import pytest

from benchmarks import accelerator
from benchmarks.accelerator_rows import Work
from benchmarks.contenders import Failed, in_process, measured
from tests.support import ladder


def values(work: Work, outputs: object) -> np.ndarray:
    """Predictions, ours as by hand; or all values that a step changes, in a sum that does not depend on their order."""
    arrays = [np.asarray(array, np.float64) for array in jax.tree.leaves(outputs)]
    return np.array([sum(float(np.square(array).sum()) for array in arrays)]) if work.training else arrays[0]


@pytest.mark.nightly("compiles networks")
@pytest.mark.parametrize(
    "work",
    # An LSTM by hand has one bias where the operator has two, and the step is another.
    [Work("resnet50", 1), Work("lstm", 32), Work("transformer4", 8, training=True), Work("resnet50", 64, True)],
    ids=lambda work: work.label,
)
def test_both_sides_compute_the_same(work: Work):
    by_hand: Any = accelerator.jax_by_hand(work, True)()
    if work.network == "resnet50" and not work.training:
        by_hand = jax.numpy.exp(by_hand)
    if work.training:
        by_hand = {name: array for name, array in by_hand[0].items() if "moving" not in name}
    np.testing.assert_allclose(
        values(work, accelerator.ours(work, True)()), values(work, by_hand), rtol=1e-3, atol=1e-6
    )


def test_a_call_is_measured_while_it_waits_and_in_a_row():
    events: list[str] = []
    loaded = measured(lambda: lambda: events.append("call"), lambda _: events.append("wait"), 0.0)
    assert set(loaded.facts) == {"in_a_row", "host"}
    assert events == ["call", "wait"] * 4
    loaded.call()
    assert events == ["call", "wait"] * 5


@pytest.mark.slow("compiles")
def test_goldens_that_differ_are_told(monkeypatch: pytest.MonkeyPatch):
    ends = time.perf_counter() + 60
    done, count, failures = accelerator.goldens(ends, ("add_n",))
    assert (done, failures) == (count, [])
    plain = ladder.golden
    monkeypatch.setattr(ladder, "golden", lambda *case: {name: array + 1 for name, array in plain(*case).items()})
    _, _, failures = accelerator.goldens(ends, ("add_n",))
    assert len(failures) >= count > 0
    assert accelerator.goldens(0.0, ("add_n",)) == (0, count, [])


class InProcess:
    """A side of this process in place of a child."""

    def __enter__(self) -> InProcess:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def load(self, **what: Any) -> dict[str, float]:
        if what["work"] == Work("bert", 1):
            raise Failed("no memory")
        self.loaded = accelerator.loaded(**what)
        return {"seconds": 0.5, **self.loaded.facts}

    def time(self, seconds: float) -> list[float]:
        return in_process(self.loaded.call)(seconds)


@pytest.mark.slow("compiles networks")
def test_the_script_prints_every_side_of_its_rows_and_the_goldens(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(accelerator.Contender, "worker", lambda *_: InProcess())
    accelerator.main(minutes=2.0, only=("lstm-b32-float32", "bert-b1"), small=True)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    of_lstm, of_bert = ([line[1:] for line in lines if line[0] == f"{row}-float32"] for row in ("lstm-b32", "bert-b1"))
    assert [line[0] for line in of_lstm][:2] == ["ours", "JAX"]
    assert [len(line) for line in of_lstm][:2] == [7, 7]  # two ratios; a name of three words
    assert of_bert[0] == ["ours:", "no", "memory"]
    assert lines[-1][:3] == ["goldens:", "0", "of"]
