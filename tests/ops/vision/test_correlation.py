"""Correlation: hidden outputs, refusals, and the definition, written out."""

import time
from typing import Any

import jax
import numpy as np
import pytest

import lowering
from lowering.ops.vision import correlation as rules
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from tests.support.comparison import assert_close
from tests.support.refusals import refused
from tests.support.traced import evaluated


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
    with refused(ParamError, "Correlation", *words):
        correlation(**params)


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ({"a": (1, 2, 4, 5)}, ("max_displacement", "at least 5 rows", "got 4")),
        ({"a": (1, 2, 5)}, ("4 axes", "(1, 2, 5)")),
        ({"a": (1, 2, 5, 5), "b": (1, 2, 6, 5)}, ("data2", "(1, 2, 6, 5)")),
    ],
)
def test_impossible_shapes_are_named(shapes: dict[str, Any], words: tuple[str, ...]):
    with refused(InferenceError, "Correlation", "corr", *words):
        correlation(max_displacement=2).infer_shape(**shapes)


@pytest.mark.slow("compiles")
def test_channels_of_the_result_are_displacements_in_order():
    rng = np.random.RandomState(0)
    a, b = rng.randn(1, 3, 5, 6), rng.randn(1, 3, 5, 6)
    with jax.enable_x64(True):
        (ours,), _ = evaluated(lowering.to_jax(correlation(pad_size=1)), {"a": a, "b": b})
    moved = np.pad(b, [(0, 0), (0, 0), (1, 1), (1, 1)])
    expected = [np.mean(a * moved[:, :, y : y + 5, x : x + 6], 1) for y in range(3) for x in range(3)]
    assert_close(ours, np.stack(expected, 1), 1e-12, "correlation")


@pytest.mark.nightly("every kind", but_one_in=2)
@pytest.mark.slow("compiles")
@pytest.mark.parametrize(
    "params",
    [
        {"kernel_size": 1, "max_displacement": 4, "pad_size": 4},
        {"kernel_size": 3, "max_displacement": 4, "pad_size": 5, "stride1": 2},
        {"kernel_size": 3, "max_displacement": 3, "pad_size": 4, "is_multiply": False},
    ],
)
def test_displacements_of_long_rows_at_once_are_those_one_by_one(
    params: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    rng = np.random.RandomState(0)
    args = {name: rng.rand(2, 3, 6, 7).astype(np.float32) for name in "ab"}
    net = correlation(**params)
    head = rng.randn(*net.infer_shape(a=(2, 3, 6, 7))[1][0]).astype(np.float32)
    found = []
    for sliced in (32, 1):
        monkeypatch.setattr(rules, "_SLICED", sliced)
        outputs, gradients, _ = evaluated(lowering.grad_fn(net), args, head_grads=[head])
        found.append((outputs[0], gradients["a"], gradients["b"]))
    for one_by_one, at_once in zip(*found, strict=True):
        assert_close(at_once, one_by_one, 1e-5, "displacements")


@pytest.mark.nightly("compiles")
def test_a_neighbourhood_of_thousands_compiles_in_no_time():
    """Each displacement of a row was a slice of the program, which XLA took a tenth of a second to compile."""
    start = time.process_time()
    ones = np.ones((1, 1, 4, 4), np.float32)
    out = lowering.compile(correlation(max_displacement=1000, pad_size=1000, stride2=2))({"a": ones, "b": ones})[0][0]
    assert out.shape == (1, 1001**2, 4, 4)
    assert float(out[0, :, 0, 0].sum()) == 4  # every other place of the other map
    assert time.process_time() - start < 30
