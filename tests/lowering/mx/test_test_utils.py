"""`mx.test_utils`: what is right passes, what is wrong fails."""

from __future__ import annotations

import numpy as np
import pytest

import symjax_nnvm as nn
from lowering import mx
from lowering.mx import test_utils as tu

X, Y = np.array([[1.0, 2], [3, 4]], np.float32), np.array([[2.0, 0.5], [1, 3]], np.float32)


def product() -> mx.sym.Symbol:
    """x · y, of each element."""
    return mx.sym.Variable("x") * mx.sym.Variable("y")


def test_outputs():
    tu.check_symbolic_forward(product(), [X, Y], [X * Y])
    tu.check_symbolic_forward(product(), {"y": Y, "x": X}, [X * Y], aux_states={})
    with pytest.raises(AssertionError, match="EXPECTED_.* differ"):
        tu.check_symbolic_forward(product(), [X, Y], [X])
    with pytest.raises(nn.CallError, match="do not match the names given"):
        tu.check_symbolic_forward(product(), {"x": X}, [X])
    assert tu.same(tu.simple_forward(product(), x=X, y=Y), X * Y)


def test_gradients():
    head = np.full((2, 2), 3, np.float32)
    tu.check_symbolic_backward(product(), [X, Y], [head], [3 * Y, 3 * X])
    tu.check_symbolic_backward(product(), [X, Y], [head], {"x": 3 * Y}, grad_req={"x": "add"})
    with pytest.raises(AssertionError, match="BACKWARD_x"):
        tu.check_symbolic_backward(product(), [X, Y], [head], [3 * X, 3 * X])


def test_finite_differences():
    tu.check_numeric_gradient(mx.sym.tanh(product()), [X, Y])
    net = mx.sym.BatchNorm(mx.sym.Variable("x"), fix_gamma=False, name="bn")
    states = {"bn_moving_mean": np.zeros(2), "bn_moving_var": np.ones(2)}
    tu.check_numeric_gradient(net, {"x": X, "bn_gamma": Y[0], "bn_beta": Y[1]}, states, grad_nodes=["x", "bn_gamma"])

    class Wrong(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            self.assign(out_data[0], req[0], in_data[0].asnumpy() ** 2)

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            self.assign(in_grad[0], req[0], out_grad[0].asnumpy())

    @mx.operator.register("_test_wrong")
    class WrongProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx, in_shapes, in_dtypes):
            return Wrong()

    assert WrongProp
    with pytest.raises(AssertionError, match="NUMERICAL_x and BACKWARD_x differ"):
        tu.check_numeric_gradient(mx.sym.Custom(mx.sym.Variable("x"), op_type="_test_wrong"), [X])


def test_comparing_and_drawing():
    tu.assert_almost_equal(mx.nd.array(X), X + 1e-5)
    assert not tu.almost_equal(X, X + 1)
    with pytest.raises(AssertionError, match="have shapes"):
        tu.assert_almost_equal(X, X[0], use_broadcast=False)
    assert tu.rand_ndarray((2, 3)).shape == tu.random_arrays((2, 3)).shape == (2, 3)
    assert [len(tu.rand_shape_2d()), len(tu.rand_shape_3d()), len(tu.rand_shape_nd(4))] == [2, 3, 4]
    assert (tu.default_context(), tu.default_dtype()) == (mx.cpu(), np.float32)
    tu.set_default_context(mx.cpu(2))
    assert tu.default_context() == mx.cpu(2)
    tu.set_default_context(mx.cpu())
    assert len(tu.list_gpus()) == mx.num_gpus()
