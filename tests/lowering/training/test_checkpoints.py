"""Checkpoints: what is saved comes back bit for bit, whatever happens in between."""

# Some calls are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import os
import signal
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import lowering
from lowering.training import StepEvent
from lowering.training.state import TrainState
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import CheckpointError, MissingExtraError
from tests.lowering.training.failing_saves import full_disk
from tests.lowering.training.interrupted_run import kill_many_times, steps_saved, train

# Of a broken checkpoint, or after a write that failed, Orbax closes its event loop while other readers and writers are
# still at work, who then complain: from its own threads, at any time after.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def network(hidden: int = 3, extra: bool = False) -> sym.Symbol:
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=hidden, name="fc1")
    if extra:
        net = sym.BatchNorm(net, name="bn")
    return sym.SoftmaxOutput(sym.FullyConnected(net, num_hidden=2, name="fc2"), name="softmax")


def trainer(optimizer: object = "adam", **kwargs) -> lowering.Trainer:
    made = lowering.Trainer(network(**kwargs), optimizer)
    made.init(0, data=(4, 5))
    return made


def batches(count: int = 6) -> lowering.Batches:
    data = np.random.RandomState(0).standard_normal((4 * count, 5)).astype(np.float32)
    return lowering.Batches({"data": data, "softmax_label": (data[:, 0] > 0).astype(np.float32)}, 4)


def assert_same(ours: TrainState, theirs: TrainState) -> None:
    def plain(state: TrainState) -> TrainState:
        return jax.tree.map(lambda x: jax.random.key_data(x) if x.dtype == state.key.dtype else x, state)

    jax.tree.map(np.testing.assert_array_equal, plain(ours), plain(theirs))
    jax.tree.map(lambda a, b: a.dtype == b.dtype or pytest.fail(f"{a.dtype} {b.dtype}"), ours, theirs)


SERIES = [
    pytest.param(2, 10, marks=pytest.mark.slow("starts processes")),
    pytest.param(20, 100, marks=pytest.mark.nightly("a longer series of the same")),
]


@pytest.mark.nightly("kills processes")
@pytest.mark.parametrize(("kills", "epochs"), SERIES)
def test_a_run_killed_many_times_ends_with_the_same_bits(kills: int, epochs: int, tmp_path: Path):
    log, different = kill_many_times(kills=kills, epochs=epochs, folder=tmp_path, seed=0)
    print("\n".join(log))
    assert not different
    assert sum("ended by -9" in line for line in log) == kills
    assert kills < 20 or any("during a save" in line for line in log)
    assert "exit code 0" in log[-1]


@pytest.mark.nightly("compiles")
@pytest.mark.usefixtures("compiled_fully")
def test_an_interruption_in_the_middle_of_an_epoch_leaves_no_trace(tmp_path: Path):
    expected = train(2, None, 1)

    class Interrupt:
        def on_step_end(self, trainer: lowering.Trainer, event: lowering.training.StepEvent) -> None:
            if event.step == 17:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(2, tmp_path, 5, callbacks=[Interrupt()])
    found = train(2, tmp_path, 5)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.nightly("every optimiser", but_one_in=2)
@pytest.mark.slow("has many cases")
@pytest.mark.parametrize("optimizer", ["sgd", "adam", optax.adamw(1e-3)], ids=["sgd", "adam", "optax"])
@pytest.mark.parametrize("asynchronous", [True, False])
def test_state_and_position_come_back(tmp_path: Path, optimizer: object, asynchronous: bool):
    ours = trainer(optimizer, extra=True)
    ours.fit(batches(), 1, progress=False)
    before = jax.tree.map(jnp.copy, ours.require_state())
    position = {"epoch": 1, "batch": 2, "metrics": [0.1, float("nan")]}
    with lowering.Checkpoints(tmp_path / "run", asynchronous=asynchronous) as checkpoints:
        checkpoints.save(6, ours.require_state(), position)
        ours.fit(batches(), 3, progress=False)  # donates what is being saved
        restored = checkpoints.restore(trainer(optimizer, extra=True).require_state())
    assert restored is not None
    assert_same(restored[0], before)
    assert repr(restored[1]) == repr(position)


@pytest.mark.slow("computes much")
def test_without_a_model_the_parameters_come_back_by_name(tmp_path: Path):
    ours = trainer("adam")
    with lowering.Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(0, ours.require_state(), {})
        state, _ = checkpoints.restore() or pytest.fail("nothing there")
    jax.tree.map(np.testing.assert_array_equal, state.params, ours.require_state().params)
    assert state.key == ours.require_state().key
    assert "['slots']['fc1_weight'][1]" in state.opt_state


def test_arrays_come_to_where_those_of_the_model_are_and_keys_as_keys(tmp_path: Path):
    """Optax has keys in its state where it adds noise to gradients."""
    key = jax.random.key(3)

    def state(axis: str) -> TrainState:
        where = jax.sharding.NamedSharding(jax.make_mesh((1,), (axis,)), jax.P(axis))
        weight = jax.device_put(np.arange(4, dtype=np.float32), where)
        return TrainState({"weight": weight}, {}, {}, {"noise": key}, jax.random.key(5), jnp.asarray(2))

    with lowering.Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(2, state("data"), {})
        restored, _ = checkpoints.restore(state("model")) or pytest.fail("nothing there")
    assert restored.params["weight"].sharding == state("model").params["weight"].sharding
    assert restored.opt_state["noise"] == key
    assert restored.key == state("data").key


