"""What a process concludes from what others say, and how it waits for them; in one process, over a store of its own."""

import threading
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

import lowering
from lowering.training import fit, processes
from lowering.training.placing import on_host
from lowering.training.processes import SILENCE, Team, is_of_network, on_first, run_in_daemon
from symjax_nnvm.errors import CheckpointError, TrainingError
from tests.lowering.training.failing_saves import data, made_trainer

LOST = "UNAVAILABLE: another process failed"


class Store:
    """The coordinator's, as JAX's client gives it."""

    def __init__(self) -> None:
        self.rows: dict[str, str] = {}

    def key_value_set(self, key: str, value: str, allow_overwrite: bool = False) -> None:
        self.rows[key] = value

    def key_value_dir_get(self, prefix: str) -> list[tuple[str, str]]:
        return [(key, value) for key, value in self.rows.items() if key.startswith(prefix)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds, in a list of one; no other code sees them."""
    now = [0.0]
    monkeypatch.setattr(processes, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def team(monkeypatch: pytest.MonkeyPatch) -> Team:
    store = Store()
    monkeypatch.setattr(processes, "coordinator", lambda: store)
    placement: Any = SimpleNamespace(processes=3)
    return Team(placement, exits=False)


def say(team: Team, what: str, text: str, *, process: int) -> None:
    team._publish(what, text, key=process)


def test_a_process_that_says_nothing_for_so_long_is_lost(monkeypatch: pytest.MonkeyPatch, clock: list[float]):
    ours = team(monkeypatch)
    for second in range(200):
        clock[0] = float(second)
        say(ours, "beat", str(second), process=2)
        if second < 100:
            say(ours, "beat", str(second), process=1)
        if second > 99 + SILENCE:
            with pytest.raises(
                jax.errors.JaxRuntimeError, match=r"processes \[1\] did not answer for 30 seconds"
            ) as told:
                ours.check_alive()
            assert ours.broken_by(told.value)
        else:
            ours.check_alive()


def test_a_process_that_is_done_may_be_silent(monkeypatch: pytest.MonkeyPatch, clock: list[float]):
    ours = team(monkeypatch)
    say(ours, "beat", "7", process=1)
    say(ours, "done", "", process=1)
    for second in range(100):
        clock[0] = float(second)
        ours.check_alive()


@pytest.mark.parametrize("what", ["noticed", "ended"])
def test_what_another_process_met_is_told_at_once(what: str, monkeypatch: pytest.MonkeyPatch):
    ours = team(monkeypatch)
    ours.check_alive()
    say(ours, what, "", process=2)
    with pytest.raises(jax.errors.JaxRuntimeError, match="another process"):
        ours.check_alive()


def test_a_process_that_has_taken_its_leave_is_not_the_lost_one(monkeypatch: pytest.MonkeyPatch, clock: list[float]):
    ours = team(monkeypatch)
    say(ours, "done", "", process=1)
    say(ours, "who", "pid 7 on here", process=2)

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    monkeypatch.setattr(processes.time, "sleep", sleep, raising=False)
    assert ours._verdict().startswith("Lost process 2 (pid 7 on here) of 3")


def test_an_error_of_ones_own_is_told_to_the_others(monkeypatch: pytest.MonkeyPatch):
    ours = team(monkeypatch)
    ours.__exit__(ValueError, ValueError("too small"), None)
    assert ours._published("noticed").keys() == {0}
    assert ours._published("ended") == {0: "ValueError: too small"}


def test_processes_with_different_numbers_of_batches_are_told(monkeypatch: pytest.MonkeyPatch):
    ours = team(monkeypatch)
    for others, told in (((3, 3), ""), ((5, 3), "expected 3.*got 5 in another; 3 in process 0")):
        monkeypatch.setattr(ours, "largest", lambda number, o=others: max(o) if number > 0 else -min(o))
        with pytest.raises(TrainingError, match=told) if told else nullcontext():
            ours.check_lengths(3)


def test_fit_asks_for_the_lengths_before_a_step(monkeypatch: pytest.MonkeyPatch):
    def refuse(_: Team, length: int | None) -> None:
        raise TrainingError(f"of {length} batches")

    monkeypatch.setattr(Team, "check_lengths", refuse)
    trainer = made_trainer()
    for batches, told in ((data(), "of 4 batches"), (iter(data()), "of None batches")):
        with pytest.raises(TrainingError, match=told):
            trainer.fit(batches, 1, progress=False)
    assert int(trainer.require_state().step) == 0


class TeamOfTwo(Team):
    """A team whose other process agrees."""

    def __init__(self, placement: Any, exits: bool):
        super().__init__(placement, exits)
        self.size = 2

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def largest(self, number: int) -> int:
        return number


class NoRoom:
    """A store of checkpoints into which nothing can be written."""

    every = 1

    def __init__(self, error: Exception):
        self.error, self.calls = error, list[str]()

    def restore(self, _: object) -> None:
        return None

    def save(self, *_: object) -> None:
        self.calls.append("save")
        raise self.error

    def wait(self) -> None:
        self.calls.append("wait")

    def abandon(self) -> None:
        self.calls.append("abandon")


@pytest.mark.parametrize(
    ("error", "calls"),
    [(CheckpointError("full"), ["save", "wait"]), (jax.errors.JaxRuntimeError(LOST), ["save", "abandon"])],
)
def test_a_failed_save_of_one_process_ends_the_run_of_all(
    error: Exception, calls: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(fit, "Team", TeamOfTwo)
    trainer, store = made_trainer(), NoRoom(error)
    monkeypatch.setattr(trainer, "step", lambda batch: [jax.numpy.zeros((4, 3))])
    with pytest.raises(type(error), match=str(error)):
        trainer.fit(data(), 1, checkpoints=store, progress=False)  # pyright: ignore[reportArgumentType]
    assert store.calls == calls


@pytest.mark.parametrize("waits", ["save", "wait_until_finished"])
def test_a_save_that_waits_for_a_lost_process_raises_the_networks_error(
    waits: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(processes, "_ASK_EVERY", 0.01)
    never, store = threading.Event(), lowering.Checkpoints(tmp_path)

    def lives() -> None:
        if asked:
            raise jax.errors.JaxRuntimeError(LOST)

    def waiting(*_: object, **__: object) -> None:
        asked.append(waits)
        never.wait(5)
        asked.append("and came back")

    asked: list[str] = []
    monkeypatch.setattr(store._manager, waits, waiting)
    try:
        with store.claim({}, lives), pytest.raises(jax.errors.JaxRuntimeError, match=LOST):
            store.save(1, made_trainer().require_state(), {})
        assert asked == [waits]
    finally:
        never.set()


@pytest.mark.parametrize("count", [1, 2])
def test_a_failed_save_opens_its_folder_again_in_one_process_alone(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    store, opened = lowering.Checkpoints(tmp_path), list[int]()
    monkeypatch.setattr(store, "_open_again", lambda: opened.append(1))
    monkeypatch.setattr(jax, "process_count", lambda: count)
    assert "There is no older one" in str(store._failed(OSError(28, "full")))
    assert len(opened) == (count == 1)


def test_what_one_process_does_for_all_fails_in_all(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    monkeypatch.setattr(processes, "multihost_utils", SimpleNamespace(broadcast_one_to_all=lambda mine: np.int32(1)))
    called: list[int] = []

    def action() -> None:
        called.append(jax.process_index())
        raise OSError("full")

    for index, error in ((0, OSError), (1, CheckpointError)):
        monkeypatch.setattr(jax, "process_index", lambda i=index: i)
        with pytest.raises(error):
            on_first(action, "write a file")
    assert called == [0]


def test_arrays_of_several_processes_come_to_the_first(monkeypatch: pytest.MonkeyPatch):
    placement: Any = SimpleNamespace(processes=2, sharding=lambda: None)
    arrays = {"weight": jax.numpy.arange(3)}
    assert on_host(placement, arrays)["weight"].tolist() == [0, 1, 2]
    monkeypatch.setattr(jax, "process_index", lambda: 1)
    assert on_host(placement, arrays) == {}


@pytest.mark.slow("waits for processes or threads")
def test_who_waits_asks_meanwhile():
    never = threading.Event()

    def asked() -> None:
        raise TimeoutError

    try:
        with pytest.raises(TimeoutError):
            run_in_daemon(never.wait, asked)
    finally:
        never.set()
    assert run_in_daemon(lambda: 3, lambda: None) == 3


@pytest.mark.parametrize(
    ("error", "network"),
    [
        (jax.errors.JaxRuntimeError("UNAVAILABLE: gone"), True),
        (jax.errors.JaxRuntimeError("INTERNAL: out of luck"), False),
        (ValueError("UNKNOWN: Gloo AllGather failed: Connection closed by peer"), True),
        (ValueError("connection refused: no such bucket"), False),
        (CheckpointError("Gloo AllGather failed"), False),
        (None, False),
    ],
)
def test_errors_of_collective_operations_are_told_from_others(error: BaseException | None, network: bool):
    assert is_of_network(error) is network
