"""Programs that have Python in them: which of their values are computed, and how often they are compiled."""

from typing import Any, Literal

import jax
import numpy as np
import pytest

import lowering
from lowering import mx
from lowering.core.cache import Programs
from lowering.core.segments import Segments, _way
from lowering.host import staged
from symjax_nnvm.pipeline import Options
from tests.support.comparison import assert_close
from tests.support.compilations import compilations


class _Doubles(mx.operator.CustomOp):
    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        aux[0][:] = aux[0] + 1
        self.assign(out_data[0], req[0], in_data[0] * 2)

    def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        self.assign(in_grad[0], req[0], out_grad[0] * 2)


@mx.operator.register("_test_doubles")
class _DoublesProp(mx.operator.CustomOpProp):
    def list_auxiliary_states(self) -> list[str]:
        return ["count"]

    def infer_shape(self, in_shape: Any) -> Any:
        return in_shape, [in_shape[0]], [[1]]

    def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> _Doubles:
        return _Doubles()


def _net() -> mx.sym.Symbol:
    x = mx.sym.Variable("x")
    y = mx.sym.tanh(mx.sym.exp(mx.sym.sin(x)))
    y = mx.sym.Custom(mx.sym.Dropout(y), op_type="_test_doubles", name="op")
    return mx.sym.sum(mx.sym.cos(mx.sym.square(y)) + x)


X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
AUX = {"op_count": np.zeros(1, np.float32)}


def test_a_segment_returns_what_is_read_later():
    program = Programs(_net()).forward(Options())
    first, python, last = Segments(None)._cut(program.steps, program.collected)
    assert [segment.python for segment in (first, python, last)] == [False, True, False]
    assert len(first.outputs) == len(last.outputs) == 1
    assert len(python.outputs) == 2  # its state, too
    everything = Segments(None)._cut(program.steps, None)
    assert sum(len(each.outputs) for each in everything) == sum(len(step.outputs) for step in program.steps)


@pytest.mark.slow("compiles")
def test_segments_agree_with_the_program_as_a_whole():
    gradient = lowering.grad_fn(_net())
    for key in (jax.random.key(0), jax.random.key(1)):
        in_segments, whole = (f({"x": X}, AUX, key) for f in (gradient, jax.jit(gradient)))
        assert_close(in_segments[0][0], whole[0][0], 1e-6, "output")
        assert_close(in_segments[1]["x"], whole[1]["x"], 1e-6, "gradient")
        assert in_segments[2]["op_count"].tolist() == whole[2]["op_count"].tolist() == [1]


def test_each_shape_is_compiled_once():
    ex = _net().simple_bind(mx.cpu(), x=(2, 3))
    for _ in range(5):  # operators with a number, which the CustomOp has, are compiled at their fourth call
        ex.forward_backward(mx.nd.ones(1))
    with jax.no_tracing():
        ex.forward_backward(mx.nd.ones(1))
    assert ex.aux_dict["op_count"].asscalar() == 6


class _Nested(_Doubles):
    """Runs a network of its own."""

    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        assert _way.get() is None
        super().forward(is_train, req, in_data, out_data, aux)


@pytest.mark.slow("starts a process")
def test_first_calls_are_evaluated_around_python(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_DoublesProp, "create_operator", lambda *_: _Nested())
    for share in ("_SHARE", "_SHARE_OF_SMALL"):
        monkeypatch.setattr(staged, share, 2e-3)
    monkeypatch.setattr(staged, "_LONG", 1e12)  # nothing is compiled quickly
    _net().simple_bind(mx.cpu(), x=(3, 4)).forward_backward(mx.nd.ones(1))  # what all share is compiled
    ex = _net().simple_bind(mx.cpu(), x=(3, 5))
    ways = []
    for _ in range(20):
        with compilations(traces=False) as compiled:
            ex.forward_backward(mx.nd.ones(1))
        parts = any("jit(traced)" in name for name in compiled)  # not the operators that the CustomOp calls
        ways.append((parts, any("evaluated" in line for line in lowering.explain(ex).ways)))
    assert ways[0] == (False, True)
    assert (True, False) in ways
    assert ways[-1] == (False, False)


