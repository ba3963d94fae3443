"""The suite enters both sides of each condition on configuration: devices, platforms, JAX's options, the environment.

Code that the tests' own configuration switches off would be tested by nobody: the tests of `ENTERED_BY` run in a child
process in which each condition reports its outcomes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.configuration import OUTCOMES, ROOT, conditions

ENTERED_BY = [
    "tests/lowering/test_configurations.py",
    "tests/cli/test_env.py",
    "tests/lowering/convolutions/test_onednn.py::test_what_is_exported_or_kept_by_jax_does_without",
    "tests/lowering/host/test_ways.py",
    "tests/lowering/mx/test_base.py",
    "tests/lowering/mx/test_further_names.py::test_what_a_gpu_says",
    "tests/lowering/mx/compatibility/test_numpy1.py",
    "tests/lowering/mx/compatibility/test_numpy1.py::test_the_environment_tells_spawned_processes_what_was_asked_for",
    "tests/lowering/mx/tape/test_waiting.py",
    "tests/lowering/mx/tape/test_waiting_gradients.py",
    "tests/lowering/mx/testing/test_surroundings.py",
    "tests/lowering/native/test_ask.py",
    "tests/lowering/xla/test_kept_programs.py",
    "tests/lowering/xla/test_platforms.py",
]
"""Tests that enter them, files or single ones."""

ONE_SIDE = {
    "lowering/native/unpromised.py: os.sched_getaffinity(thread) == {min(cores)}": "the other side is a thread that "
    "another part of the process made in the same millisecond",
}
"""Conditions of which no test can choose both sides → why."""


@pytest.mark.slow("starts processes")
def test_both_sides_of_each_condition_are_entered(tmp_path: Path):
    outcomes = tmp_path / "outcomes.json"
    command = [sys.executable, "-m", "pytest", "-n0", "-p", "no:cacheprovider", "-p", "tests.support.configuration"]
    child = subprocess.run(
        [*command, *ENTERED_BY], cwd=ROOT, env=os.environ | {OUTCOMES: str(outcomes)}, capture_output=True, text=True
    )
    assert child.returncode == 0, child.stdout[-10_000:] + child.stderr[-5_000:]
    entered = json.loads(outcomes.read_text(encoding="utf-8"))
    one_sided = {name for name in conditions() if entered.get(name) != [False, True]}
    assert not one_sided - ONE_SIDE.keys(), "write a test in tests/lowering/test_configurations.py"
    assert not ONE_SIDE.keys() - one_sided


@pytest.mark.slow("compiles")
def test_conditions_are_found_and_their_names_say_where():
    found = set(conditions())
    assert "lowering/mx/tape/programs.py: jax.device_count() > 1" in found
    assert "lowering/xla/cpu_streams.py: count() == 1" in found
    assert len(found) > 30
