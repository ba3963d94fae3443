"""Gluon's recurrent layers with open input size: shapes and values as MXNet 1.9.1's (tests/goldens/recurrent)."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from tests.support.comparison import assert_close

GOLDENS = Path(__file__).parent.parent / "goldens" / "recurrent"
LAYERS = sorted(path.name.removesuffix("-symbol.json") for path in GOLDENS.glob("*-symbol.json"))
DATA = (3, 2, 5)


def golden(layer: str, kind: str) -> dict[str, Any]:
    """MXNet's arrays of a layer."""
    prefix = f"{layer}|{kind}"
    with np.load(GOLDENS / "values.npz") as stored:
        return {key.removeprefix(prefix).lstrip("|"): stored[key] for key in stored if key.startswith(prefix)}


def load(layer: str) -> sym.Symbol:
    return sym.load(str(GOLDENS / f"{layer}-symbol.json"))


@pytest.mark.parametrize("layer", LAYERS)
def test_open_input_sizes_of_both_directions_are_inferred(layer: str):
    symbol = load(layer)
    inferred = dict(zip(symbol.list_arguments(), symbol.infer_shape(data=DATA)[0], strict=True))
    assert inferred == {name: tuple(shape) for name, shape in golden(layer, "shape").items()}


@pytest.mark.parametrize("layer", [layer for layer in LAYERS if layer != "lstm_projected"])
def test_they_bind_and_compute_what_mxnet_computes(layer: str):
    executor = lowering.simple_bind(load(layer), grad_req="null", data=DATA)
    outputs = executor.forward(**golden(layer, "arg"))
    assert len(outputs) == len(golden(layer, "out"))
    for i, output in enumerate(outputs):
        assert_close(output, golden(layer, "out")[str(i)], 1e-5, f"{layer}: output {i}")


# -- `_rnn_param_concat` ---------------------------------------------------------------------------------------------


def joined(total: int, *shapes: tuple[int, ...] | None) -> sym.Symbol:
    """Parameters of the given shapes, joined to a vector of `total` elements."""
    parts = [sym.Variable(f"p{i}", shape=shape) for i, shape in enumerate(shapes)]
    return sym.Group([sym._rnn_param_concat(*parts, dim=0, name="joined") + sym.Variable("whole", shape=(total,))])


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        (((0,), (4,)), [(6,), (4,)]),
        (((0,), (4,), (0,)), [(3,), (4,), (3,)]),
        ((None, (4,), None), [(3,), (4,), (3,)]),
        (((0,), (0,)), [(5,), (5,)]),
        (((0,), (0,), (0,)), [(0,), (0,), (0,)]),  # MXNet refuses what it cannot know; here it stays unknown
    ],
)
def test_one_or_two_unknown_lengths_share_what_is_left(shapes, expected):
    assert joined(10, *shapes).infer_shape_partial()[0][:-1] == expected


def test_lengths_that_cannot_share_alike_stay_unknown_and_are_named():
    with pytest.warns(UserWarning, match=r"(?s)Cannot decide shape.*p0: .*p2: "):
        assert joined(11, (0,), (4,), (0,)).infer_shape() == (None, None, None)


def test_joining_arrays_that_are_no_parameters_does_not_guess():
    parts = [sym.Variable("a", shape=(0,)), sym.Variable("b", shape=(0,))]
    symbol = sym.Concat(*parts, dim=0) + sym.Variable("whole", shape=(10,))
    assert symbol.infer_shape_partial()[0][:2] == [(0,), (0,)]
