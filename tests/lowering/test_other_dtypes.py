"""Whatever runs a network: after inputs of one dtype, inputs of the same shapes in another get results of their own."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import pytest

import lowering
from lowering import mx
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import BindError

Call = Callable[[np.ndarray], Sequence[Any]]


def network() -> sym.Symbol:
    """What is computed, and an empty output, whose dtype is inferred."""
    x = sym.Variable("x")
    return sym.Group([sym.square(x) + sym.ones_like(x), sym.square(sym.Variable("empty"))])


def inputs(x: np.ndarray) -> dict[str, np.ndarray]:
    return {"x": x, "empty": x[:0]}


def of_gradients() -> Call:
    gradient = jax.jit(lowering.grad_fn(network()[0], wrt=["x"]))
    return lambda x: [gradient({"x": x}, head_grads=[np.ones_like(x)])[1]["x"]]


def of_bound_arrays() -> Call:
    """One executor for each dtype, all of one symbol."""
    net = network()

    def call(x: np.ndarray) -> Sequence[Any]:
        return lowering.bind(net, args=inputs(x)).forward()

    return call


def of_block(hybridize: bool) -> Call:
    class Squares(mx.gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return F.square(x) + F.ones_like(x), F.slice_axis(x, axis=0, begin=1, end=2)

    block = Squares()
    if hybridize:
        block.hybridize()
    return lambda x: [each.asnumpy() for each in block(mx.nd.array(x, dtype=x.dtype))]


def of_tape() -> Call:
    """Short tapes become one program after some steps."""

    def call(x: np.ndarray) -> Sequence[Any]:
        array = mx.nd.array(x, dtype=x.dtype)
        array.attach_grad()
        y: Any = None
        for _ in range(5):
            with mx.autograd.record():
                y = array * array + array
            y.backward()
        assert array.grad is not None
        return [y.asnumpy(), array.grad.asnumpy()]

    return call


DOORS: dict[str, Callable[[], Call]] = {
    "to_jax": lambda: (lambda f: lambda x: f(inputs(x))[0])(lowering.to_jax(network())),
    "compile": lambda: (lambda f: lambda x: f(inputs(x))[0])(lowering.compile(network())),
    "grad_fn": of_gradients,
    "Predictor": lambda: (lambda p: lambda x: p(**inputs(x)))(lowering.Predictor(network(), {})),
    "bind": of_bound_arrays,
    "mx.nd": lambda: lambda x: [(mx.nd.array(x, dtype=x.dtype) * 2 + 1).asnumpy()],
    "Block": lambda: of_block(False),
    "a hybridised Block": lambda: of_block(True),
    "a tape": of_tape,
}


@pytest.mark.slow("asks every operator")
@pytest.mark.parametrize("door", DOORS)
def test_results_have_the_dtype_of_these_inputs(door: str):
    call = DOORS[door]()
    for dtype in (
        ("float32", "float16", "float32", "int32") if door in ("to_jax", "compile") else ("float32", "float16")
    ):
        x = np.arange(6).reshape(2, 3).astype(dtype)
        results, expected = call(x), DOORS[door]()(x)
        assert [np.asarray(each).dtype for each in results] == [np.dtype(dtype)] * len(results)
        for one, other in zip(results, expected, strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_saved_constant_of_another_dtype_is_computed_anew(tmp_path):
    """Saved by a process of 32 bits, loaded by one of 64."""
    net = sym.FullyConnected(sym.Variable("data"), sym.Variable("w") * 3, num_hidden=1, no_bias=True, name="fc")
    x = np.ones((1, 1))
    predict = lowering.Predictor(net, {"w": np.full((1, 1), 1 / 7)})
    predict(data=x)
    predict.save(tmp_path)
    with jax.enable_x64(True):
        again = lowering.Predictor(net, {"w": np.full((1, 1), 1 / 7)})(data=x)[0]
        computed = lowering.Predictor.load(tmp_path)(data=x)[0]
        assert computed.dtype == again.dtype
        assert np.asarray(computed).tolist() == np.asarray(again).tolist()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_gradient_array_of_another_dtype_is_refused(dtype: str):
    arrays: dict[str, Any] = {"args": {"x": np.ones(3, "float32")}, "args_grad": {"x": np.zeros(3, dtype)}}
    if dtype == "float32":
        assert lowering.bind(sym.square(sym.Variable("x")), **arrays)
        return
    with pytest.raises(BindError, match=r"does not fit argument 'x'.*float32.*float16"):
        lowering.bind(sym.square(sym.Variable("x")), **arrays)
