"""Checks that run one after the other, whatever fails, and fail together."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from inspect import Signature
from itertools import groupby
from types import TracebackType

import pytest

_OURS = frozenset({"sound_graphs"})
"""The fixture of conftest.py, which holds for all rows."""


class Checks:
    """Collects what fails in blocks `with checks("name"):`, each with its name; a skip ends its block."""

    def __init__(self) -> None:
        self.failures: list[BaseException] = []
        self._name = ""

    def __call__(self, name: str) -> Checks:
        self._name = name
        return self

    def __enter__(self) -> None:
        """Begin a check."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: TracebackType | None) -> bool:
        if isinstance(error, Exception | pytest.fail.Exception):
            error.add_note(f"-- in: {self._name}")
            self.failures.append(error)
        return isinstance(error, Exception | pytest.fail.Exception | pytest.skip.Exception)


@contextmanager
def together() -> Iterator[Checks]:
    """The checks of a test: what failed of them is raised at its end, each with its traceback."""
    checks = Checks()
    yield checks
    if checks.failures:
        raise BaseExceptionGroup(f"{len(checks.failures)} checks failed", checks.failures)


def as_tables(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The tests, those with small rows (not slow, without fixtures) once for all rows, which fail together: pytest and
    its workers take longer for a test than for such a row. `-k` of a row chooses its table, its node id the row alone.
    """
    tests: list[pytest.Item] = []
    for _, group in groupby(items, lambda item: (item.parent, getattr(item, "originalname", item.name))):
        rows = list(group)
        tests += [_table(rows)] if len(rows) > 1 and all(map(_is_small, rows)) else rows
    return tests


def _is_small(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function) or item.cls is not None or not hasattr(item, "callspec"):
        return False
    marks = {mark.name for mark in item.iter_markers()}
    return set(item.fixturenames) - set(item.callspec.params) <= _OURS and marks <= {"parametrize", "filterwarnings"}


def _table(rows: Sequence[pytest.Item]) -> pytest.Function:
    first = rows[0]
    assert isinstance(first, pytest.Function)
    assert first.parent is not None

    @functools.wraps(first.function)  # its marks
    def test() -> None:
        with together() as checks:
            for row in rows:
                assert isinstance(row, pytest.Function)
                with checks(row.name):
                    row.obj(**row.callspec.params)

    test.__dict__["__signature__"] = Signature()
    table = pytest.Function.from_parent(first.parent, name=first.originalname, callobj=test)
    table.extra_keyword_matches.update(row.name for row in rows)
    return table
