"""Types of `Custom` under which files of MXNet's NumPy dialect have functions that MXNet computes in Python."""

from typing import Any

import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import GradientError, InferenceError
from tests.support.traced import evaluated

X = np.arange(6, dtype=np.float32).reshape(2, 3) + 1
PLACES = np.array([[7, 2]], np.int32)

# What `HybridBlock.export` of MXNet 1.9.1 wrote of F.np.resize(x, 5).
EXPORTED = """{
  "nodes": [
    {
      "op": "null", 
      "name": "data", 
      "inputs": []
    }, 
    {
      "op": "Custom", 
      "name": "net0_custom0", 
      "attrs": {
        "new_shape": "5", 
        "op_type": "resize_fallback"
      }, 
      "inputs": [[0, 0, 0]]
    }
  ], 
  "arg_nodes": [0], 
  "node_row_ptr": [0, 1, 2], 
  "heads": [[1, 0, 0]], 
  "attrs": {
    "is_np_shape": ["int", 1], 
    "mxnet_version": ["int", 10901]
  }
}"""  # noqa: W291


def node(op_type: str, *inputs: str, **attrs: Any) -> sym.Symbol:
    return sym.Custom(*map(sym.Variable, inputs), op_type=op_type, **attrs)


@pytest.mark.parametrize(
    ("net", "array", "expected"),
    [
        (node("resize_fallback", "x", new_shape="(2, 4)"), X, np.resize(X, (2, 4))),
        (node("resize_fallback", "x", new_shape="5"), X, np.resize(X, 5)),
        (node("resize_fallback", "x", new_shape="(2, 2)"), X[:, :0], np.zeros((2, 2), np.float32)),
        (node("unravel_index_fallback", "x", shape="(3, 4)"), PLACES, np.array([[[1, 0]], [[3, 2]]], np.int32)),
        (node("unravel_index_fallback", "x", shape="12"), PLACES, PLACES[None]),
        (
            node("empty_like_fallback", "x", dtype="int32", order="C", shape="None", subok="False"),
            X,
            np.zeros((2, 3), np.int32),
        ),
        (node("empty_like_fallback", "x", dtype="None", order="C", shape="None", subok="False"), X, np.zeros_like(X)),
    ],
)
def test_they_compute_what_numpy_does(net: sym.Symbol, array: np.ndarray, expected: np.ndarray):
    (found,), _ = evaluated(lowering.to_jax(net), {"x": array})
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(found, expected)
    if array.size:  # a size of 0 is an unknown one outside of np_shape
        assert net.infer_shape(x=array.shape)[1] == [expected.shape]
    assert net.infer_type(x=array.dtype)[1] == [expected.dtype]


@pytest.mark.slow("compiles")
def test_vectors_of_a_normal_distribution_have_its_covariance():
    net, cov = node("mvn_fallback", "mean", "cov", size="(4000,)"), np.array([[2, 0.5], [0.5, 1]], np.float32)
    args = {"mean": np.array([[1, 2], [3, 4]], np.float32), "cov": cov}
    assert net.infer_shape(mean=(2, 2), cov=(2, 2))[1] == [(4000, 2, 2)]
    (drawn,), _ = evaluated(lowering.to_jax(net), args, key=np.array([0, 1], np.uint32))
    np.testing.assert_allclose(np.mean(drawn, 0), args["mean"], atol=0.1)
    np.testing.assert_allclose(np.cov(np.asarray(drawn)[:, 0].T), cov, atol=0.15)
    with pytest.raises(InferenceError):
        net.infer_shape(mean=(3,), cov=(2, 2))


def test_a_file_of_mxnets_is_loaded_and_comes_back():
    net = sym.load_json(EXPORTED)
    assert net.tojson() == EXPORTED
    assert net.infer_shape(data=(2, 3))[1] == [(5,)]


def test_none_has_a_gradient():
    with pytest.raises(GradientError, match="resize_fallback"):
        lowering.grad_fn(node("resize_fallback", "x", new_shape="5"), ["x"])
