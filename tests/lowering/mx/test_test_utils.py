"""`mx.test_utils`: what is right passes, what is wrong fails."""

import numpy as np
import pytest

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
    with pytest.raises(ValueError, match="do not match what is given"):
        tu.check_symbolic_forward(product(), {"x": X}, [X])
    assert tu.same(tu.simple_forward(product(), x=X, y=Y), X * Y)


def test_gradients():
    head = np.full((2, 2), 3, np.float32)
    tu.check_symbolic_backward(product(), [X, Y], [head], [3 * Y, 3 * X])
    tu.check_symbolic_backward(product(), [X, Y], [head], {"x": 3 * Y}, grad_req={"x": "add"})
    with pytest.raises(AssertionError, match="BACKWARD_x"):
        tu.check_symbolic_backward(product(), [X, Y], [head], [3 * X, 3 * X])


@pytest.mark.slow("compiles")
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


def test_dtypes_as_they_are():
    net = mx.sym.take(mx.sym.Variable("a"), mx.sym.Variable("indices"))
    indices = np.array([1, 0], np.int32)
    (out,) = tu.check_symbolic_forward(net, [X, mx.nd.array(indices, dtype="int32")], [X[[1, 0]]])
    assert out.dtype == np.float32
    half = {"x": X.astype(np.float16), "y": Y.astype(np.float16)}
    (out,) = tu.check_symbolic_forward(product(), half, [X * Y], dtype="asnumpy")
    assert out.dtype == np.float16
    heads = [np.ones((2, 2), np.float16)]
    wanted = {"x": half["y"], "y": half["x"]}
    grads = tu.check_symbolic_backward(product(), half, heads, wanted, dtype="asnumpy", grad_req="add")
    assert {name: grad.dtype for name, grad in grads.items()} == {"x": np.float16, "y": np.float16}
    tu.check_symbolic_backward(product(), [X, Y], heads, [Y], grad_req="null")
    with pytest.raises(AssertionError, match="BACKWARD_x"):
        tu.check_symbolic_backward(product(), [X, Y], heads, [Y + 1, X], grad_req=["add", "write"])


def test_a_network_that_says_a_narrower_dtype():
    x = mx.sym.Variable("x")
    for net in (mx.sym.norm(x, out_dtype="float32"), mx.sym.cast(x, "float32"), mx.sym.exp(mx.sym.cast(x, "float32"))):
        tu.check_numeric_gradient(net, [X])
        tu.check_numeric_gradient(net, [X], numeric_eps=1e-2, rtol={np.float32: 1e-2}, atol=1e-3)
    wrong = mx.sym.cast(mx.sym.BlockGrad(x), "float32")
    with pytest.raises(AssertionError, match="NUMERICAL_x"):
        tu.check_numeric_gradient(wrong, [X])


@pytest.mark.slow("computes much")
def test_gradients_that_are_not_asked_for():
    x = mx.sym.Variable("x")
    net = x * mx.sym.Variable("y") + mx.sym.BlockGrad(x)
    tu.check_numeric_gradient(net, {"x": X, "y": Y}, grad_nodes={"x": "null", "y": "write"})
    tu.check_numeric_gradient(net, {"x": X, "y": Y}, grad_nodes=("y",), rtol={np.dtype("float32"): 1e-3}, atol=1e-4)
    with pytest.raises(AssertionError, match="NUMERICAL_x"):
        tu.check_numeric_gradient(net, {"x": X, "y": Y}, grad_nodes={"x": "write", "y": "null"})


def test_central_differences_of_an_executor():
    executor = mx.sym.BatchNorm(mx.sym.Variable("x"), fix_gamma=False, name="bn").simple_bind(mx.cpu(), x=(2, 2))
    states = {"bn_moving_mean": np.zeros(2), "bn_moving_var": np.ones(2)}
    values = {"x": X, "bn_gamma": np.ones(2, np.float32), "bn_beta": np.zeros(2, np.float32)}
    found = tu.numeric_grad(executor, values, states, eps=1e-2, use_forward_train=False)
    np.testing.assert_allclose(found["x"], np.ones((2, 2)), rtol=2e-3)
    np.testing.assert_allclose(found["bn_beta"], [2, 2], rtol=2e-3)
    np.testing.assert_array_equal(executor.arg_dict["x"].asnumpy(), X)
    assert found["x"].dtype == np.float32
    whole = tu.numeric_grad(product().bind(mx.cpu(), {"x": mx.nd.array(X), "y": mx.nd.array(Y)}), {"x": X.astype(int)})
    assert not whole["x"].any()


def test_what_a_star_import_gives():
    given: dict[str, object] = {}
    exec("from lowering.mx.test_utils import *", given)
    assert given["mx"] is mx
    assert given.keys() >= {"np", "os", "sys", "logging", "rnd", "npt", "array", "Context", "assert_almost_equal"}


def test_names_that_are_not_here():
    with pytest.raises(AttributeError, match="no attribute 'shuffle_csr_column_indices'. Arrays are dense here"):
        _ = tu.shuffle_csr_column_indices
    with pytest.raises(AttributeError, match="Did you mean 'rand_ndarray'"):
        _ = tu.rand_ndaray
