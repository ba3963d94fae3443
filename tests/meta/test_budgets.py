"""Every test has a budget, or a mark that says why it takes more (`tests/support/budget.py`)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import budget

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("mark", ["slow", "nightly"])
def test_a_mark_says_why(mark: str):
    bare = re.compile(rf'pytest\.mark\.{mark}\b(?!\("\w)')
    paths = [path for path in TESTS.rglob("*.py") if path.name != "test_tables.py"]  # which has files of tests as texts
    marked = [path for path in paths if bare.search(path.read_text(encoding="utf-8"))]
    assert [path.name for path in marked] == []


def report(seconds: float, *marks: str) -> pytest.TestReport:
    return pytest.TestReport(
        "tests/test_a.py::test_long", ("", 0, ""), dict.fromkeys(marks, 1), "passed", None, "call",
        user_properties=[("processor seconds", seconds)],
    )  # fmt: skip


def test_a_test_over_its_budget_is_told_unless_it_is_marked():
    assert budget.over(report(5.0)) == 5.0
    assert budget.over(report(0.4)) is None
    assert budget.over(report(5.0, "slow")) is None
    assert budget.over(report(5.0, "nightly")) is None


def test_what_a_test_takes_is_written_down(request: pytest.FixtureRequest):
    before = list(request.node.user_properties)
    with budget.counted(request.node):
        start = budget.spent()
        while budget.spent() < start + 0.05:
            pass
    (_, seconds), *_ = [row for row in request.node.user_properties if row not in before]
    request.node.user_properties[:] = before
    assert 0.04 < seconds < 5


def test_nightly_tests_run_when_they_are_asked_for(request: pytest.FixtureRequest):
    assert "nightly" in request.config.option.markexpr or not any(map(budget.is_nightly, request.session.items))


def test_one_in_so_many_runs_every_time(request: pytest.FixtureRequest):
    item = request.node
    item.add_marker(pytest.mark.nightly("long", but_one_in=1))
    assert not budget.is_nightly(item)
    item.add_marker(pytest.mark.nightly("long"), append=False)
    assert budget.is_nightly(item)
