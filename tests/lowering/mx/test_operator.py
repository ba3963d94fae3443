"""`mx.operator`: operators in Python, between compiled programs and within them."""

import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from traceback import format_exception_only
from typing import Any, ClassVar

import jax
import numpy as np
import pytest

import lowering
import symjax_nnvm as nn
from lowering import mx
from tests.support import warm


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
    with pytest.raises(nn.InferenceError, match="Shapeless.infer_shape must return one shape for each of the outputs"):
        mx.sym.Custom(x, op_type="_test_shapeless").infer_shape(x=(2,))


def test_an_operator_may_have_no_inputs():
    @mx.operator.register("_test_no_inputs")
    class Prop(mx.operator.CustomOpProp):
        def __init__(self, length: str):
            super().__init__()
            self.length = int(length)

        def list_arguments(self) -> list[str]:
            return []

        def infer_shape(self, in_shape: Any) -> Any:
            return [], [(self.length,)], []

        def infer_type(self, in_type: Any) -> Any:
            return [], [np.float32], []

        def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> mx.operator.CustomOp:
            class Op(mx.operator.CustomOp):
                def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
                    self.assign(out_data[0], req[0], 7)

            return Op()

    assert Prop
    assert mx.nd.Custom(length=3, op_type="_test_no_inputs").asnumpy().tolist() == [7, 7, 7]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.filterwarnings("ignore::symjax_nnvm.errors.NarrowedDtypeWarning")
def test_an_operator_may_have_states_alone(dtype: str):
    class Twice(mx.operator.CustomOp):
        def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
            self.assign(out_data[0], req[0], 2 * aux[0])

    class Prop(mx.operator.CustomOpProp):
        def list_arguments(self) -> list[str]:
            return []

        def list_auxiliary_states(self) -> list[str]:
            return ["kept"]

        def infer_shape(self, in_shape: Any) -> Any:
            return [], [(2, 2)], [(2, 2)]

        def infer_type(self, in_type: Any) -> Any:
            return [], [dtype], [dtype]

        def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> Twice:
            return Twice()

    mx.operator.register("_test_twice_kept")(Prop)
    twice, kind = mx.sym.Custom(op_type="_test_twice_kept", name="twice"), np.dtype(dtype).type
    assert twice.infer_shape() == twice.infer_shape_partial() == ([], [(2, 2)], [(2, 2)])
    assert twice.infer_type() == ([], [kind], [kind])
    both = mx.sym.broadcast_add(mx.sym.Variable("data"), twice)
    assert both.infer_shape(data=(2, 1)) == ([(2, 1)], [(2, 2)], [(2, 2)])
    assert both.infer_shape_partial() == ([()], [()], [(2, 2)])
    executor = twice.simple_bind(mx.cpu())
    executor.aux_dict["twice_kept"][:] = 3
    assert executor.forward()[0].asnumpy().tolist() == [[6, 6], [6, 6]]
    module = mx.mod.Module(twice, data_names=[], label_names=None)
    module.bind([])
    module.init_params(aux_params={"twice_kept": mx.nd.ones((2, 2))})
    module.forward(mx.io.DataBatch([], []), is_train=False)
    assert module.get_outputs()[0].asnumpy().tolist() == [[2, 2], [2, 2]]


@pytest.mark.parametrize("method", ["__init__", "list_arguments", "infer_shape", "infer_type", "create_operator"])
def test_an_error_in_what_an_operator_is_arrives_as_mxnets_error(method: str):
    def wrong(*args: Any, **kwargs: Any) -> Any:
        raise ZeroDivisionError("the author's words")

    mx.operator.register("_test_wrong")(type("Wrong", (mx.operator.CustomOpProp,), {method: wrong}))
    with pytest.raises(mx.MXNetError, match=r"Wrong's (.|\n)*Traceback(.|\n)*in wrong(.|\n)*the author's words"):
        mx.nd.Custom(mx.nd.ones(2), op_type="_test_wrong")


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


