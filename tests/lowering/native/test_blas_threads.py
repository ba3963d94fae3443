"""OpenBLAS has one thread inside, in whatever thread and order blocks end, and as many as before outside."""

from __future__ import annotations

import threading

import pytest

from lowering.native import blas_threads
from lowering.native.blas_threads import in_this_thread


def test_the_number_of_threads_is_one_inside_and_comes_back():
    functions = blas_threads._functions()
    if functions is None:
        pytest.skip("NumPy has another library than OpenBLAS here")
    count, _ = functions
    before = count()
    entered, may_leave = threading.Event(), threading.Event()

    def other() -> None:
        with in_this_thread:
            entered.set()
            may_leave.wait(10)

    thread = threading.Thread(target=other)
    with in_this_thread:
        thread.start()
        assert entered.wait(10)
        assert count() == 1
    assert count() == 1
    may_leave.set()
    thread.join()
    assert count() == before


def test_nothing_is_set_where_numpy_has_another_library(monkeypatch):
    monkeypatch.setattr(blas_threads, "_functions", lambda: None)
    with in_this_thread:
        pass
