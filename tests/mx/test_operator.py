"""`mx.operator`: operators in Python within compiled programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symjax_nnvm as nn
from lowering import mx


class _Scaled(mx.operator.CustomOp):
    """(scale · x, x + counts), and how often it ran."""

    def __init__(self, scale: float):
        self.scale = scale

    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        aux[0][:] = aux[0] + 1
        self.seen = in_data[0].asnumpy().sum()
        self.assign(out_data[0], req[0], in_data[0] * self.scale)
        self.assign(out_data[1], "add", in_data[0] + aux[0])

    def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        self.assign(in_grad[0], req[0], out_grad[0] * self.scale + out_grad[1] * 100 + mx.nd.array([self.seen]))


@mx.operator.register("_test_scaled_count")
class _ScaledProp(mx.operator.CustomOpProp):
    def __init__(self, scale: str = "1"):
        super().__init__()
        self.scale = float(scale)

    def list_outputs(self) -> list[str]:
        return ["scaled", "shifted"]

    def list_auxiliary_states(self) -> list[str]:
        return ["count"]

    def infer_shape(self, in_shape: Any) -> Any:
        return in_shape, [in_shape[0]] * 2, [[1]]

    def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> _Scaled:
        assert (in_shapes, in_dtypes) == ([[1]], [np.float32])
        return _Scaled(self.scale)


def test_outputs_states_and_what_the_operator_keeps():
    net = mx.sym.Custom(mx.sym.Variable("x"), op_type="_test_scaled_count", scale=3, name="op")
    assert net.list_outputs() == ["op_scaled", "op_shifted"]
    assert net.list_auxiliary_states() == ["op_count"]
    ex = net.simple_bind(mx.cpu(), x=(1,))
    ex.arg_dict["x"][:] = 2
    for _ in range(2):
        ex.forward(is_train=True)
    assert [out.asscalar() for out in ex.outputs] == [6, 4]
    assert ex.aux_dict["op_count"].asscalar() == 2
    ex.backward([mx.nd.ones(1), mx.nd.ones(1)])
    assert ex.grad_dict["x"].asscalar() == 3 + 100 + 2  # pyright: ignore


def test_a_new_operator_of_a_name_takes_the_old_ones_place():
    @mx.operator.register("_test_replaced")
    class First(mx.operator.CustomOpProp):
        pass

    @mx.operator.register("_test_replaced")
    class Second(mx.operator.CustomOpProp):
        def list_outputs(self) -> list[str]:
            return ["other"]

    assert First is not Second
    assert mx.sym.Custom(mx.sym.Variable("x"), op_type="_test_replaced", name="op").list_outputs() == ["op_other"]


def test_what_does_not_fit_is_told():
    x = mx.sym.Variable("x")
    with pytest.raises(nn.ParamError, match=r"does not take these parameters.*_test_scaled_count"):
        mx.sym.Custom(x, op_type="_test_scaled_count", size=3)

    @mx.operator.register("_test_shapeless")
    class Shapeless(mx.operator.CustomOpProp):
        def infer_shape(self, in_shape: Any) -> Any:
            return in_shape, []

    assert issubclass(Shapeless, mx.operator.CustomOpProp)
    with pytest.raises(
        nn.InferenceError, match="Shapeless.infer_shape gives other than one shape for each of the outputs"
    ):
        mx.sym.Custom(x, op_type="_test_shapeless").infer_shape(x=(2,))