@pytest.mark.slow("compiles")
def test_a_trainer_runs_it_between_its_programs(told: type[_Told]):
    net = mx.sym.MakeLoss(_told(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1, no_bias=True, name="fc")))
    trainer = lowering.Trainer(net, "sgd", {"learning_rate": 0.5, "rescale_grad": 1.0}, label_names=())
    trainer.init(0, {"fc_weight": np.ones((1, 1), np.float32)}, data=(1, 1))
    trainer.fit([{"data": np.ones((1, 1), np.float32)}], epochs=1, metrics="loss", progress=False)
    assert trainer.state is not None
    assert trainer.state.params["fc_weight"].tolist() == [[0]]
    assert trainer.predict([{"data": np.ones((1, 1), np.float32)}])[0].tolist() == [[0]]
    assert set(told.threads) == {threading.get_ident()}


class _Own(Exception):
    """A class of the user's own, which is made of two things."""

    def __init__(self, what: str, number: int):
        super().__init__(what, number)


def _executor() -> Any:
    return _net().simple_bind(mx.cpu(), x=(1,))


def _module() -> Any:
    module = mx.mod.Module(
        mx.sym.MakeLoss(_told(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1))), label_names=None
    )
    module.bind([("data", (1, 1))])
    module.init_params()
    module.init_optimizer()
    return module


def _trainer(**options: Any) -> lowering.Trainer:
    net = mx.sym.MakeLoss(_told(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1, name="fc")))
    trainer = lowering.Trainer(net, "sgd", {"learning_rate": 0.5}, label_names=(), **options)
    trainer.init(0, data=(2, 1))
    return trainer


def _loop(kind: str) -> mx.sym.Symbol:
    x, contrib = mx.sym.Variable("x"), mx.sym.contrib
    match kind:
        case "foreach":
            return contrib.foreach(lambda row, state: (_told(row), state), x, mx.sym.zeros((1,)))[0]
        case "while_loop":
            body = lambda i, x: (_told(x), (i + 1, x))  # noqa: E731
            return contrib.while_loop(lambda i, x: i < 2, body, (mx.sym.zeros((1,)), x), max_iterations=3)[0][0]
        case _:
            return contrib.cond(mx.sym.sum(x) > 0, lambda: _told(x), lambda: x)


ONE = np.ones((1, 1), np.float32)
BATCH = {"data": np.ones((2, 1), np.float32)}


def _autograd() -> Any:
    x = mx.nd.ones(1)
    x.attach_grad()

    def run() -> None:
        with mx.autograd.record():
            y = mx.nd.Custom(x, op_type="_test_told")
        y.backward()

    return run


def _forward_and_backward(ex: Any) -> Any:
    return lambda: ex.forward(is_train=True) and ex.backward(mx.nd.ones(ex.outputs[0].shape))


def _net() -> mx.sym.Symbol:
    return _told(mx.sym.Variable("x"))


def _predictor(net: mx.sym.Symbol) -> Any:
    return partial(lowering.Predictor(net, {}), x=ONE)


def _batches() -> Any:
    predict = lowering.Predictor(_net(), {})
    return lambda: list(predict.batches([ONE]))


