"""`tune`: the user's own table, of a network's own convolutions."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lowering
from lowering.api import tuning as tune_module
from lowering.convolutions import choose
from lowering.convolutions import timings_table as table_module
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import CallError, InferenceError
from symjax_nnvm.pipeline import Options

DATA = {"data": (1, 64, 12, 12)}


@pytest.fixture(autouse=True)
def _no_other_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    choose.forget()
    yield
    choose.forget()


@pytest.fixture
def _measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every algorithm takes a second but im2col, which takes half of one."""

    def measure(functions: dict[str, Callable[[], Any]], rounds: int, seconds: float) -> dict[str, float]:
        return {name: 0.5 if name == "im2col" else 1.0 for name in functions}

    monkeypatch.setattr(tune_module, "measure", measure)


def network() -> sym.Symbol:
    h = sym.Variable("data")
    for i in range(3):
        h = sym.Convolution(h, kernel=(3, 3), pad=(1, 1), num_filter=64, name=f"conv{i}")
    return h


@pytest.mark.slow("compiles")
@pytest.mark.usefixtures("_measured")
def test_a_table_of_the_users_own_is_used_from_then_on():
    table = lowering.tune(network(), DATA, progress=False)
    assert [row.direction for row in table.rows] == ["forward"]  # three alike
    geometry = table.rows[0].geometry
    assert (geometry.batch, geometry.size, geometry.channels, geometry.filters) == (1, (12, 12), 64, 64)
    assert "winograd2" in table.rows[0].constant
    assert choose.choose("forward", geometry, "cpu") == "im2col"
    trained = lowering.tune(network(), {"data": (2, 64, 12, 12)}, is_train=True, progress=False)
    assert [(row.direction, row.geometry.batch) for row in trained.rows] == [
        *(("forward", 2), ("data", 2), ("weight", 2), ("forward", 1))
    ]
    again = lowering.tune(network(), DATA, progress=False)
    assert len(again.rows) == 4
    assert list(table_module.read_table(table_module.user_table("cpu")).rows) == list(again.rows)


def test_nothing_to_measure_writes_nothing():
    assert list(lowering.tune(sym.relu(sym.Variable("data")), DATA, progress=False).rows) == []
    assert not table_module.user_table("cpu").exists()
    with pytest.raises(CallError, match="lowering.tune"):
        lowering.tune(network(), (1, 2))  # pyright: ignore[reportArgumentType]
    with pytest.raises(InferenceError, match="conv0"):
        lowering.tune(network(), {"data": (1, 64)}, progress=False)


def test_the_bodies_of_loops_are_measured():
    def body(item: sym.Symbol, state: sym.Symbol):
        return sym.Convolution(item, sym.Variable("w"), num_filter=16, kernel=(3, 3), pad=(1, 1), no_bias=True), state

    loop = sym.contrib.foreach(body, sym.Variable("data"), [sym.Variable("s")])[0]
    shapes = {"data": (4, 2, 16, 28, 28), "s": (1,), "w": (16, 16, 3, 3)}
    (found,) = set(tune_module._cases(loop, shapes, Options(platform="cpu")))
    assert found[0] == "forward"
    assert (found[1].batch, found[1].size, found[1].filters) == (2, (28, 28), 16)


@pytest.mark.usefixtures("_measured")
def test_products_in_half_precision_are_measured_in_it():
    table = lowering.tune(network(), DATA, compute_dtype="bfloat16", progress=False)
    assert {row.geometry.dtype for row in table.rows} == {"bfloat16"}
    explained = lowering.explain(network(), compute_dtype="bfloat16", data=DATA["data"])
    assert set(explained.algorithms.values()) == {"im2col"}  # which the table has for bfloat16 alone