@pytest.mark.slow("compiles")
def test_full_effort_compiles_every_segment_at_once():
    with compilations(traces=False) as compiled:
        lowering.compile(_net(), effort="full")({"x": X}, AUX, jax.random.key(0))
    assert len(compiled) >= 2
    net = mx.sym.MakeLoss(_net() * mx.sym.sum(mx.sym.Variable("w")))
    efforts: list[Literal["full", "auto"]] = ["full", "auto"]
    numbers: list[int] = []
    for effort in efforts:
        trainer = lowering.Trainer(net, "sgd", data_names=["x"], label_names=[], effort=effort)
        trainer.init(0, {"w": X}, AUX, x=(2, 3))
        with compilations(traces=False) as compiled:
            trainer.step({"x": X})
        numbers.append(sum("jit(traced)" in name for name in compiled))
    assert numbers == [3, 0], "before, between and behind the calls of Python"


def test_it_stays_traced_where_arguments_are_constants():
    run = lowering.to_jax(_net())
    traced = jax.make_jaxpr(lambda: run({"x": X}, AUX, None)[0])()
    assert "pure_callback" in str(traced)


def test_a_mistake_between_python_is_told_with_its_node():
    x = mx.sym.Variable("x")
    net = mx.sym.reshape(mx.sym.Custom(x, op_type="_test_doubles", name="op"), shape=(4,), name="bad")
    with pytest.raises(mx.MXNetError, match="bad"):
        lowering.compile(net)({"x": X}, AUX)


def np_array(values: Any, dtype: str = "float32") -> Any:
    array: Any = mx.np.array  # pyright: ignore[reportAttributeAccessIssue]
    return array(values, dtype=dtype)


@pytest.mark.slow("compiles")
def test_operators_that_read_values_run_between_programs():
    class Net(mx.gluon.HybridBlock):
        def __init__(self, function: Any):
            super().__init__()
            self._function = function

        def hybrid_forward(self, F: Any, *inputs: Any) -> Any:
            return self._function(F, *inputs)

    x = np_array([3.0, 1.0, 3.0, -2.0])
    rows = [  # a function, its inputs, what it gives, the gradient of its sum
        (lambda F, x: F.np._internal.boolean_mask(x * 2, x > 1) * x[0], (x,), [18, 18], [18.0, 0, 6, 0]),
        (lambda F, x: F.np.unique(x + 1)[1:] * 2, (x,), [4, 8], None),
        (lambda F, x: F.npx.nonzero(x > 1) + 1, (x,), [[1], [3]], None),
        (lambda F, x: F.np.bincount(x, None, 4) * 2, (np_array([1, 2, 2], "uint8"),), [0, 2, 4, 0], None),
        (lambda F, x, i: F.np.delete(x * x, i), (x, np_array([0, 3, -2, 7], "int32")), [1, 9], [0.0, 2, 6, 0]),
        (lambda F, x: x * F.npx.constraint_check(x < 4, "too large"), (x,), x.tolist(), [1.0, 1, 1, 1]),
    ]
    mx.npx.set_np()
    try:
        for function, inputs, value, gradient in rows:
            net = Net(function)
            net.hybridize()
            assert net(*inputs).tolist() == value
            if gradient is not None:
                inputs[0].attach_grad()
                with mx.autograd.record():
                    outputs = net(*inputs)
                outputs.backward()
                assert (outputs.tolist(), inputs[0].grad.tolist()) == (value, gradient)
        with pytest.raises(ValueError, match="too large"):
            net(x * 2)  # pyright: ignore[reportPossiblyUnboundVariable]
    finally:
        mx.npx.reset_np()


def test_a_mask_is_read_by_executors_and_refused_in_one_program():
    x, mask = mx.sym.var("x"), mx.sym.var("mask")
    net = mx.sym.contrib.boolean_mask(mx.sym.square(x), mask) * 3
    arrays = {"x": np.array([1, 2, 3], np.float32), "mask": np.array([0, 1, 1], np.float32)}
    ex = net.bind(mx.cpu(), {name: mx.nd.array(value) for name, value in arrays.items()}, {"x": mx.nd.zeros(3)})
    (output,) = ex.forward(is_train=True)
    ex.backward([mx.nd.ones(2)])
    assert (output.asnumpy().tolist(), ex.grad_dict["x"].asnumpy().tolist()) == ([12, 27], [0, 12, 18])
    assert lowering.compile(net)(arrays)[0][0].tolist() == [12, 27]
    with pytest.raises(mx.MXNetError, match="XLA must know shapes"):
        jax.jit(lowering.to_jax(net))(arrays)
