"""What a process concludes from what others say, and how it waits for them; in one process, over a store of its own."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import jax
import pytest

from lowering.training import processes
from lowering.training.processes import SILENCE, Team, is_of_network, run_in_daemon
from symjax_nnvm.errors import CheckpointError


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
