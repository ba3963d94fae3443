"""Every test has a budget, or a mark that says why it takes more (`tests/support/budget.py`)."""

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
    assert "nightly" in request.config.option.markexpr or not budget.nightly(request.session.items)


def test_a_seed_draws_the_order_of_files(request: pytest.FixtureRequest):
    parent = request.node.parent
    tests = [pytest.Function.from_parent(parent, name=f"test_{i}", callobj=report) for i in range(60)]
    for i, test in enumerate(tests):
        test.add_marker(pytest.mark.xdist_group(f"file {i // 3}"))
    orders = {seed: [int(test.name[5:]) for test in budget.drawn(tests, seed)] for seed in ("a", "b")}
    assert sorted(orders["a"]) == sorted(orders["b"]) == list(range(60))
    assert orders["a"] != orders["b"]
    for order in orders.values():
        assert all(order[i + 1] == order[i] + 1 == order[i + 2] - 1 for i in range(0, 60, 3))


def test_one_in_so_many_runs_every_time_and_one_at_least(request: pytest.FixtureRequest):
    def left(count: int, **how: int) -> int:
        tests = [
            pytest.Function.from_parent(request.node.parent, name=f"test_long[{i}]", callobj=report)
            for i in range(count)
        ]
        for test in tests:
            test.add_marker(pytest.mark.nightly("long", **how))
        return len(budget.nightly(tests))

    assert left(4) == 4
    assert left(4, but_one_in=1) == 0
    assert left(3, but_one_in=1 << 30) == 2
    assert 150 < left(300, but_one_in=3) < 250
