"""L2Normalization, LRN and moments: refusals, ranks and laws that the table of cases does not show."""

from typing import Any

import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import NNVMError
from tests.support.comparison import assert_close
from tests.support.refusals import refused
from tests.support.traced import evaluated

DATA = sym.Variable("data")


def value(net: sym.Symbol, data: np.ndarray) -> np.ndarray:
    (out, *_), _ = evaluated(lowering.to_jax(net), {"data": data})
    return np.asarray(out)


@pytest.mark.parametrize(
    ("name", "params", "shape", "words"),
    [
        ("L2Normalization", {"mode": "channel"}, (2, 3), ("mode", "At least 3 dimensions", "channel")),
        ("L2Normalization", {"mode": "spatial"}, (2, 3), ("mode", "At least 3 dimensions", "spatial")),
        ("L2Normalization", {"mode": "batch"}, (2, 3), ("mode", "'channel', 'instance', 'spatial'")),
        ("LRN", {"nsize": 2}, (2, 3, 4, 4), ("nsize=2", "only supports odd values")),
        ("LRN", {"nsize": 0}, (2, 3, 4, 4), ("nsize", "≥ 1")),
        ("LRN", {"nsize": 3}, (5,), ("No axis of channels", "(5,)")),
        ("moments", {}, (2, 3), ("Empty axes is not supported",)),
        ("moments", {"axes": (2,)}, (2, 3), ("axis", "-2 ≤ axis < 2")),
        ("moments", {"axes": (0, -2)}, (2, 3), ("named twice",)),
    ],
)
def test_refusals_are_named(name: str, params: dict[str, Any], shape: tuple[int, ...], words: tuple[str, ...]):
    with refused(NNVMError, name, *words):
        getattr(sym, name)(DATA, name="op", **params).infer_shape(data=shape)


def test_norms_are_hidden():
    assert sym.L2Normalization(DATA, name="op").list_outputs() == ["op_output"]
    assert sym.LRN(DATA, nsize=3, name="op").list_outputs() == ["op_output"]


def test_zeros_stay_zeros():
    np.testing.assert_array_equal(value(sym.L2Normalization(DATA), np.zeros((2, 3), np.float32)), np.zeros((2, 3)))


@pytest.mark.parametrize("nsize", [3, 21])
@pytest.mark.parametrize("shape", [(2, 5), (2, 5, 3), (1, 24, 2, 2)])
def test_lrn_by_its_definition(nsize: int, shape: tuple[int, ...]):
    x = np.random.RandomState(0).randn(*shape)
    squares = np.stack(
        [(x[:, max(0, c - nsize // 2) : c + nsize // 2 + 1] ** 2).sum(1) for c in range(shape[1])], axis=1
    )
    expected = x / (1.5 + 0.5 / nsize * squares) ** 0.6
    ours = value(sym.LRN(DATA, nsize=nsize, alpha=0.5, beta=0.6, knorm=1.5), x.astype(np.float32))
    assert_close(ours, expected, 1e-5, "output")


def test_the_variance_survives_a_mean_a_thousand_times_the_deviation():
    x = (np.random.RandomState(0).randn(4, 256) + 1000).astype(np.float32)
    (mean, variance), _ = evaluated(lowering.to_jax(sym.moments(DATA, axes=(1,))), {"data": x})
    assert_close(mean, x.astype(np.float64).mean(1), 1e-6, "mean")
    assert_close(variance, x.astype(np.float64).var(1), 1e-5, "variance")


def test_half_precision_moments_do_not_overflow():
    x = np.full((1, 70000), 2, np.float16)
    (mean, variance), _ = evaluated(lowering.to_jax(sym.moments(DATA, axes=(1,))), {"data": x})
    assert (float(mean[0]), float(variance[0])) == (2, 0)
