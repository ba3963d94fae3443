"""A save that fails is one clear error, and the process goes on or ends; a directory belongs to one run at a time."""

import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jax
import numpy as np
import pytest

import lowering
from lowering.training.run_lock import RunLock
from symjax_nnvm.errors import CheckpointError
from tests.lowering.training.failing_saves import data, full_disk, made_trainer
from tests.lowering.training.interrupted_run import steps_saved

# Of a broken checkpoint, or after a write that failed, Orbax closes its event loop while other readers and writers are
# still at work, who then complain: from its own threads, at any time after.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

ROOT = Path(__file__).parents[3]


@contextmanager
def process(*words: object) -> Iterator[subprocess.Popen[str]]:
    env = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-m", "tests.lowering.training.failing_saves", *map(str, words)]
    started = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


@pytest.mark.nightly("starts processes")
def test_a_folder_that_became_read_only_ends_the_process_with_one_error(tmp_path: Path):
    """And a save of a process that ends is finished before."""
    folder, other = tmp_path / "run", tmp_path / "other"
    with process("read_only", folder, other) as run:
        out, err = run.communicate(timeout=120)
    if "by a mount" in out:
        subprocess.run(["umount", str(folder)], check=True)
    assert run.returncode == 1
    last = err.splitlines()[-1]
    assert f"CheckpointError: The checkpoint of step 8 could not be written to {folder}: " in last
    assert "Read-only file system" in last or "Permission denied" in last
    assert "Those of steps 4 are intact" in last
    assert "ERROR:absl" not in err
    assert err.count("Traceback") <= 2  # the error and its cause
    assert steps_saved(other) == [1]


@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_full_disk_is_told_once_and_leaves_no_switches(
    tmp_path: Path, asynchronous: bool, capfd: pytest.CaptureFixture[str]
):
    hook, filters = sys.unraisablehook, list(logging.getLogger("absl").filters)
    ours = made_trainer()
    with lowering.Checkpoints(tmp_path, asynchronous=asynchronous) as checkpoints:
        checkpoints.save(1, ours.require_state(), {})
        checkpoints.wait()
        with full_disk(), pytest.raises(CheckpointError) as raised:  # noqa: PT012
            checkpoints.save(2, ours.require_state(), {})
            checkpoints.wait()
    assert str(raised.value) == (
        f"The checkpoint of step 2 could not be written to {tmp_path}: File too large. Those of steps 1 are intact. "
        "The state in memory is intact too: make room, or make the directory writable, and save again."
    )
    assert capfd.readouterr().err == ""
    assert sys.unraisablehook is hook
    assert logging.getLogger("absl").filters == filters


@pytest.mark.slow("starts processes")
def test_a_second_run_is_told_who_writes_there_and_a_killed_one_keeps_nobody_out(tmp_path: Path):
    with process("hold", tmp_path) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "holding\n"
        checkpoints = lowering.Checkpoints(tmp_path)
        with pytest.raises(CheckpointError) as raised:
            made_trainer().fit(data(), 1, checkpoints=checkpoints, progress=False)
        with pytest.raises(CheckpointError, match="Another run is writing to"):
            checkpoints.save(3, made_trainer().require_state(), {})
        told = str(raised.value)
        for part in (f"process {run.pid}", f"host {socket.gethostname()}", "network softmax_output", "parameters 18",
                     "seed 7", "Give this run a directory of its own"):  # fmt: skip
            assert part in told
        assert checkpoints.latest() == 4  # a process that only reads may do so,
        assert (tmp_path / "9.orbax-checkpoint-tmp").exists()  # and removes nothing that may be being written
        run.send_signal(signal.SIGKILL)
        run.wait()
    again = made_trainer()
    again.fit(data(), 2, checkpoints=lowering.Checkpoints(tmp_path, every=100), progress=False)
    assert int(again.require_state().step) == 8
    assert not (tmp_path / "9.orbax-checkpoint-tmp").exists()


def test_two_objects_of_one_process_take_turns(tmp_path: Path):
    first, second = lowering.Checkpoints(tmp_path), lowering.Checkpoints(tmp_path)
    state = made_trainer().require_state()
    first.save(1, state, {})
    with pytest.raises(CheckpointError, match=r"It runs in this process: call close\(\) of the other Checkpoints"):
        second.save(2, state, {})
    first.close()
    second.save(2, state, {})
    second.close()
    assert steps_saved(tmp_path) == [1, 2]


@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_lock_is_not_kept_by_forks_and_goes_with_its_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    first, second = RunLock(tmp_path), RunLock(tmp_path)
    first.take({"seed": 1})
    with pytest.raises(CheckpointError, match="seed 1"):
        second.take({})
    with monkeypatch.context() as in_a_fork:
        in_a_fork.setattr(os, "getpid", lambda: 1)
        assert not first.held
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    del first
    second.take({"seed": 2})
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    second.let_go()


def test_a_lock_file_of_nonsense_is_no_obstacle(tmp_path: Path):
    (tmp_path / "run.lock").write_bytes(b"\xff" * 10_000)
    lock = RunLock(tmp_path)
    lock.take({"network": "x" * 10_000})
    lock.let_go()
    os.remove(tmp_path / "run.lock")
    (tmp_path / "run.lock").mkdir()
    with pytest.raises(CheckpointError, match="cannot be written to: Is a directory"):
        lowering.Checkpoints(tmp_path).save(1, made_trainer().require_state(), {})


@pytest.mark.slow("computes much")
def test_a_step_that_is_saved_again_is_there_all_the_time(tmp_path: Path):
    state = made_trainer().require_state()
    with lowering.Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(5, state, {"at": "first"})
        checkpoints.wait()
        with full_disk(), pytest.raises(CheckpointError, match="Those of steps 5 are intact"):  # noqa: PT012
            checkpoints.save(5, state, {"at": "second"})
            checkpoints.wait()
        assert (checkpoints.restore() or ((), None))[1] == {"at": "first"}
        checkpoints.save(5, state, {"at": "third"})
        assert (checkpoints.restore() or ((), None))[1] == {"at": "third"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["5", "run.lock"]
    (tmp_path / "5").rename(tmp_path / "5.replaced")  # a process that was killed while it replaced it
    with lowering.Checkpoints(tmp_path) as checkpoints:
        restored = checkpoints.restore()
    assert restored is not None
    assert restored[1] == {"at": "third"}
    jax.tree.map(np.testing.assert_array_equal, restored[0].params, state.params)