DOORS: dict[str, Callable[[], Any]] = {
    "forward": lambda: _executor().forward,
    "backward": lambda: _forward_and_backward(_executor()),
    "forward_backward": lambda: partial(_executor().forward_backward, mx.nd.ones(1)),
    "eval": lambda: partial(_net().eval, x=mx.nd.ones(1)),
    "Module": lambda: partial(_module().forward_backward, mx.io.DataBatch([mx.nd.ones((1, 1))], None)),
    "mx.nd": lambda: partial(mx.nd.Custom, mx.nd.ones(1), op_type="_test_told"),
    "autograd": _autograd,
    "compile": lambda: partial(lowering.compile(_net()), {"x": ONE}),
    "to_jax": lambda: partial(lowering.to_jax(_net()), {"x": ONE}),
    "grad_fn": lambda: partial(lowering.grad_fn(mx.sym.sum(_net())), {"x": ONE}),
    "Predictor": lambda: _predictor(_net()),
    "Predictor of a loop": lambda: _predictor(_loop("foreach")),
    "Predictor.batches": _batches,
    "Trainer.step": lambda: partial(_trainer().step, BATCH),
    "accumulate": lambda: partial(_trainer(accumulate=(2, "sum")).step, BATCH),
    "fit": lambda: partial(_trainer().fit, [BATCH], 1, metrics="loss", progress=False),
    "evaluate": lambda: partial(_trainer().evaluate, [BATCH], "loss"),
    "predict": lambda: partial(_trainer().predict, [BATCH]),
    "foreach": lambda: _forward_and_backward(_loop("foreach").simple_bind(mx.cpu(), x=(2, 1))),
    "while_loop": lambda: _forward_and_backward(_loop("while_loop").simple_bind(mx.cpu(), x=(1,))),
    "cond": lambda: _forward_and_backward(_loop("cond").bind(mx.cpu(), {"x": mx.nd.ones(1)}, {"x": mx.nd.ones(1)})),
}
BACKWARD = (
    *("backward", "forward_backward", "Module", "autograd", "grad_fn", "Trainer.step", "accumulate", "fit"),
    *("foreach", "while_loop", "cond"),
)


def _raised() -> list[BaseException]:
    words = "the operator's words"
    own = [KeyError(words), ValueError(words), TypeError(words), AttributeError(words), StopIteration(words)]
    return [*own, _Own(words, 3), nn.ParamError(words), KeyboardInterrupt(), SystemExit(3)]


@pytest.mark.nightly("every door", but_one_in=4)
@pytest.mark.slow("has many cases")
@pytest.mark.parametrize(
    ("door", "method"), [*((door, "forward") for door in DOORS), *((door, "backward") for door in BACKWARD)]
)
def test_what_it_raises_arrives_as_mxnets_error(told: type[_Told], door: str, method: str):
    run = DOORS[door]()
    run()
    errors = _raised()
    for raised in errors if door in ("Predictor", "forward", "foreach") else errors[2:3] + errors[-2:]:
        told.raises[method] = raised
        own = isinstance(raised, Exception) and not isinstance(raised, mx.MXNetError)
        with pytest.raises(mx.MXNetError if own else type(raised)) as caught:
            run()
        assert (caught.value.__cause__ if own else caught.value) is raised
        assert not own or f"raise self.raises[method]\n{''.join(format_exception_only(raised))}" in str(caught.value)
        (note,) = [note for note in caught.value.__notes__ if "CustomOp" in note]
        assert f"_ToldProp's CustomOp.{method}; in operator 'Custom:_test_told" in note
        del told.raises[method]
        run()  # it can be used afterwards
    assert set(told.threads) == {threading.get_ident()}


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


@pytest.mark.slow("compiles")
def test_in_the_body_of_a_loop(told: type[_Told]):
    data = mx.sym.Variable("data")
    body = lambda x, state: (_told(x) + state, state + 1)  # noqa: E731
    outputs, _ = mx.sym.contrib.foreach(body, data, mx.sym.zeros((2,)))
    ex = outputs.simple_bind(mx.cpu(), data=(3, 2))
    ex.arg_dict["data"][:] = np.arange(6).reshape(3, 2)
    ex.forward(is_train=True)
    ex.backward(mx.nd.ones((3, 2)))
    assert ex.outputs[0].asnumpy().tolist() == [[0, 1], [5, 10], [18, 27]]
    assert ex.grad_dict["data"].asnumpy().tolist() == [[0, 2], [4, 6], [8, 10]]  # pyright: ignore


@pytest.mark.nightly("starts processes")
def test_it_ends_when_programs_wait_for_it():
    ran = warm.run(["-m", "tests.lowering.mx.custom_script"])
    assert (ran.returncode, ran.stdout.split()) == (0, ["module", "fit", "modules", "jit", "threads", "predictor"]), (
        ran.stderr
    )


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


