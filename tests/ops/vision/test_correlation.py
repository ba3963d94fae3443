"""Correlation: hidden outputs, refusals, and the definition, written out."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from tests.comparison import assert_close


def correlation(**params: Any) -> sym.Symbol:
    return sym.Correlation(sym.Variable("a"), sym.Variable("b"), name="corr", **params)


def test_the_padded_maps_are_hidden_outputs():
    net = correlation(pad_size=1)
    assert net.list_outputs() == ["corr_output"]
    assert net.infer_shape(a=(2, 3, 4, 5))[1] == [(2, 9, 4, 5)]
    assert net.outputs[0].node.num_outputs() == 3


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"kernel_size": 2}, ("kernel_size=2", "odd")),
        ({"stride1": 0}, ("stride1", "≥ 1")),
        ({"stride2": 0}, ("stride2", "≥ 1")),
        ({"max_displacement": -1}, ("max_displacement", "≥ 0")),
    ],
)
def test_impossible_parameters_are_named(params: dict[str, Any], words: tuple[str, ...]):
    with pytest.raises(ParamError) as error:
        correlation(**params)
    for word in ("Correlation", *words):
        assert word in str(error.value)


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ({"a": (1, 2, 4, 5)}, ("max_displacement", "at least 5 rows", "got 4")),
        ({"a": (1, 2, 5)}, ("4 axes", "(1, 2, 5)")),
        ({"a": (1, 2, 5, 5), "b": (1, 2, 6, 5)}, ("data2", "(1, 2, 6, 5)")),
    ],
)
def test_impossible_shapes_are_named(shapes: dict[str, Any], words: tuple[str, ...]):
    with pytest.raises(InferenceError) as error:
        correlation(max_displacement=2).infer_shape(**shapes)
    for word in ("Correlation", "corr", *words):
        assert word in str(error.value)


def test_channels_of_the_result_are_displacements_in_order():
    rng = np.random.RandomState(0)
    a, b = rng.randn(1, 3, 5, 6), rng.randn(1, 3, 5, 6)
    with jax.enable_x64(True):
        (ours,), _ = lowering.to_jax(correlation(pad_size=1))({"a": a, "b": b})
    moved = np.pad(b, [(0, 0), (0, 0), (1, 1), (1, 1)])
    expected = [np.mean(a * moved[:, :, y : y + 5, x : x + 6], 1) for y in range(3) for x in range(3)]
    assert_close(ours, np.stack(expected, 1), 1e-12, "correlation")
