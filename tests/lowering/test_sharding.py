"""Graphs over a mesh of devices: every check of `on_eight_devices.py`, which runs once, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.lowering import on_eight_devices


@pytest.fixture(scope="module")
def failures() -> dict[str, str | None]:
    command = [sys.executable, "-m", on_eight_devices.__name__]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", [function.__name__ for function in on_eight_devices.CHECKS])
def test_on_eight_devices(name, failures):
    assert failures[name] is None, failures[name]
