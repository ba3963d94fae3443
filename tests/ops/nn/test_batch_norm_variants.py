"""BatchNorm_v1, SyncBatchNorm and BatchNormWithReLU: what tells them from BatchNorm."""

# Some calls are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

from typing import Any

import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from tests.support.comparison import assert_close
from tests.support.traced import evaluated

DATA = sym.Variable("data")
VARIANTS = {"BatchNorm_v1": {}, "_contrib_SyncBatchNorm": {"key": "k"}, "_contrib_BatchNormWithReLU": {}}


def variant(name: str, **params: Any) -> sym.Symbol:
    return getattr(sym, name)(DATA, name="bn", **VARIANTS.get(name, {}), **params)


def run(net: sym.Symbol, *, is_train: bool) -> tuple[list[Any], dict[str, Any], dict[str, np.ndarray]]:
    """(outputs, new auxiliary states, old ones)."""
    rng = np.random.RandomState(3)
    args = {"data": rng.randn(4, 3, 2), "bn_gamma": rng.uniform(0.5, 1.5, 3), "bn_beta": rng.randn(3)}
    aux = {"bn_moving_mean": rng.randn(3), "bn_moving_var": rng.uniform(0.5, 2, 3)}
    aux = {key: value.astype(np.float32) for key, value in aux.items()}
    narrow = {key: value.astype(np.float32) for key, value in args.items()}
    outputs, new = evaluated(lowering.to_jax(net, is_train=is_train), narrow, aux)
    return outputs, new, aux


@pytest.mark.parametrize("is_train", [True, False])
@pytest.mark.parametrize("name", VARIANTS)
def test_output_and_moving_statistics_are_those_of_batch_norm(name: str, is_train: bool):
    (ours, *_), new, _ = run(variant(name, fix_gamma=False, momentum=0.7, eps=0.01), is_train=is_train)
    plain = sym.BatchNorm(DATA, name="bn", fix_gamma=False, momentum=0.7, eps=0.01)
    (expected,), expected_new, _ = run(plain, is_train=is_train)
    np.testing.assert_array_equal(ours, np.maximum(expected, 0) if "ReLU" in name else expected)
    for key, value in new.items():
        np.testing.assert_array_equal(value, expected_new[key])


@pytest.mark.parametrize("name", ["BatchNorm_v1", "_contrib_SyncBatchNorm"])
def test_the_output_var_is_the_variance(name: str):
    """Where moving statistics are used these are meant; MXNet's SyncBatchNorm leaves them undefined."""
    net = variant(name, output_mean_var=True, eps=0.01)
    (_, _, variance), *_ = run(net, is_train=True)
    (_, _, scale), *_ = run(sym.BatchNorm(DATA, name="bn", output_mean_var=True, eps=0.01), is_train=True)
    assert_close(variance, 1 / np.square(scale) - 0.01, 1e-5, "var")
    (_, mean, variance), _, aux = run(net, is_train=False)
    np.testing.assert_array_equal(mean, aux["bn_moving_mean"])
    np.testing.assert_array_equal(variance, aux["bn_moving_var"])


@pytest.mark.parametrize("name", VARIANTS)
def test_inference(name: str):
    net = variant(name)
    assert net.infer_shape_partial(data=(0, 3, 0))[2] == [(3,), (3,)]
    assert net.infer_type(data="float16")[0][1:] == [np.float32] * 2
    assert net.list_auxiliary_states() == ["bn_moving_mean", "bn_moving_var"]
    assert net.attr_dict()["bn_moving_var"]["__init__"] == '["one", {}]'
    with pytest.raises(InferenceError, match="Channel axis out of range: 1"):
        net.infer_shape(data=(5,))
    with pytest.raises(InferenceError, match="floating point types, not int32"):
        net.infer_type(data="int32")


def test_the_key_is_required():
    with pytest.raises(ParamError, match="Required parameter key of string"):
        sym._contrib_SyncBatchNorm(DATA)
