"""Functions of two arrays of one shape: ties, zeros, inference, the node of a product's gradient."""

import jax
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from symjax_nnvm.graph import Graph
from symjax_nnvm.ir.node import NodeEntry, create_variable_node
from symjax_nnvm.ir.op import Op
from symjax_nnvm.passes.gradient import mx_gradient
from tests.support.traced import evaluated


def call(op: str, x, y):
    symbol = getattr(sym, op)(sym.Variable("x"), sym.Variable("y"))
    args = {"x": np.asarray(x), "y": np.asarray(y)}
    (output,), _ = evaluated(lowering.to_jax(symbol), args)
    _, grads, _ = evaluated(
        lowering.grad_fn(symbol, ["x", "y"]), args, head_grads=[np.ones(output.shape, output.dtype)]
    )
    return output, grads["x"], grads["y"]


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_mul_gradient_is_one_node_with_two_outputs():
    m = sym.elemwise_mul(sym.Variable("x"), sym.Variable("y"), name="m")
    x, y = m.outputs[0].node.inputs
    og = NodeEntry(create_variable_node("og"), 0, 0)
    first, second = mx_gradient(Graph(m.outputs), m.outputs, [x, y], [og]).outputs
    assert (first.index, second.index) == (0, 1)
    node = first.node
    assert second.node is node
    assert (node.op, node.name) == (Op.get("_backward_mul"), "m_backward")
    assert node.inputs == [og, x, y]
    assert list(node.control_deps) == [m.outputs[0].node]


def test_mul_gradients_of_one_input_twice():
    x = sym.Variable("x")
    _, grads, _ = evaluated(lowering.grad_fn(x * x, ["x"]), {"x": f32(3.0)}, head_grads=[f32(2.0)])
    assert grads["x"] == 12


def test_second_gradient_of_mul_makes_no_zeros():
    x, y = sym.Variable("x"), sym.Variable("y")
    (dx,) = (x * y).gradient(["x"], head_grads=[sym.Variable("g")])
    graph = dx.gradient(["y"], head_grads=[sym.Variable("h")])
    assert "zero" not in graph.debug_str()
    (value,), _ = evaluated(lowering.to_jax(graph), {"g": f32(2.0), "h": f32(5.0)})
    assert value == 10


def test_add_gradient_is_the_head_gradient_itself():
    s = sym.Variable("x") + sym.Variable("y")
    og = NodeEntry(create_variable_node("og"), 0, 0)
    assert mx_gradient(Graph(s.outputs), s.outputs, s.outputs[0].node.inputs, [og]).outputs == [og, og]
    copied = mx_gradient(Graph(s.outputs), s.outputs, s.outputs[0].node.inputs, [og], copy_op="_copy")
    assert copied.outputs[0] == og
    assert copied.outputs[1].node.name == "og_1_copy"


@pytest.mark.slow("computes much")
def test_lhs_receives_the_gradient_of_ties():
    x, y = f32(-1, 0, 2, 2), f32(-1, 1, 2, 0)
    assert [a.tolist() for a in call("_maximum", x, y)] == [[-1, 1, 2, 2], [1, 0, 1, 1], [0, 1, 0, 0]]
    assert [a.tolist() for a in call("_minimum", x, y)] == [[-1, 0, 2, 0], [1, 1, 1, 0], [0, 0, 0, 1]]


@pytest.mark.slow("compiles")
def test_mod_has_the_sign_of_the_divisor_and_is_zero_for_zero():
    value, dx, dy = call("_mod", f32(5, -5, 5, -5, 2, 0), f32(3, 3, -3, -3, 0, 0))
    assert value.tolist() == [2, 1, -1, -2, 0, 0]
    assert dx.tolist() == [1] * 6
    assert dy.tolist()[:4] == [-1, 2, 2, -1]
    assert evaluated(
        lowering.to_jax(sym.Variable("x") % sym.Variable("y")),
        {"x": np.array([5, -5], np.int32), "y": np.array([0, -3], np.int32)},
    )[0][0].tolist() == [0, -2]


