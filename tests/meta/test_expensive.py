"""The quick selection leaves out the tests that were measured to take longest (`tests/support/expensive.txt`)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import expensive

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", sorted(expensive.listed()))
def test_every_listed_test_is_there(name: str):
    file, _, function = name.partition("::")
    assert re.search(rf"^def {function}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)


def test_the_longest_are_listed_until_the_rest_fits(monkeypatch: pytest.MonkeyPatch):
    log = """
3.00s call     tests/test_a.py::test_long[1]
4.00s call     tests/test_a.py::test_long[2-x]@group
0.50s setup    tests/test_a.py::test_short
2.00s call     tests/test_b.py::test_middle
99.0s call     tests/ops/test_ladder.py::test_rung[x]
"""
    monkeypatch.setattr(expensive, "SECONDS", 3.0)
    assert expensive.longest(log) == ["tests/test_a.py::test_long"]
    monkeypatch.setattr(expensive, "SECONDS", 1.0)
    assert expensive.longest(log) == ["tests/test_a.py::test_long", "tests/test_b.py::test_middle"]
