"""Tests of small rows are one test, which tells every row that fails (`tests/support/together.py`)."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pages import ROOT
from tests.support.together import together

CONFTEST = """
from tests.support.together import as_tables

def pytest_collection_modifyitems(items):
    items[:] = as_tables(items)
"""

TESTS = """
import pytest

@pytest.mark.parametrize("row", range(4))
def test_small(row):
    if row == 2:
        pytest.skip("no such row")
    assert row % 2, f"{row} is even" if row else pytest.fail("0 is nothing")

@pytest.mark.parametrize("row", [1, 3])
def test_with_a_fixture(row, tmp_path):
    assert not list(tmp_path.iterdir())

@pytest.mark.slow
@pytest.mark.parametrize("row", [1, 3])
def test_slow(row):
    assert row

@pytest.mark.parametrize("row", [1, pytest.param(2, marks=pytest.mark.xfail)])
def test_marked(row):
    assert row == 1
"""


@pytest.mark.slow("starts a process")
@pytest.mark.parametrize(
    ("options", "outcome"),
    [
        ([], "1 failed, 5 passed, 1 xfailed"),
        (["-k", "test_small[1]"], "1 failed, 6 deselected"),
        (["test_rows.py::test_small[1]"], "1 passed"),
    ],
)
def test_small_rows_are_one_test_that_tells_all_that_fail(options: list[str], outcome: str, tmp_path: Path):
    (tmp_path / "conftest.py").write_text(f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n{CONFTEST}")
    (tmp_path / "test_rows.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-W", "ignore", *options]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    assert outcome in told
    if not options:
        assert [line.split()[-1] for line in told.splitlines() if "-- in: " in line] == ["test_small[0]"]
        assert "0 is nothing" in told


def fail_at(*names: str) -> None:
    with together() as checks:
        for name in ("a", "b", "c"):
            with checks(name):
                assert name not in names, name


def test_checks_go_on_after_a_failure_and_end_with_all_of_them():
    fail_at()
    with pytest.raises(BaseExceptionGroup, match="2 checks failed") as raised:
        fail_at("a", "c")
    assert [error.__notes__ for error in raised.value.exceptions] == [["-- in: a"], ["-- in: c"]]
    with pytest.raises(KeyboardInterrupt), together() as checks, checks("a"):
        raise KeyboardInterrupt