@pytest.mark.slow("computes much")
def test_the_newest_are_kept(tmp_path: Path):
    with lowering.Checkpoints(tmp_path, keep=2) as checkpoints:
        assert checkpoints.latest() is None
        assert checkpoints.restore() is None
        for step in (1, 2, 30, 4):
            checkpoints.save(step, trainer().require_state(), {"at": step})
        checkpoints.save(30, trainer().require_state(), {"at": "again"})
        assert checkpoints.latest() == 30
        assert (checkpoints.restore() or [None, None])[1] == {"at": "again"}
    assert len(steps_saved(tmp_path)) == 2


@pytest.mark.slow("compiles")
def test_a_finished_run_is_not_run_again(tmp_path: Path):
    first, again = trainer(), trainer()
    history = first.fit(batches(), 2, checkpoints=lowering.Checkpoints(tmp_path), progress=False)
    same = again.fit(batches(), 2, checkpoints=lowering.Checkpoints(tmp_path), progress=False)
    assert_same(again.require_state(), first.require_state())
    assert same["accuracy"] == history["accuracy"]
    assert steps_saved(tmp_path) == [12]


@pytest.mark.slow("compiles")
def test_a_full_disk_leaves_older_checkpoints_and_training_goes_on(tmp_path: Path):
    ours = trainer()
    checkpoints = lowering.Checkpoints(tmp_path, every=4, asynchronous=True)
    ours.fit(batches(), 1, checkpoints=checkpoints, progress=False)
    assert steps_saved(tmp_path) == [4, 6]
    message = "step (8|12) could not be written.*File too large.*Those of steps 4, 6 are intact.*make room"
    with full_disk(), pytest.warns(UserWarning, match=message) as told, pytest.raises(CheckpointError, match="step 12"):
        ours.fit(batches(), 2, checkpoints=checkpoints, progress=False)
    assert "step 8" in str(told[0].message)
    assert int(ours.require_state().step) == 12
    assert checkpoints.latest() == 6
    checkpoints.save(12, ours.require_state(), {})
    assert checkpoints.latest() == 12
    assert steps_saved(tmp_path) == [4, 6, 12]


@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_save_that_fails_is_an_error(tmp_path: Path, asynchronous: bool):
    checkpoints = lowering.Checkpoints(tmp_path, asynchronous=asynchronous)
    with full_disk(), pytest.raises(CheckpointError, match="step 3 could not be written.*no older one"):  # noqa: PT012
        checkpoints.save(3, trainer().require_state(), {})
        checkpoints.wait()
    assert checkpoints.latest() is None


def test_a_checkpoint_of_another_model_lists_the_differences(tmp_path: Path):
    with lowering.Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(5, trainer("adam").require_state(), {})
        with pytest.raises(CheckpointError) as raised:
            checkpoints.restore(trainer("sgd", hidden=4, extra=True).require_state())
    told = str(raised.value)
    assert "belongs to another model or optimiser" in told
    assert "missing in the checkpoint (4):\n    aux.bn_moving_mean float32(4,)\n" in told
    assert "opt_state.['slots']['fc1_weight'][0] float32(3, 5)\n" in told
    assert "params.fc1_weight: (3, 5) stored, (4, 5) needed" in told


def test_another_dtype_is_a_difference(tmp_path: Path):
    state = trainer().require_state()
    half = TrainState({n: v.astype("float16") for n, v in state.params.items()}, state.frozen, state.aux,
                      state.opt_state, state.key, state.step)  # fmt: skip
    with lowering.Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(5, half, {})
        with pytest.raises(CheckpointError, match="another dtype.*\n.*fc1_bias: float16 stored, float32 needed"):
            checkpoints.restore(state)


class Preempted:
    """Sends SIGTERM to its own process after a step."""

    def on_step_end(self, trainer: lowering.Trainer, event: StepEvent) -> None:
        if (event.epoch, event.step) == (0, 3):
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.slow("compiles")
@pytest.mark.usefixtures("compiled_fully")
def test_sigterm_saves_and_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    whole = trainer()
    whole.fit(batches(), 2, progress=False)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as ended, lowering.Checkpoints(tmp_path) as checkpoints:
        trainer().fit(batches(), 2, callbacks=[Preempted()], checkpoints=checkpoints, progress=False)
    assert ended.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is before
    assert f"SIGTERM: the run ends at step 3, saved in {tmp_path}" in capsys.readouterr().err
    resumed = trainer()
    with lowering.Checkpoints(tmp_path) as checkpoints:
        resumed.fit(batches(), 2, checkpoints=checkpoints, progress=False)
    assert_same(resumed.require_state(), whole.require_state())


@pytest.mark.parametrize("broken", ["about/metadata", "state/manifest.ocdbt"])
def test_a_broken_checkpoint_says_where_it_is(tmp_path: Path, broken: str):
    state = trainer().require_state()
    with lowering.Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(5, state, {})
        checkpoints.wait()
        (tmp_path / "5" / broken).write_bytes(b"{")
        with pytest.raises(CheckpointError, match=f"{tmp_path}/5 cannot be read.*Remove that directory"):
            checkpoints.restore(state)


def test_wrong_use_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(CheckpointError, match="parameter 'keep'; expected 1 or more; got '0'|got 0"):
        lowering.Checkpoints(tmp_path, keep=0)
    with pytest.raises(CheckpointError, match="'every'"):
        lowering.Checkpoints(tmp_path, every=1.5)
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="file cannot be used for checkpoints"):
        lowering.Checkpoints(tmp_path / "file")
    monkeypatch.setitem(sys.modules, "orbax.checkpoint", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'symjax-nnvm\[checkpoints\]'"):
        lowering.Checkpoints(tmp_path)
