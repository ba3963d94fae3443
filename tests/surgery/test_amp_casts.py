"""Casts of AMP are taken out as MXNet 1.9.1 takes them out: of inputs, in chains, by the number of the output."""

import json
from pathlib import Path
from typing import Any

import pytest

from lowering import mx
from symjax_nnvm import symbol as sym
from symjax_nnvm.surgery.amp_casts import without_amp_casts
from symjax_nnvm.symbol.symbol import Symbol


def cast() -> Symbol:
    return sym.amp_cast(sym.amp_cast(sym.Variable("x"), dtype="float16", name="c1"), dtype="float32", name="c2")


def both() -> Symbol:
    return sym.amp_multicast(cast(), sym.Variable("y"), num_outputs=2, name="m")


def nodes(symbol: Any) -> list[tuple[str, list[list[int]]]]:
    return [(node["name"], node["inputs"]) for node in json.loads(symbol.tojson())["nodes"]]


@pytest.mark.parametrize(
    ("symbol", "expected"),
    [
        (lambda: sym.exp(cast(), name="e"), [("x", []), ("e", [[0, 0, 0]])]),
        (lambda: sym.elemwise_sub(*both(), name="s"), [("x", []), ("y", []), ("s", [[0, 0, 0], [1, 0, 0]])]),
        (cast, [("x", []), ("c2", [[0, 0, 0]])]),
        (both, [("x", []), ("y", []), ("m", [[0, 0, 0], [1, 0, 0]])]),
    ],
)
def test_casts_are_taken_out_of_inputs(symbol: Any, expected: list[Any]):
    given = symbol()
    before = nodes(given)
    assert nodes(without_amp_casts(given)) == expected
    assert nodes(given) == before


def test_files_of_mx_have_no_casts_unless_they_are_asked_for(tmp_path: Path):
    net = mx.sym.exp(mx.sym.amp_cast(mx.sym.var("x"), dtype="float16"), name="e")
    arrays = {"x": mx.nd.ones((1,))}
    for asked, kept in (({}, False), ({"remove_amp_cast": False}, True)):
        net.save(tmp_path / "net.json", **asked)
        mx.model.save_checkpoint(str(tmp_path / "net"), 0, net, arrays, {}, **asked)
        for name in ("net.json", "net-symbol.json"):
            assert ("amp_cast" in (tmp_path / name).read_text(encoding="utf-8")) == kept