class _Noted(mx.operator.CustomOp):
    """x times the number of its forward; notes its calls, and adds 10 to its state in `backward`, 1 in `forward`."""

    calls: ClassVar[list[Any]] = []

    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        self.factor = 1 + len([call for call in self.calls if call[0] == "f"])
        self.calls.append(("f", self.factor))
        self.assign(out_data[0], req[0], in_data[0] * self.factor)
        if aux:
            aux[0][:] = aux[0] + 1

    def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        self.calls.append(("b", self.factor, tuple(req), *(grad.asnumpy().tolist() for grad in in_grad)))
        for grad, request in zip(in_grad, req, strict=True):
            self.assign(grad, request, out_grad[0] * self.factor)
        if aux:
            self.calls.append(("state", aux[0].asscalar()))
            aux[0][:] = aux[0] + 10


class _NotedProp(mx.operator.CustomOpProp):
    arguments: ClassVar[list[str]] = ["data"]
    states: ClassVar[list[str]] = []

    def list_arguments(self) -> list[str]:
        return self.arguments

    def list_auxiliary_states(self) -> list[str]:
        return self.states

    def infer_shape(self, in_shape: Any) -> Any:
        return [in_shape[0]] * len(self.arguments), [in_shape[0]], [(1,)] * len(self.states)

    def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> _Noted:
        return _Noted()


mx.operator.register("_test_noted")(_NotedProp)
mx.operator.register("_test_noted_state")(type("WithState", (_NotedProp,), {"states": ["count"]}))
mx.operator.register("_test_noted_two")(type("OfTwo", (_NotedProp,), {"arguments": ["a", "b"]}))


@pytest.fixture
def calls() -> list[Any]:
    _Noted.calls.clear()
    return _Noted.calls


def _noted(x: Any) -> Any:
    return mx.sym.Custom(x, op_type="_test_noted")


NESTED = {
    "foreach": (lambda x: mx.sym.contrib.foreach(lambda a, s: (_noted(a), s), x, mx.sym.zeros((1,)))[0], (3, 1)),
    "while_loop": (
        lambda x: mx.sym.contrib.while_loop(
            lambda i, x: i < 2, lambda i, x: (_noted(x), (i + 1, x)), (mx.sym.zeros((1,)), x), max_iterations=4
        )[0][0],
        (1,),
    ),
    "cond": (lambda x: mx.sym.contrib.cond(mx.sym.sum(x) > 0, lambda: _noted(x), lambda: x), (1,)),
    "cond in foreach": (
        lambda x: mx.sym.contrib.foreach(
            lambda a, s: (mx.sym.contrib.cond(mx.sym.sum(a) > 0, lambda: _noted(a), lambda: a), s),
            x,
            mx.sym.zeros((1,)),
        )[0],
        (2, 1),
    ),
    "foreach in foreach": (
        lambda x: mx.sym.contrib.foreach(
            lambda a, s: (mx.sym.contrib.foreach(lambda b, t: (_noted(b), t), a, s)[0], s), x, mx.sym.zeros((1,))
        )[0],
        (2, 2, 1),
    ),
}


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("kind", NESTED)
def test_in_loops_and_branches_forward_runs_once_and_each_step_has_an_operator(calls: list[Any], kind: str):
    make, shape = NESTED[kind]
    ex = make(mx.sym.Variable("x")).bind(mx.cpu(), {"x": mx.nd.ones(shape)}, {"x": mx.nd.zeros(shape)})
    steps = 2 if kind == "while_loop" else int(np.prod(shape))
    for _ in range(2):
        calls.clear()
        out = ex.forward(is_train=True)[0].asnumpy()
        ex.backward(mx.nd.ones(out.shape))
        assert [call[1] for call in calls if call[0] == "f"] == list(range(1, steps + 1))
        assert [call[1] for call in calls if call[0] == "b"] == list(range(steps, 0, -1))
        assert out.ravel().tolist()[:steps] == list(range(1, steps + 1))
        expected = [3] if kind == "while_loop" else list(range(1, steps + 1))
        assert ex.grad_dict["x"].asnumpy().ravel().tolist() == expected  # pyright: ignore


