"""The suite enters both sides of each condition on configuration: devices, platforms, JAX's options, the environment.

Code that the tests' own configuration switches off would be tested by nobody: the tests of `ENTERED_BY` run in a child
process in which each condition reports its outcomes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.configuration import OUTCOMES, ROOT, conditions

ENTERED_BY = [
    "tests/lowering/test_configurations.py",
    "tests/cli/test_env.py::test_other_processors_are_told",
    "tests/cli/test_env.py::test_what_is_turned_off_says_by_what",
    "tests/lowering/host/test_ways.py::test_on_a_gpu_the_first_calls_are_compiled_quickly",
    "tests/lowering/lanes/test_in_lanes.py::test_in_64_bits_the_whole_computes",
    "tests/lowering/mx/compatibility/test_numpy1.py::test_the_environment_tells_spawned_processes_what_was_asked_for",
    "tests/lowering/mx/tape/test_waiting.py::test_inputs_are_those_of_the_call",
    "tests/lowering/mx/tape/test_waiting_gradients.py::test_64_bits_are_those_of_the_call",
    "tests/lowering/mx/test_base.py::test_the_folder_of_downloads",
    "tests/lowering/mx/test_further_names.py::test_what_a_gpu_says",
    "tests/lowering/mx/testing/test_environment.py::test_environment",
    "tests/lowering/mx/testing/test_environment.py::test_the_machine",
    "tests/lowering/native/test_ask.py::test_a_program_that_is_no_python_starts_none",
    "tests/lowering/native/test_ask.py::test_whatever_starting_a_child_raises_nothing_is_used",
    "tests/lowering/xla/test_kept_programs.py::test_programs_are_kept_in_the_users_folder",
    "tests/lowering/xla/test_platforms.py::test_a_predictor_lies_on_the_default_device",
]
"""Few tests that enter them, since they run once more here: single ones, or files."""

ONE_SIDE = {
    "lowering/native/unpromised.py: os.sched_getaffinity(thread) == {min(cores)}": "the other side is a thread that "
    "another part of the process made in the same millisecond"
}
"""Conditions of which no test can choose both sides → why."""


@pytest.mark.nightly("starts processes")
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
