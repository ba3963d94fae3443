"""Training by several processes over gloo: equal numbers, faults, and going on after them."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowering
from symjax_nnvm import load_checkpoint
from tests.lowering.training import processes
from tests.lowering.training.mesh_networks import mlp

ROOT = Path(__file__).parents[3]

pytestmark = [
    pytest.mark.slow("starts processes"),
    pytest.mark.xdist_group("processes"),  # two runs serve them all
    pytest.mark.skipif(sys.platform == "win32", reason="processes are killed by signals"),
]


class Ended:
    """How a process ended: its exit code, what it found, and what it said besides."""

    def __init__(self, process: subprocess.Popen[str], seconds: float):
        out, self.errors = process.communicate()
        self.seconds, self.code = seconds, process.returncode
        self.found = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        self.shown = [line for line in out.splitlines() if line.startswith("epoch")]


def run(count: int, scenario: str, folder: Path, patience: float = 90) -> list[Ended]:
    """Processes of one run, to their ends; one that goes on for longer after the first has ended fails."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    environment = {name: value for name, value in os.environ.items() if name != "JAX_NUM_CPU_DEVICES"}
    command = [sys.executable, "-m", "tests.lowering.training.processes"]
    started = [
        subprocess.Popen(
            [*command, str(i), str(count), str(port), scenario, str(folder)],
            cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for i in range(count)
    ]  # fmt: skip
    first_end: float | None = None
    seconds = [0.0] * count
    try:
        while any(process.poll() is None for process in started):
            now = time.monotonic()
            ended = [process.poll() is not None for process in started]
            first_end = now if first_end is None and any(ended) else first_end
            if first_end is not None:
                seconds = [before if done else now - first_end for before, done in zip(seconds, ended, strict=True)]
                assert now - first_end < patience, "a process waits for one that has ended"
            time.sleep(0.1)
    finally:
        for process in started:
            process.kill()
    return [Ended(process, after) for process, after in zip(started, seconds, strict=True)]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Ended], Path]:
    pytest.importorskip("orbax.checkpoint")
    folder = tmp_path_factory.mktemp("killed")
    return run(4, "undisturbed", folder), folder


@pytest.fixture(scope="module")
def one_of_two_killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Ended], Path]:
    pytest.importorskip("orbax.checkpoint")
    folder = tmp_path_factory.mktemp("one_of_two")
    return run(2, "killed", folder), folder


@pytest.fixture(scope="module")
def resumed(killed: tuple[list[Ended], Path]) -> list[Ended]:
    _, folder = killed
    shutil.copytree(folder, folder.with_name("again"))
    return run(4, "resumed", folder.with_name("again"))


LOSES_ONE = pytest.mark.nightly("starts processes of which one is lost; test_team.py has the rules")


@LOSES_ONE
@pytest.mark.parametrize(("lost", "of"), [(1, "one_of_two_killed"), (processes.LOST, "killed"), (0, "resumed")])
def test_the_others_end_and_name_the_lost_one(lost: int, of: str, request: pytest.FixtureRequest) -> None:
    given = request.getfixturevalue(of)
    ended: list[Ended] = given if of == "resumed" else given[0]
    assert [process.code for process in ended] == [1 if i != lost else -9 for i in range(len(ended))]
    for i, process in enumerate(ended):
        if i != lost:
            lines = process.errors.splitlines()  # JAX's threads may print lines while the process ends
            assert len(lines) < 40, process.errors
            told = [line for line in lines if f"TrainingError: Lost process {lost} (pid " in line]
            assert told, process.errors
            assert "go on" in told[0] or "goes on" in told[0]
            assert process.seconds < 60


@pytest.mark.nightly("another moment at which a process is lost")
def test_who_waits_for_a_part_of_a_checkpoint_is_told_within_two_minutes(tmp_path: Path) -> None:
    """One is killed while the last checkpoint is written: the others wait in no collective operation."""
    pytest.importorskip("orbax.checkpoint")
    ended = run(3, "saving", tmp_path / "last", patience=120)
    assert [process.code for process in ended] == [3, -9, 3]
    for process in (ended[0], ended[2]):
        _check_raised(process)


@pytest.mark.nightly("another moment at which a process is lost")
def test_a_process_whose_operation_does_not_fail_prints_the_error(tmp_path: Path) -> None:
    pytest.importorskip("orbax.checkpoint")
    ended = run(3, "saving", tmp_path / "hung", patience=120)
    assert [process.code for process in ended[1:]] == [-9, 4]
    assert not ended[2].found
    _check_printed(ended[2])
    if ended[0].found:
        _check_raised(ended[0])
    else:  # its own operation with the lost process waited, too
        _check_printed(ended[0])


def _check_raised(process: Ended) -> None:
    assert process.found[0]["raised"] == "TrainingError"
    assert process.found[0]["message"].startswith("Lost process 1 (pid ")


def _check_printed(process: Ended) -> None:
    assert "TrainingError: Lost process 1 (pid " in process.errors, process.errors


@LOSES_ONE
def test_started_again_it_ends_with_the_bits_of_an_undisturbed_run(
    killed: tuple[list[Ended], Path], resumed: list[Ended]
) -> None:
    for before, after in zip(killed[0], resumed, strict=True):
        assert after.found[-1] == before.found[0]


@pytest.mark.nightly("two more processes")
def test_two_processes_go_on_where_four_were(killed: tuple[list[Ended], Path], tmp_path: Path) -> None:
    ended, folder = killed
    shutil.copytree(folder, tmp_path / "resumed")
    two = run(2, "small", tmp_path)
    assert [process.code for process in two] == [143, 143]
    wanted, (first, second) = ended[0].found[0]["losses"], [process.found for process in two]
    np.testing.assert_allclose(first[0]["losses"], wanted, rtol=1e-6)
    assert first[0]["losses"] == second[0]["losses"]
    # Batches of their own: those of epoch 0 are the same rows, cut by each.
    np.testing.assert_allclose(first[1]["losses"], wanted[:1], rtol=1e-6)
    assert "SIGTERM: the run ends at step" in two[0].errors
    assert "Lost process" not in two[1].errors  # process 0 took its leave
    assert lowering.Checkpoints(tmp_path / "preempted").latest() is not None
    assert two[0].shown
    assert not two[1].shown
    _check_whole(first[2], second[2], tmp_path)
    # Modules with kvstore="dist_sync": the rows of both, from the first one's weights.
    assert first[3] == second[3]
    np.testing.assert_allclose(first[3]["module"], processes.by_module(slice(0, 8)), rtol=1e-5)


def _check_whole(first: dict[str, Any], second: dict[str, Any], folder: Path) -> None:
    """What two processes predict of all rows is what the exported network does here."""
    assert first == second
    args, aux = load_checkpoint(folder / "exported", 1)[1:]
    alone = lowering.Trainer(mlp("float32"))
    alone.init(0, args, aux, data=(8, 12))
    padded = processes.data(last="pad")
    np.testing.assert_allclose(first["predicted"], alone.predict(padded)[0], rtol=1e-5, atol=1e-6)
    assert first["evaluated"] == pytest.approx(alone.evaluate(padded, ["accuracy"]))
