"""Tests of several devices: the process of the suite has one, as users have; a child process runs these.

`TESTS_HAVE_EIGHT_DEVICES=1 python -m pytest FILE` runs those of one file alone.
"""

import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(
    str(path.relative_to(ROOT))
    for path in (ROOT / "tests").rglob("test_*.py")
    if "mark.eight_devices" in path.read_text(encoding="utf-8") and path != Path(__file__)
)


def test_the_suite_has_one_device_as_users_have():
    assert jax.device_count() == 1
    assert "tests/lowering/training/test_mesh.py" in FILES


@pytest.mark.slow("starts processes")
@pytest.mark.parametrize(
    "marks", ["eight_devices", pytest.param("eight_devices and nightly", marks=pytest.mark.nightly("all the others"))]
)
def test_on_eight_devices(marks: str):
    command = [sys.executable, "-m", "pytest", "-n0", "-p", "no:cacheprovider", "-m", marks, *FILES]
    child = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"TESTS_HAVE_EIGHT_DEVICES": "1"}, capture_output=True, text=True
    )
    assert child.returncode == 0, child.stdout[-20_000:] + child.stderr[-5_000:]
