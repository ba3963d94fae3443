"""A plugin of pytest that ends each test in time, and writes a line for each: for the tests of other projects."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest


def _too_long(signum: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"longer than {os.environ['PEER_SECONDS']} s")


@contextmanager
def _limited() -> Iterator[None]:
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(int(os.environ["PEER_SECONDS"]))
    try:
        yield
    finally:
        signal.alarm(0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Each test ends in time."""
    with _limited():
        return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write a line for each test."""
    if report.when == "call" or report.outcome != "passed":
        crash = getattr(report.longrepr, "reprcrash", None)
        _write(report.nodeid, report.outcome, str(crash.message if crash else report.longrepr or ""), report.duration)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Write a line for a file that cannot be read."""
    if report.failed:
        _write(report.nodeid, "failed", str(report.longrepr), 0.0)


def _write(test: str, outcome: str, said: str, seconds: float) -> None:
    row = {"test": test.rpartition("/")[2], "outcome": outcome, "said": said[-2000:], "seconds": round(seconds, 2)}
    with open(os.environ["PEER_RESULTS"], "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
