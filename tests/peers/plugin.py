"""A plugin of pytest under which MXNet's own tests run on `lowering.mx`: `python -m tests.peers.mxnet` starts it."""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

import lowering.mx


def _raises(*exceptions: type[BaseException]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(test)
        def checked(*args: Any, **kwargs: Any) -> None:
            with pytest.raises(exceptions):
                test(*args, **kwargs)

        return checked

    return decorate


def _make_decorator(test: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return functools.wraps(test)


def _assert_raises(exception: Any, function: Callable[..., Any] | None = None, *args: Any, **kwargs: Any) -> Any:
    context = pytest.raises(exception)
    if function is None:
        return context
    with context:
        function(*args, **kwargs)
    return None


def _ok(value: object, message: str | None = None) -> None:
    assert value, message


def _equal(a: object, b: object, message: str | None = None) -> None:
    assert a == b, message


def _nose() -> None:
    """What MXNet's tests take from nose, which no Python of today runs."""
    nose, tools = types.ModuleType("nose"), types.ModuleType("nose.tools")
    names: dict[str, Any] = {
        "raises": _raises,
        "make_decorator": _make_decorator,
        "assert_raises": _assert_raises,
        "ok_": _ok,
        "eq_": _equal,
        "assert_equal": _equal,
        "assert_equals": _equal,
    }
    for name, value in names.items():
        setattr(tools, name, value)
    tools.__dict__["__all__"] = list(names)
    nose.__dict__.update(tools=tools, SkipTest=pytest.skip.Exception)
    sys.modules.update({"nose": nose, "nose.tools": tools})


def pytest_configure() -> None:
    """Have `import mxnet` be ours before any test file is read."""
    _nose()
    lowering.mx.install()


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
        said = str(crash.message if crash else report.longrepr or "")
        _write(report.nodeid, report.outcome, said, report.duration)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Write a line for a file that cannot be read."""
    if report.failed:
        _write(report.nodeid, "failed", str(report.longrepr), 0.0)


def _write(test: str, outcome: str, said: str, seconds: float) -> None:
    row = {"test": test.rpartition("/")[2], "outcome": outcome, "said": said[-2000:], "seconds": round(seconds, 2)}
    with open(os.environ["PEER_RESULTS"], "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
