"""Which tests are too dear for `pytest -m quick`: those that took longest, as `tests/support/expensive.txt` lists them.

Run by hand on a quiet machine, when the quick selection takes longer than two minutes:

    python -m pytest -n 2 -m quick --durations=0 -vv > durations.log
    python -m tests.support.expensive durations.log

A test function counts with all its cases, set-up included. The longest are listed, beside those that are, until the
rest fit into `SECONDS` of processor time; `tests/conftest.py` leaves the listed ones out of the quick selection. To
begin anew, empty the list and give `-m "not slow"`.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

LIST = Path(__file__).with_suffix(".txt")

SECONDS = 122.0
"""Of processor time, for two workers in two minutes; starting and collecting take the rest."""


def listed() -> frozenset[str]:
    """The tests that `expensive.txt` names, as `tests/folder/test_file.py::test_name`."""
    return frozenset(LIST.read_text(encoding="utf-8").split()) if LIST.exists() else frozenset()


def function_of(nodeid: str) -> str:
    """A test without its parameters, and without the group that pytest-xdist appends."""
    return nodeid.partition("[")[0].partition("@")[0]


def longest(log: str) -> list[str]:
    """The tests to list, from what pytest printed. The ladder's rungs are chosen elsewhere."""
    totals: Counter[str] = Counter()
    for seconds, nodeid in re.findall(r"^\s*([\d.]+)s (?:call|setup|teardown)\s+(\S+)", log, re.MULTILINE):
        totals[function_of(nodeid)] += float(seconds)  # pyright: ignore[reportArgumentType]  # seconds, not a count
    rest = sum(seconds for name, seconds in totals.items() if "test_ladder" not in name)
    chosen: list[str] = []
    for name, seconds in totals.most_common():
        if rest <= SECONDS:
            break
        if "test_ladder" not in name:
            chosen.append(name)
            rest -= seconds
    return sorted(chosen)


if __name__ == "__main__":
    names = sorted(listed() | set(longest(Path(sys.argv[1]).read_text(encoding="utf-8"))))
    LIST.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    print(f"{len(names)} tests are left out of the quick selection")
