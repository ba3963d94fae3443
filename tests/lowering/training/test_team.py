"""What a process concludes from what others say, and how it waits for them; in one process, over a store of its own."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from lowering.training import processes
from lowering.training.placing import on_host
from lowering.training.processes import SILENCE, Team, is_of_network, on_first, run_in_daemon
from symjax_nnvm.errors import CheckpointError, TrainingError


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


def test_what_one_process_does_for_all_fails_in_all(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    failed = SimpleNamespace(broadcast_one_to_all=lambda mine: np.int32(1))
    monkeypatch.setattr(processes, "multihost_utils", failed)
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