@pytest.mark.slow("compiles")
def test_the_gradient_of_a_remainder_of_integers_is_zero_as_in_mxnet():
    x, y = np.array([7, -8, 9], np.int32), np.array([2, 3, 0], np.int32)
    for op in ("_mod", "broadcast_mod"):
        _, dx, dy = call(op, x, y)
        assert dx.tolist() == dy.tolist() == [0, 0, 0]
    for symbol in (sym.Variable("x") % 3, 23 % sym.Variable("x")):
        _, grads, _ = evaluated(lowering.grad_fn(symbol, ["x"]), {"x": x}, head_grads=[np.full(3, 5, np.int32)])
        assert grads["x"].tolist() == [0, 0, 0]


def test_division_by_zero():
    value, dx, _ = call("elemwise_div", f32(1, -1, 0), f32(0, 0, 0))
    np.testing.assert_array_equal(value, f32(np.inf, -np.inf, np.nan))
    np.testing.assert_array_equal(dx, f32(np.inf, np.inf, np.inf))


@pytest.mark.slow("compiles")
def test_integer_powers_truncate():
    base, exponent = np.array([2, 2, 1, -1, -1, 3, 0], np.int32), np.array([5, -1, -4, -3, -2, 0, 0], np.int32)
    (value,), _ = evaluated(lowering.to_jax(sym.Variable("x") ** sym.Variable("y")), {"x": base, "y": exponent})
    assert value.tolist() == [32, 0, 1, -1, 1, 1, 1]
    assert value.dtype == np.int32


def test_hypot_does_not_overflow():
    value, _, _ = call("_hypot", f32(3e30, 1e-30), f32(4e30, 0))
    np.testing.assert_allclose(value, f32(5e30, 1e-30), rtol=1e-6)


def test_comparisons_with_nan():
    nan = f32(np.nan)
    results = {op: float(call(op, nan, nan)[0][0]) for op in ("_equal", "_not_equal", "_lesser", "_greater_equal")}
    assert results == {"_equal": 0, "_not_equal": 1, "_lesser": 0, "_greater_equal": 0}


def test_shapes_flow_from_any_to_all():
    x, y = sym.Variable("x"), sym.Variable("y")
    assert (x + y).infer_shape(x=(2, 0), y=(0, 3)) == ([(2, 3), (2, 3)], [(2, 3)], [])
    assert sym.add_n(x, y, x).infer_shape(y=(4,)) == ([(4,), (4,)], [(4,)], [])


def test_shapes_that_differ():
    symbol = sym.elemwise_add(sym.Variable("x"), sym.Variable("y"), name="sum")
    with pytest.raises(InferenceError, match=r"(?s)operator sum.*elemwise_add.*\(2, 3\).*\(2, 4\)"):
        symbol.infer_shape(x=(2, 3), y=(2, 4))


def test_dtypes_that_differ():
    symbol = sym.elemwise_add(sym.Variable("x"), sym.Variable("y"), name="sum")
    with pytest.raises(InferenceError, match="(?s)sum.*float32.*int32|sum.*int32.*float32"):
        symbol.infer_type(x="float32", y="int32")


def test_booleans_are_compared_but_not_calculated_with():
    x, y = sym.Variable("x"), sym.Variable("y")
    with pytest.raises(InferenceError, match="(?s)_mul0.*cannot compute with booleans"), sym.NameManager():
        (x * y).infer_type(x="bool")
    assert (x == y).infer_type(x="bool")[1] == [np.bool_]


def test_add_n_needs_an_input():
    with pytest.raises(ParamError, match="num_args"):
        sym.add_n()
    with pytest.raises(ParamError, match="num_args is out of range"):
        sym.add_n(num_args=0)
    symbol = sym.add_n(sym.Variable("x"), sym.Variable("y"), num_args=3, name="total")
    assert symbol.list_arguments() == ["x", "y", "total_arg2"]


def test_elemwise_sum_aggregates_gradients():
    x = sym.Variable("x")
    graph = (sym.exp(x) + sym.sin(x) + x).gradient(["x"])
    assert "Op:add_n" in graph.debug_str()
    (value,), _ = jax.jit(lowering.to_jax(graph))({"x": f32(0.0)})
    assert value == 3
