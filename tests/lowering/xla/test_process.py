"""The process belongs to its owner: importing and using the library leaves it as it was."""

import json
import logging
import os
import platform
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.lowering.xla import process_state

ROOT = Path(__file__).parents[3]

pytest.importorskip("orbax.checkpoint", reason="the extra `checkpoints` is not installed")


@pytest.fixture(scope="module")
def steps() -> dict[str, dict[str, Any]]:
    """What was different after each step, in a process of its own."""
    command = [sys.executable, "-m", "tests.lowering.xla.process_state"]
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, cwd=ROOT, env=env, text=True, capture_output=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {row["step"]: row for row in rows}


@pytest.mark.slow("compiles")
def test_nothing_of_the_process_is_changed(steps: dict[str, dict[str, Any]]):
    assert list(steps) == ["jax alone", *(step.__name__ for step in process_state.STEPS)]
    changed = {step: row["changed"] for step, row in steps.items() if row["changed"]}
    # MXNet's scripts begin by logging everything: mx gives JAX's logger a level where it has none.
    mxnets = changed.pop("mxnets_way")
    assert changed == {}
    assert list(mxnets) == ["logging"]
    before, after = mxnets["logging"]
    level = "'jax': (30, [], [], True, False)"
    assert level in after
    assert "".join(after.split(level)).replace(", ", "") == before.replace(", ", "")


@pytest.mark.slow("compiles")
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries may keep what is freed")
def test_memory_that_is_freed_goes_back_to_the_system_as_under_jax_alone(steps: dict[str, dict[str, Any]]):
    for row in steps.values():
        before, held, after = row["memory"]
        assert held >= before + 225, row["step"]
        assert after <= before + 10, row["step"]


def test_the_look_sees_what_is_changed(monkeypatch: pytest.MonkeyPatch):
    before = process_state.state()
    monkeypatch.setenv("SYMJAX_NNVM_SEEN", "1")
    monkeypatch.setattr(sys, "unraisablehook", print)
    monkeypatch.setattr(logging.getLogger("tests.of_another"), "filters", [print])
    threading.Thread(target=(ends := threading.Event()).wait, name="left", daemon=True).start()
    drawn = np.random.get_state()
    np.random.seed(7)
    try:
        with np.errstate(all="raise", call=print):
            after = process_state.state()
    finally:
        np.random.set_state(drawn)
        ends.set()
    changed = {"environment", "hooks", "logging", "numpy", "random numbers", "daemons"}
    assert changed <= {name for name in before if before[name] != after[name]}  # threads of other tests may have ended
