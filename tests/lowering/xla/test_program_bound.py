"""The memory of all programs is bounded: what was called longest ago is forgotten, and made anew."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from lowering.core.cache import Programs
from lowering.executor.ways import Ways
from lowering.host import staged
from lowering.host.staged import Staged
from lowering.xla import program_bound as bound
from lowering.xla.compile_options import jit
from lowering.xla.program_bound import Kept
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import CallError, SymbolValueError
from symjax_nnvm.pipeline import Options
from tests.support.compilations import compilations

BOUND = 6_000_000
"""Bytes of about three programs."""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound of its own, of a few programs."""
    monkeypatch.setattr(bound, "_bound", bound._Bound())
    lowering.limit_programs(BOUND)


def rows(n: int) -> Any:
    return jnp.ones((n, 2))


@pytest.mark.slow("compiles")
@pytest.mark.usefixtures("small", "compiled_fully")
def test_what_was_called_longest_ago_is_freed_and_is_right_when_it_comes_again():
    functions = [jit(lambda x, n=n: x + n) for n in range(6)]
    functions[0](rows(1))
    programs = weakref.ref(functions[0].plain)
    compiled = weakref.ref(functions[0]._compiling)
    for run in functions[1:]:
        run(rows(1))
    gc.collect()
    assert programs() is None
    assert compiled() is None
    assert [run._cache_size() for run in functions[-2:]] == [1, 1]  # the latest are there
    for n, run in enumerate(functions):
        np.testing.assert_array_equal(run(rows(1)), np.full((1, 2), n + 1.0))


@pytest.mark.usefixtures("small")
def test_freed_memory_goes_back_now_and_then(monkeypatch: pytest.MonkeyPatch):
    given_back: list[int] = []
    monkeypatch.setattr(bound, "give_back", lambda: given_back.append(1))
    monkeypatch.setattr(bound, "_GIVEN_BACK", BOUND)
    owner = jit(lambda x: x)
    programs, times = [Kept(owner) for _ in range(8)], list[int]()
    for program in programs:
        program.grow(BOUND // 2)
        times.append(len(given_back))
    assert times == [0, 0, 1, 1, 2, 2, 3, 3]  # each time two are forgotten


@pytest.mark.slow("compiles")
@pytest.mark.usefixtures("small")
def test_a_signature_that_was_forgotten_begins_anew(monkeypatch: pytest.MonkeyPatch):
    run = Staged(lambda x: x * 3)
    with monkeypatch.context() as patch:
        patch.setattr(staged.Account, "limit", 1e-9)  # each is compiled at once
        for n in range(1, 9):
            np.testing.assert_array_equal(run(rows(n)), np.full((n, 2), 3.0))
    assert 1 < len(run.ways()) < 5
    first = weakref.ref(run._signatures[next(iter(run._signatures))].compiled)
    assert run.ways()[-1].endswith("compiled")
    with compilations(traces=False) as seen:
        np.testing.assert_array_equal(run(rows(1)), np.full((1, 2), 3.0))  # evaluated: what was counted is forgotten
        run(rows(8))
    assert not seen
    assert any("evaluated" in line for line in run.ways())
    lowering.limit_programs(1)
    gc.collect()
    assert first() is None
    assert run.ways() == []
    np.testing.assert_array_equal(run(rows(8)), np.full((8, 2), 3.0))


@pytest.mark.usefixtures("small")
def test_a_call_keeps_a_signature():
    run = Staged(lambda x: x * 3)
    for n in range(1, 4):
        run(rows(n))
    kept = [signature.account for signature in run._signatures.values()]
    for one in kept:
        one.grow(BOUND // 4)
    run(rows(1))
    Kept(run, "no such key").grow(BOUND // 2)
    assert [one.bytes > 0 for one in kept] == [True, False, False]


@pytest.mark.usefixtures("small")
def test_functions_of_a_network_that_were_forgotten_begin_anew():
    ways = Ways(Programs(sym.tanh(sym.Variable("data"))), Options(is_train=True, wrt=()))
    first = ways.functions("kinds")
    assert first.account is not None
    first.account.price = first.account.spent = 1.0
    full = ways.functions("kinds")
    assert (first.quick, full.quick) == (True, False)
    full.forward(False)([rows(2)], [], None)
    assert not full.is_due
    lowering.limit_programs(1)
    assert full.is_due
    assert ways.functions("kinds").quick
    np.testing.assert_allclose(full.forward(False)([rows(2)], [], None)[0][0], np.full((2, 2), np.tanh(1)), rtol=1e-6)
    with lowering.effort("full"):
        ways.functions("kinds").forget()
        assert not ways.functions("kinds").is_forgotten


@pytest.mark.usefixtures("small")
def test_what_died_counts_no_more():
    owner = Staged(lambda x: x)
    dead, alive = Kept(owner), Kept(owner, "key")
    dead.grow(BOUND)
    del dead
    alive.grow(BOUND // 2)
    Kept(owner, "other").grow(BOUND // 4)
    assert alive.bytes == BOUND // 2


@pytest.mark.slow("compiles")
@pytest.mark.usefixtures("small")
def test_many_threads_call_what_is_forgotten(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(staged.Account, "limit", 1e-9)
    run = Staged(lambda x: (x * 2).sum(0))

    def calls(thread: int) -> bool:
        sizes = [(thread + i) % 7 + 1 for i in range(14)]
        return all(float(run(rows(n))[0]) == 2 * n for n in sizes)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(calls, range(4)))
    assert sum(one.bytes for one in bound._bound.all) <= BOUND + 2_000_000  # and what grew last


@pytest.mark.usefixtures("small")
def test_the_bound_is_bytes_or_text():
    assert lowering.limit_programs() == BOUND
    assert lowering.limit_programs("2G") == lowering.limit_programs() == 2 << 30
    for size in (0, -1, True, 1.5):
        with pytest.raises(CallError):
            lowering.limit_programs(size)  # pyright: ignore[reportArgumentType]
    with pytest.raises(SymbolValueError):
        lowering.limit_programs("much")


@pytest.mark.usefixtures("small", "compiled_fully")
def test_programs_that_consume_arrays_and_parts_of_others_are_counted():
    consuming = jit(lambda x: x + 1, donate_argnums=0)
    np.testing.assert_array_equal(consuming(rows(3)), np.full((3, 2), 2.0))
    assert consuming._kept.bytes > 1_000_000
    inner = jit(lambda x: x + 1)
    jit(lambda x: inner(x) * 2)(rows(3))
    assert inner._kept.bytes == 0