def test_what_a_step_computed_is_not_taken_for_other_inputs(calls: list[Any]):
    make, shape = NESTED["foreach"]
    net = make(mx.sym.Variable("x"))
    one, other = (net.bind(mx.cpu(), {"x": mx.nd.ones(shape) * k}, {"x": mx.nd.zeros(shape)}) for k in (1, 5))
    one.forward(is_train=True)
    other.forward(is_train=True)
    one.backward(mx.nd.ones(shape))
    assert [call[0] for call in calls] == [*("f" * 6), *("fb" * 3)]


def test_backward_writes_states_as_in_mxnet(calls: list[Any]):
    """MXNet 1.9.1 gives these numbers."""
    x, n = mx.sym.Variable("x"), mx.sym.Variable("n")
    net = mx.sym.Custom(mx.sym.Custom(x, n, op_type="_test_noted_state"), n, op_type="_test_noted_state")
    ex = net.bind(mx.cpu(), {"x": mx.nd.ones(1)}, {"x": mx.nd.zeros(1)}, "write", {"n": mx.nd.zeros(1)})
    ex.forward(is_train=True)
    assert ex.aux_dict["n"].asscalar() == 2
    ex.backward(mx.nd.ones(1))
    assert (ex.aux_dict["n"].asscalar(), ex.grad_dict["x"].asscalar()) == (22, 2)  # pyright: ignore
    assert [call[1] for call in calls if call[0] == "state"] == [2, 12]
    ex.aux_dict["n"][:] = 100
    ex.backward(mx.nd.ones(1))
    assert ex.aux_dict["n"].asscalar() == 120
    ex.forward_backward(mx.nd.ones(1))
    assert ex.aux_dict["n"].asscalar() == 142
    assert len([call for call in calls if call[0] == "f"]) == 4


def test_states_under_autograd_run_forward_once_and_keep_what_backward_writes(calls: list[Any]):
    x, n = mx.nd.ones(1), mx.nd.zeros(1)
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.Custom(mx.nd.Custom(x, n, op_type="_test_noted_state"), n, op_type="_test_noted_state")
    y.backward()
    assert [call[:2] for call in calls] == [("f", 1), ("f", 2), ("b", 2), ("state", 2), ("b", 1), ("state", 12)]
    assert (y.asscalar(), x.grad.asscalar(), n.asscalar()) == (2, 2, 22)  # pyright: ignore


@pytest.mark.slow("compiles")
def test_functions_and_trainers_have_the_states_that_backward_writes(calls: list[Any]):
    net = mx.sym.sum(mx.sym.Custom(mx.sym.Variable("x"), op_type="_test_noted_state", name="op"))
    gradient = lowering.grad_fn(net)
    for run in (gradient, jax.jit(gradient)):
        assert run({"x": np.ones(1, np.float32)}, {"op_count": np.zeros(1, np.float32)})[2]["op_count"] == 11
    data = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1, name="fc")
    loss = mx.sym.MakeLoss(mx.sym.Custom(data, op_type="_test_noted_state", name="op"))
    trainer = lowering.Trainer(loss, "sgd", {"learning_rate": 0.5}, label_names=())
    trainer.init(0, aux={"op_count": np.zeros(1, np.float32)}, data=(2, 1))
    trainer.step(BATCH)
    assert trainer.require_state().aux["op_count"] == 11


