"""`mx.operator.NumpyOp`, `NDArrayOp`, and what operators there are."""

from typing import Any

import numpy as np
import pytest

from lowering import mx
from lowering.mx import test_utils as tu


def test_a_loss_in_numpy():
    class Squares(mx.operator.NumpyOp):
        def list_arguments(self) -> list[str]:
            return ["data", "label"]

        def infer_shape(self, in_shape: Any) -> Any:
            return [in_shape[0], in_shape[0][:1]], [in_shape[0]]

        def forward(self, in_data: Any, out_data: Any) -> None:
            assert isinstance(in_data[0], np.ndarray)
            out_data[0][:] = in_data[0] * 2

        def backward(self, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any) -> None:
            assert out_grad == []
            in_grad[0][:] = out_data[0] - in_data[1][:, None]
            in_grad[1][:] = 0

    with pytest.warns(UserWarning, match="Squares has been deprecated. Please use CustomOp"):
        squares = Squares(need_top_grad=False)
    net = squares(data=mx.sym.Variable("data"), name="loss")
    assert net.list_arguments() == ["data", "loss_label"]
    assert net.list_outputs() == ["loss_output"]
    executor = net.simple_bind(mx.cpu(), data=(2, 3))
    x, y = np.arange(6.0).reshape(2, 3), np.array([1.0, -1])
    (out,) = executor.forward(is_train=True, data=mx.nd.array(x), loss_label=mx.nd.array(y))
    executor.backward()
    np.testing.assert_array_equal(out.asnumpy(), x * 2)
    np.testing.assert_array_equal(np.asarray(executor.grad_dict["data"]), x * 2 - y[:, None])


@pytest.mark.slow("compiles")
def test_one_of_ndarrays():
    class Product(mx.operator.NDArrayOp):
        def list_arguments(self) -> list[str]:
            return ["a", "b"]

        def forward(self, in_data: Any, out_data: Any) -> None:
            out_data[0][:] = in_data[0] * in_data[1]

        def backward(self, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any) -> None:
            in_grad[0][:] = out_grad[0] * in_data[1]
            in_grad[1][:] = out_grad[0] * in_data[0]

    with pytest.warns(UserWarning, match="deprecated"):
        first, second = Product(), Product()
    a, b = mx.sym.Variable("a"), mx.sym.Variable("b")
    x, y = np.array([[1.0, 2]], np.float32), np.array([[3.0, 4]], np.float32)
    heads = [np.array([[1.0, 10]], np.float32)]
    for net in (first.get_symbol(a, b), second(a=a, b=b)):
        tu.check_symbolic_forward(net, [x, y], [x * y])
        tu.check_symbolic_backward(net, [x, y], heads, [heads[0] * y, heads[0] * x])
    assert first.need_top_grad()


def test_what_is_there_by_default():
    with pytest.warns(UserWarning, match="deprecated"):
        plain, nothing = mx.operator.NumpyOp(), mx.operator.PythonOp()
    net = plain(mx.sym.Variable("x"))
    tu.check_symbolic_forward(net, [np.ones((2, 2))], [np.ones((2, 2))])
    tu.check_symbolic_backward(net, [np.ones((2, 2))], [np.zeros((2, 2))], [np.ones((2, 2))])
    with pytest.raises(NotImplementedError, match="NumpyOp"):
        nothing(mx.sym.Variable("x"))


def test_operators_and_their_arguments():
    assert {"Activation", "FullyConnected"} <= set(mx.operator.get_all_registered_operators())
    found = mx.operator.get_operator_arguments("Activation")
    assert isinstance(found, mx.operator.OperatorArguments)
    kinds = ["NDArray-or-Symbol", "{'relu', 'sigmoid', 'softrelu', 'softsign', 'tanh'}, required"]
    assert found == (2, ["data", "act_type"], kinds)
    assert mx.operator.get_operator_arguments("FullyConnected").types[3] == "int, required"
    with pytest.raises(mx.MXNetError, match="Activaton"):
        mx.operator.get_operator_arguments("Activaton")
