"""Legal symbol files whose parameters ask for the impossible, each kind by name, as `tests/fuzz` found them.

What they say is refused, or computed, in bounded time; no error but the library's own comes out.
"""

import json
import math
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, JSONFormatError, LoweringError, ParamError
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.register import register_op, same_shape
from tests.mxnet_files.test_malformed import graph_of

REFUSED = {
    "the gradient of a matrix that khatri_rao does not have": (
        *("_backward_khatri_rao", {"num_args": "3", "number": "2"}, 3),
        r"number=2 is not one of 2 matrices",
    ),
    "columns differentiated in no axis": (
        *("_backward_DeformableConvolution_columns", {"kernel": "(2, 2)", "order": "()"}, 2),
        r"order=\(\): expected one number for y and one for x",
    ),
    "bins differentiated in one axis": (
        "_backward_DeformablePSROIPooling_slopes",
        {"spatial_scale": "1", "output_dim": "1", "group_size": "1", "pooled_size": "1", "order": "(1,)"},
        3,
        r"order=\(1,\): expected one number for y and one for x",
    ),
    "the derivative of digamma that is a polynomial of degree 2⁶²": (
        *("_polygamma", {"n": "4611686018427387903"}, 1),
        r"n is out of range.*expected int ≥ 0 ≤ 256",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_parameters_that_mean_nothing_are_refused_when_they_are_read(case: str):
    op, params, count, message = REFUSED[case]
    with pytest.raises(JSONFormatError, match=message):
        sym.load_json(json.dumps(graph_of(op, params, count=count)))


@pytest.mark.slow("compiles")
def test_the_last_derivative_of_digamma_has_no_gradient():
    x = sym.Variable("x")
    net = sym.load_json(json.dumps(graph_of("_polygamma", {"n": "256"}, shapes=["(2,)"])))
    with pytest.raises(ParamError, match="n is out of range"):
        net.gradient(["x0"])
    assert np.isfinite(lowering.to_jax(sym._polygamma(x, n=3))({"x": np.ones(2)})[0][0]).all()


def test_a_pooled_array_of_another_rank_than_the_data_contradicts_them():
    net = sym.load_json(
        json.dumps(
            graph_of("_backward_Pooling_sum", {"global_pool": "True"}, count=2, shapes=["(2, 2, 2)", "(2, 2, 2, 3)"])
        )
    )
    with pytest.raises(InferenceError, match="one rank.*expected"):
        net.infer_shape()


@pytest.mark.parametrize("scalar", [1e200, -1e300])
def test_a_square_that_no_float_holds_is_infinite(scalar: float):
    net = sym.smooth_l1(sym.Variable("x"), scalar=scalar)
    outputs, grads, _ = lowering.grad_fn(net, ["x"])({"x": np.array([0.5, -2.0])}, head_grads=[np.ones(2)])
    np.testing.assert_allclose(outputs[0], [0.5, 2.0])
    np.testing.assert_allclose(grads["x"], [1.0, -1.0])


def test_a_table_that_does_not_fit_into_memory_is_an_error_of_the_operator(monkeypatch: pytest.MonkeyPatch):
    if not Op.exists("_test_memory"):
        register_op("_test_memory", infer_shape=same_shape, doc="For tests.")
        lowering.lowers("_test_memory")(lambda p, x: np.zeros(1 << 62, np.uint8))
    with pytest.raises(LoweringError, match=r"Unable to allocate.*operator '?_test_memory"):
        lowering.to_jax(sym._test_memory(sym.Variable("x")))({"x": np.ones(2)})


@pytest.mark.slow("compiles")
def test_bounds_of_a_histogram_beyond_all_integers_hold_every_integer():
    net = sym._histogram(sym.Variable("x"), bin_cnt=2, range=(-1e30, 1e30))
    counts, _ = lowering.to_jax(net)({"x": np.array([1, -5, 3], np.int32)})[0]
    assert counts.sum() == 3


def _seconds(call: Callable[[], object]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


def test_a_strided_slice_of_a_long_axis_makes_no_table_of_it():
    symbol = sym._slice_assign_scalar(sym.Variable("x"), begin=(0,), end=(None,), step=(2,), scalar=5.7)
    args = {"x": jax.ShapeDtypeStruct(((1 << 31) - 1,), np.dtype("int32"))}
    assert _seconds(lambda: jax.eval_shape(lowering.to_jax(symbol), args)) < 1


@pytest.mark.slow("computes much")
def test_the_names_of_many_outputs_take_linear_time():
    """Each output listed the names of all: 65,536² of them."""
    net = sym.SliceChannel(sym.Variable("x"), num_outputs=1 << 16, name="cut")
    assert _seconds(net.list_outputs) < 1
    assert net.list_outputs()[-1] == "cut_output65535"


@pytest.mark.slow("compiles")
@pytest.mark.parametrize(("shape", "kernel", "stride"), [((7,), 3, 1 << 31), ((9, 9), 2, 4), ((90000,), 2, 40000)])
def test_strides_longer_than_the_window_are_as_quick_as_others(shape: tuple[int, ...], kernel: int, stride: int):
    """The gradient of a maximum went through every step of a stride."""
    windows: dict[str, Any] = {"kernel": (kernel,) * len(shape), "stride": (stride,) * len(shape)}
    net = sym.Pooling(sym.Variable("x"), pool_type="max", **windows)
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(1, 1, *shape)
    started = time.process_time()
    outputs, grads, _ = lowering.grad_fn(net, ["x"])({"x": x}, head_grads=[np.ones(net.infer_shape(x=x.shape)[1][0])])
    assert time.process_time() - started < 3
    np.testing.assert_array_equal(grads["x"].reshape(-1) != 0, np.isin(x, outputs[0]).reshape(-1))


@pytest.mark.parametrize("between", [False, True])
def test_nested_concatenations_of_equal_operands_compile_in_linear_time(between: bool):
    """Thirteen took 42 s: XLA flattens them into one of 8192 operands."""
    x = sym.Variable("x", shape=(1, 3))
    net = x
    for i in range(12):
        net = sym.Concat(net, x, net, dim=0, name=f"c{i}") if between else sym.Concat(net, net, dim=0, name=f"c{i}")
    assert _seconds(jax.jit(lowering.to_jax(net)).lower({"x": np.ones((1, 3), np.float32)}).compile) < 3
    assert math.prod(net.infer_shape()[1][0]) == 3 * (2**13 - 1 if between else 2**12)