@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("requests", [("write", "write"), ("add", "null"), ("null", "write"), ("add", "add")])
def test_backward_is_told_how_to_write_as_by_mxnet(calls: list[Any], requests: tuple[str, str], inner: bool):
    """A gradient that is added to is in `in_grad` where the operator itself has the variable; else it is written, and
    added afterwards. MXNet 1.9.1 does so."""
    a, b = (mx.sym.Variable(name) * 1 if inner else mx.sym.Variable(name) for name in "ab")
    grads = {"a": mx.nd.ones(1) * 7, "b": mx.nd.ones(1) * 8}
    net = mx.sym.Custom(a, b, op_type="_test_noted_two")
    asked = dict(zip("ab", requests, strict=True))
    ex = net.bind(mx.cpu(), {"a": mx.nd.ones(1), "b": mx.nd.ones(1)}, grads, asked)
    told = tuple("write" if inner and request == "add" else request for request in requests)
    one = mx.nd.ones(1)
    for run in (lambda: ex.forward(is_train=True) and ex.backward(one), lambda: ex.forward_backward(one)):
        old = {name: grad.asscalar() for name, grad in grads.items()}
        calls.clear()
        run()
        (backward,) = [call for call in calls if call[0] == "b"]
        held = [[old[name] if request == "add" else 0] for name, request in zip("ab", told, strict=True)]
        assert backward[2:] == (told, *held)
        new = {"null": old["a"], "write": 1, "add": old["a"] + 1}[requests[0]]
        assert grads["a"].asscalar() == new


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("requests", [("write", "write"), ("add", "null"), ("null", "add"), ("write", None)])
def test_backward_is_told_how_to_write_under_autograd(calls: list[Any], requests: tuple[str, str | None]):
    arrays = [mx.nd.ones(1), mx.nd.ones(1)]
    for array, request in zip(arrays, requests, strict=True):
        if request is not None:
            array.attach_grad(request)
    for run in (1, 2):
        calls.clear()
        with mx.autograd.record():
            y = mx.nd.Custom(*arrays, op_type="_test_noted_two")
        y.backward()
        held = [[run - 1.0] if request == "add" else [0.0] for request in requests]
        assert calls[1][2:] == (tuple(request or "null" for request in requests), *held)
        for array, request in zip(arrays, requests, strict=True):
            if request == "null":
                assert array.grad is None
            elif request is not None:
                assert array.grad.asscalar() == {"write": 1, "add": run}[request]  # pyright: ignore


def test_gradients_of_one_array_from_two_places_are_written_and_added(calls: list[Any]):
    x = mx.nd.ones(1)
    x.attach_grad("add")
    for expected in (4, 8):
        calls.clear()
        with mx.autograd.record():
            y = mx.nd.Custom(x, x, op_type="_test_noted_two") + 2 * x
        y.backward()
        assert calls[1][2] == ("write", "write")
        assert x.grad.asscalar() == expected  # pyright: ignore


def test_a_predictor_runs_it_once_for_each_call_and_its_folder_too(told: type[_Told], tmp_path: Path):
    net = _told(mx.sym.FullyConnected(mx.sym.Variable("x"), num_hidden=1, no_bias=True, name="fc"))
    predict = lowering.Predictor(net, {"fc_weight": np.ones((1, 2), np.float32)})
    assert predict(x=np.ones((3, 2), np.float32))[0].tolist() == [[4]] * 3
    assert told.threads == [threading.get_ident()]
    with pytest.raises(nn.InferenceError, match="fc"):
        predict.warm(x=(3, 5))
    assert [each["x"].shape for each in predict.signatures] == [(3, 2)]
    predict.save(tmp_path / "folder")
    assert lowering.Predictor.load(tmp_path / "folder")(x=np.ones((1, 2), np.float32))[0].tolist() == [[4]]


def test_it_is_not_exported(tmp_path: Path):
    net = _told(mx.sym.Variable("x"))
    for write in (
        lambda: lowering.export_program(tmp_path / "a", net, {}, {}, {"x": (1,)}),
        lambda: lowering.compile(net).export(tmp_path / "a", {"x": ONE}),
    ):
        with pytest.raises(nn.LoweringError, match="CustomOp cannot be exported"):
            write()
    assert not list(tmp_path.iterdir())


def test_what_computes_is_kept_for_the_shapes_used_last():
    node = mx.sym.Custom(mx.sym.Variable("data"), op_type="_test_counted").outputs[0].node
    operator = node.attrs.parsed
    made = [operator.computes([mx.nd.zeros(length)]) for length in range(100)]
    assert len(operator._made) == 64
    assert operator.computes([mx.nd.zeros(99, ctx=mx.cpu(1))]) is made[99]  # backward, under another context
    assert operator.computes([mx.nd.zeros(99, dtype="int32")]) is not made[99]
    assert operator.computes([mx.nd.zeros(0)]) is not made[0]
