"""`mx.operator`: operators in Python, between compiled programs and within them."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import jax
import numpy as np
import pytest

import lowering
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


# -- how the Python runs ---------------------------------------------------------------------------------------------


class _Told(mx.operator.CustomOp):
    """x · x computed by `mx.nd`; tells in which thread it ran, and raises what it is told to."""

    threads: ClassVar[list[int]] = []
    raises: ClassVar[dict[str, BaseException]] = {}

    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        self._tell("forward")
        self.assign(out_data[0], req[0], mx.nd.broadcast_mul(in_data[0], in_data[0]))

    def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        self._tell("backward")
        self.assign(in_grad[0], req[0], 2 * in_data[0] * out_grad[0])

    def _tell(self, method: str) -> None:
        self.threads.append(threading.get_ident())
        if method in self.raises:
            raise self.raises[method]


@mx.operator.register("_test_told")
class _ToldProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> _Told:
        return _Told()


@pytest.fixture
def told() -> Iterator[type[_Told]]:
    _Told.threads.clear()
    yield _Told
    _Told.raises.clear()


def _told(x: Any) -> Any:
    return mx.sym.Custom(x, op_type="_test_told", name="told")


def test_python_runs_in_the_thread_of_the_caller(told: type[_Told]):
    net = mx.sym.sum(_told(mx.sym.Variable("x") + 1) * 3)
    ex = net.simple_bind(mx.cpu(), x=(2,))
    head = mx.nd.ones(1)
    for run in (lambda: ex.forward(is_train=True) and ex.backward(head), lambda: ex.forward_backward(head)):
        ex.arg_dict["x"][:] = 1
        run()
        assert ex.outputs[0].asscalar() == 24
        assert ex.grad_dict["x"].asnumpy().tolist() == [12, 12]  # pyright: ignore
    args = {"x": np.ones(2, np.float32)}
    assert lowering.compile(net)(args)[0][0] == 24
    assert lowering.to_jax(net)(args)[0][0] == 24
    assert lowering.grad_fn(net)(args)[1]["x"].tolist() == [12, 12]
    x = mx.nd.ones(2)
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.Custom(x + 1, op_type="_test_told") * 3
    y.backward()
    assert x.grad.asnumpy().tolist() == [12, 12]  # pyright: ignore
    assert set(told.threads) == {threading.get_ident()}
    assert len(told.threads) == 10


def test_a_trainer_runs_it_between_its_programs(told: type[_Told]):
    net = mx.sym.MakeLoss(_told(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1, no_bias=True, name="fc")))
    trainer = lowering.Trainer(net, "sgd", {"learning_rate": 0.5, "rescale_grad": 1.0}, label_names=())
    trainer.init(0, {"fc_weight": np.ones((1, 1), np.float32)}, data=(1, 1))
    trainer.fit([{"data": np.ones((1, 1), np.float32)}], epochs=1, metrics="loss", progress=False)
    assert trainer.state is not None
    assert trainer.state.params["fc_weight"].tolist() == [[0]]
    assert trainer.predict([{"data": np.ones((1, 1), np.float32)}])[0].tolist() == [[0]]
    assert set(told.threads) == {threading.get_ident()}


@pytest.mark.parametrize("method", ["forward", "backward"])
def test_what_it_raises_is_mxnets_error_of_the_node(told: type[_Told], method: str):
    ex = _told(mx.sym.Variable("x")).simple_bind(mx.cpu(), x=(1,))
    told.raises[method] = KeyError("the words of the operator")
    words = f"_ToldProp's CustomOp.{method} raised KeyError: 'the words of the operator'.*'told(_backward)?'"
    with pytest.raises(mx.MXNetError, match=words) as caught:
        ex.forward_backward(mx.nd.ones(1))
    assert caught.value.__cause__ is told.raises[method]
    del told.raises[method]
    ex.arg_dict["x"][:] = 3
    assert ex.forward(is_train=True)[0].asscalar() == 9
    ex.backward(mx.nd.ones(1))
    assert ex.grad_dict["x"].asscalar() == 6  # pyright: ignore


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), SystemExit(3), nn.ParamError("of ours")])
def test_what_is_no_mistake_of_its_own_passes_through(told: type[_Told], raised: BaseException):
    told.raises["forward"] = raised
    with pytest.raises(type(raised)) as caught:
        mx.nd.Custom(mx.nd.ones(1), op_type="_test_told")
    assert caught.value is raised


def test_what_it_computes_is_not_recorded(told: type[_Told]):
    @mx.operator.register("_test_states")
    class Prop(mx.operator.CustomOpProp):
        def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> mx.operator.CustomOp:
            class Op(mx.operator.CustomOp):
                def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
                    seen.append((is_train, mx.autograd.is_training(), mx.autograd.is_recording()))

            return Op()

    assert Prop
    seen: list[Any] = []
    with mx.autograd.record():
        mx.nd.Custom(mx.nd.ones(1), op_type="_test_states")
        assert mx.autograd.is_recording()
    mx.nd.Custom(mx.nd.ones(1), op_type="_test_states")
    assert seen == [(True, True, False), (False, False, False)]


def test_several_follow_each_other_and_are_within_each_other(told: type[_Told]):
    @mx.operator.register("_test_outer")
    class Prop(mx.operator.CustomOpProp):
        def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> mx.operator.CustomOp:
            return Outer()

    class Outer(mx.operator.CustomOp):
        def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
            inner = _told(mx.sym.Variable("x")).bind(mx.cpu(), {"x": in_data[0]}).forward()[0]
            self.assign(out_data[0], req[0], mx.nd.Custom(inner, op_type="_test_told"))

        def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
            x = in_data[0].copy()
            x.attach_grad()
            with mx.autograd.record():
                y = mx.nd.Custom(mx.nd.Custom(x, op_type="_test_told"), op_type="_test_told")
            y.backward(out_grad[0])
            self.assign(in_grad[0], req[0], x.grad)

    assert Prop
    net = mx.sym.Custom(_told(_told(mx.sym.Variable("x"))), op_type="_test_outer", name="outer") + 1
    ex = net.simple_bind(mx.cpu(), x=(1,))
    names: list[str] = []
    ex.set_monitor_callback(lambda name, array: names.append(f"{name} {(array + 0).asscalar():.0f}"))
    for _ in range(2):
        ex.arg_dict["x"][:] = 1.5
        out = ex.forward(is_train=True)[0].asscalar()
        ex.backward(mx.nd.ones(1))
        assert out == pytest.approx(1.5**16 + 1)
        assert ex.grad_dict["x"].asscalar() == pytest.approx(16 * 1.5**15)  # pyright: ignore
        ex.set_monitor_callback(None)
    assert names[:3] == ["told_output 2", "told_output 5", "outer_output 657"]


def test_in_the_body_of_a_loop_a_program_calls_it(told: type[_Told]):
    data = mx.sym.Variable("data")
    body = lambda x, state: (_told(x) + state, state + 1)  # noqa: E731
    outputs, _ = mx.sym.contrib.foreach(body, data, mx.sym.zeros((2,)))
    ex = outputs.simple_bind(mx.cpu(), data=(3, 2))
    ex.arg_dict["data"][:] = np.arange(6).reshape(3, 2)
    ex.forward(is_train=True)
    ex.backward(mx.nd.ones((3, 2)))
    assert ex.outputs[0].asnumpy().tolist() == [[0, 1], [5, 10], [18, 27]]
    assert ex.grad_dict["data"].asnumpy().tolist() == [[0, 2], [4, 6], [8, 10]]  # pyright: ignore


_SCRIPT = Path(__file__).parent / "custom_script.py"


@pytest.mark.parametrize("how", ["module", "fit", "modules", "jit", "threads", "predictor"])
def test_it_ends_when_programs_wait_for_it(how: str):
    ran = subprocess.run([sys.executable, _SCRIPT, how], timeout=120, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout.split()) == (0, ["ended"]), ran.stderr


class _Counted(mx.operator.CustomOp):
    """Multiplies by the number of its run, in both directions."""

    runs = 0

    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        type(self).runs += 1
        self.factor = type(self).runs
        self.assign(out_data[0], req[0], in_data[0] * self.factor)

    def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        self.assign(in_grad[0], req[0], out_grad[0] * self.factor)


@mx.operator.register("_test_counted")
class _CountedProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> _Counted:
        return _Counted()


def test_each_call_of_autograd_has_an_operator_of_its_own():
    """What `forward` keeps on `self` is there in the `backward` of its call: MXNet 1.9.1 gives the same numbers."""
    _Counted.runs = 0
    x: Any = mx.nd.ones((2,))
    z: Any = mx.nd.ones((2,))
    x.attach_grad()
    z.attach_grad()
    with mx.autograd.record():
        twice = mx.nd.Custom(mx.nd.Custom(x, op_type="_test_counted"), op_type="_test_counted")
    twice.backward()
    assert (twice.asnumpy()[0], x.grad.asnumpy()[0]) == (2, 2)
    with mx.autograd.record():
        first = mx.nd.Custom(x, op_type="_test_counted")
    with mx.autograd.record():
        second = mx.nd.Custom(z, op_type="_test_counted")
    first.backward()
    second.backward()
    assert (first.asnumpy()[0], x.grad.asnumpy()[0], second.asnumpy()[0], z.grad.asnumpy()[0]) == (3, 3, 4, 4)


def test_what_computes_is_kept_for_the_shapes_used_last():
    node = mx.sym.Custom(mx.sym.Variable("data"), op_type="_test_counted").outputs[0].node
    operator = node.attrs.parsed
    made = [operator.computes([jax.ShapeDtypeStruct((length,), np.float32)]) for length in range(100)]
    assert len(operator._made) == 64
    assert operator.computes([jax.ShapeDtypeStruct((99,), np.float32)]) is made[99]
    assert operator.computes([jax.ShapeDtypeStruct((0,), np.float32)]) is not made[0]
