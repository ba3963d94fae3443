"""How the suite is shared out: every rung of a case on one worker, one operator after the other.

JAX compiles each primitive once per process and shape; keeping an operator's tests together halves the suite's time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import jax
import pytest

from tests.cases import Case

CLEAR_AFTER = 2500
"""Tests between two clearings of JAX's caches; otherwise compiled programs are kept, about 1 MB for each test."""

# JAX's caches are a large heap of long-lived objects, which Python's default thresholds walk over and over.
gc.set_threshold(100_000, 50, 100)

_since_clearing = 0


@pytest.fixture(autouse=True)
def bounded_caches() -> Iterator[None]:
    global _since_clearing
    yield
    _since_clearing += 1
    if _since_clearing == CLEAR_AFTER:
        _since_clearing = 0
        jax.clear_caches()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    positions: dict[str, int] = {}

    def place(item: pytest.Item) -> tuple[int, int]:
        case = _case(item)
        if case is None:
            return (-1, 0)
        item.add_marker(pytest.mark.xdist_group(case.op))
        return (positions.setdefault(case.op, len(positions)), 1)

    items.sort(key=place)


def _case(item: pytest.Item) -> Case | None:
    callspec = getattr(item, "callspec", None)
    case = callspec.params.get("case") if callspec is not None else None
    return case if isinstance(case, Case) else None
