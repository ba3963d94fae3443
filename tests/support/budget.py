"""The budget of a test: a seventh of a second of processor time, or a mark that says why it takes more.

`pytest --budget` tells where the time went, and which tests without one took longer; a test on a loaded machine fails
for no such reason.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from zlib import crc32

import pytest

SECONDS = 0.15
"""Of processor time, child processes included, on a machine like those that the marks were measured on."""

SLOWER = 4.0
"""How many times as slow a machine may be, and how much more the first test of a process pays for others."""

MOST = 40
"""Functions that `--budget` lists."""

MAY = f"{SECONDS} s of processor time, unless marked slow or nightly"

_SPENT = "processor seconds"


def nightly(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """The tests that are left to the nightly run; of the cases of one marked `but_one_in=3` a third runs always,
    the same ones, and at least one."""
    left: set[pytest.Item] = set()
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        mark = item.get_closest_marker("nightly")
        if mark is not None and "but_one_in" in mark.kwargs:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
        elif mark is not None:
            left.add(item)
    for sampled in cases.values():
        others = {item for item in sampled if crc32(item.nodeid.encode()) % _one_in(item)}
        left |= others - ({sampled[0]} if len(others) == len(sampled) else set())
    return left


def _one_in(item: pytest.Item) -> int:
    mark = item.get_closest_marker("nightly")
    return 1 if mark is None else mark.kwargs["but_one_in"]


def drawn(items: Sequence[pytest.Item], seed: str) -> list[pytest.Item]:
    """The tests in an order that a seed draws; those that one worker runs together stay so."""

    def place(item: pytest.Item) -> int:
        group = item.get_closest_marker("xdist_group")
        return crc32(f"{seed} {group.args[0] if group else item.nodeid}".encode())

    return sorted(items, key=place)


def spent() -> float:
    """Processor time of this process and the children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@contextmanager
def counted(item: pytest.Item) -> Iterator[None]:
    """Write down what a test takes; its fixtures are shared with others."""
    start = spent()
    try:
        yield
    finally:
        item.user_properties.append((_SPENT, spent() - start))


def of(report: pytest.TestReport) -> float:
    """The seconds that a test took."""
    return next((value for name, value in report.user_properties if name == _SPENT and isinstance(value, float)), 0.0)


def over(report: pytest.TestReport) -> float | None:
    """The seconds of a test that took longer than it may; None of others."""
    seconds = of(report)
    return None if seconds <= SECONDS * SLOWER or {"slow", "nightly"} & report.keywords.keys() else seconds


def tell(reporter: pytest.TerminalReporter) -> None:
    """Print the functions whose cases together take longest, and the tests that took longer than they may."""
    reports = [report for report in reporter.stats.get("passed", []) if report.when == "call"]
    totals: Counter[str] = Counter()
    for report in reports:
        totals[report.nodeid.partition("[")[0]] += of(report)  # pyright: ignore[reportArgumentType]
        totals.update({name: spent for name, spent in report.user_properties if name.startswith("rung ")})  # pyright: ignore
    reporter.section(f"of {sum(map(of, reports)):.0f} s of processor time, without fixtures and collection")
    for name, seconds in totals.most_common(MOST):
        reporter.line(f"{seconds:6.1f} s  {name}")
    long = sorted(((seconds, report.nodeid) for report in reports if (seconds := over(report))), reverse=True)
    if long:
        reporter.section("tests over their budget: mark them slow, with the reason, or make them faster")
        for seconds, nodeid in long:
            reporter.line(f"{seconds:6.1f} s  {nodeid}")
