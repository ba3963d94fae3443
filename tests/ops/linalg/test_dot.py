"""Dense layers and matrix products: inference backwards, refusals, and the code XLA makes of them."""

# Some calls are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from tests.support.traced import evaluated

A, B = sym.Variable("a"), sym.Variable("b")


def completed(symbol: sym.Symbol, out: tuple[int, ...], **shapes: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """Argument shapes inferred when the symbol is added to an array of shape `out`; 0 is unknown."""
    net = symbol + sym.Variable("like", shape=out)
    return dict(zip(net.list_arguments(), net.infer_shape_partial(**shapes)[0], strict=True))


# -- inference backwards ---------------------------------------------------------------------------------------------


def test_fully_connected_learns_its_batch_from_the_result():
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=3, name="fc")
    found = completed(net, (4, 0), data=(0, 2, 5))
    assert found["data"] == (4, 2, 5)
    assert found["fc_weight"] == (3, 10)
    assert found["fc_bias"] == (3,)


def test_fully_connected_learns_one_dimension_of_data_from_the_weight():
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=3, name="fc")
    assert completed(net, (4, 0), data=(0, 2, 0), fc_weight=(3, 10))["data"] == (4, 2, 5)


def test_fully_connected_without_flatten_learns_data_from_result_and_weight():
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=3, flatten=False, name="fc")
    assert completed(net, (4, 2, 0), fc_weight=(3, 10))["data"] == (4, 2, 10)


def test_dot_learns_the_summed_dimension_from_either_operand_and_the_others_from_the_result():
    assert completed(sym.dot(A, B), (3, 6), a=(0, 4), b=(0, 0))["b"] == (4, 6)
    assert completed(sym.dot(A, B, transpose_a=True), (3, 6), a=(0, 0), b=(4, 0))["a"] == (4, 3)
    assert completed(sym.dot(A, B, transpose_b=True), (2, 3, 6), a=(0, 0, 4), b=(0, 0))["a"] == (2, 3, 4)


@pytest.mark.parametrize("op", ["batch_dot", "linalg_gemm2"])
def test_batched_products_are_inferred_in_all_directions(op: str):
    product = getattr(sym, op)
    assert completed(product(A, B), (2, 3, 5), a=(0, 0, 4)) == {"a": (2, 3, 4), "b": (2, 4, 5), "like": (2, 3, 5)}
    assert completed(product(A, B, transpose_a=True, transpose_b=True), (2, 3, 5), b=(0, 0, 4))["a"] == (2, 4, 3)


def test_khatri_rao_learns_rows_and_columns():
    found = completed(sym.khatri_rao(A, B), (6, 5), a=(2, 0))
    assert (found["a"], found["b"]) == ((2, 5), (3, 5))


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("symbol", "shapes", "words"),
    [
        (
            sym.dot(A, B, name="d"),
            {"a": (2, 3), "b": (4, 5)},
            r"'dot', node 'd', input 'rhs'; expected \(3, 5\); got \(4, 5\) from variable 'b'",
        ),
        (
            sym.dot(A, B, transpose_a=True, name="d"),
            {"a": (3,), "b": (3,)},
            "Cannot transpose vectors.*expected False; got True; in operator 'dot', node 'd'",
        ),
        (
            sym.batch_dot(A, B, name="d"),
            {"a": (2, 3), "b": (3, 2)},
            "Too few axes.*expected at least 3; got 2; in operator 'batch_dot', node 'd'",
        ),
        (
            sym.batch_dot(A, B, name="d"),
            {"a": (2, 3, 4), "b": (3, 4, 5)},
            r"input 'rhs'; expected \(2, 4, 5\); got \(3, 4, 5\)",
        ),
        (
            sym.linalg_gemm2(A, B, axis=2, name="d"),
            {"a": (2, 3, 4), "b": (2, 4, 5)},
            "Rows and columns are the same axis; in parameter 'axis'; expected not the last; got 2",
        ),
        (
            sym.linalg_gemm2(A, B, axis=5, name="d"),
            {"a": (2, 3, 4), "b": (2, 4, 5)},
            "no such axis; in parameter 'axis'; expected -3 ≤ axis < 3; got 5",
        ),
        (sym.khatri_rao(A, B, name="d"), {"a": (2, 3), "b": (2, 4)}, r"input 'arg1'; expected \(2, 3\); got \(2, 4\)"),
        (
            sym.FullyConnected(A, B, no_bias=True, num_hidden=3, name="fc"),
            {"a": (2, 3), "b": (3, 4)},
            r"'FullyConnected', node 'fc', input 'weight'; expected \(3, 3\); got \(3, 4\) from variable 'b'",
        ),
    ],
    ids=lambda value: None,
)
def test_shapes_that_do_not_fit_are_named(symbol: sym.Symbol, shapes: dict[str, tuple[int, ...]], words: str):
    with pytest.raises(InferenceError, match=words):
        symbol.infer_shape(**shapes)


def test_parameters_are_checked_when_the_node_is_made():
    with pytest.raises(
        ParamError, match="'FullyConnected', node 'fc', parameter 'num_hidden'; expected int ≥ 1; got 0"
    ):
        sym.FullyConnected(A, num_hidden=0, name="fc")
    with pytest.raises(ParamError, match="forward_stype expect one of 'csr', 'default', 'row_sparse' or None"):
        sym.dot(A, B, forward_stype="dense")


# -- quirks ----------------------------------------------------------------------------------------------------------


def test_the_product_of_two_vectors_has_shape_1():
    assert sym.dot(A, B).infer_shape(a=(3,), b=(3,))[1] == [(1,)]


def test_fully_connected_takes_a_vector_as_a_column():
    assert sym.FullyConnected(A, num_hidden=5, name="fc").infer_shape(a=(3,))[0] == [(3,), (5, 1), (5,)]


def test_dot_of_integers_stays_an_integer():
    (out,), _ = evaluated(lowering.to_jax(sym.dot(A, B)), {"a": jnp.arange(6).reshape(2, 3), "b": jnp.arange(3)})
    assert out.dtype == jnp.int32
    np.testing.assert_array_equal(out, [5, 14])


def test_an_operand_used_twice_receives_both_gradients():
    a = np.arange(9, dtype=np.float32).reshape(3, 3)
    _, grads, _ = evaluated(lowering.grad_fn(sym.dot(A, A)), {"a": a}, head_grads=[np.ones((3, 3), np.float32)])
    np.testing.assert_allclose(grads["a"], np.ones((3, 3)) @ a.T + a.T @ np.ones((3, 3)))


# -- what XLA makes of it --------------------------------------------------------------------------------------------

WIDTHS = (32, 16, 10)


def perceptron() -> sym.Symbol:
    net = sym.Variable("data")
    for i, width in enumerate(WIDTHS):
        net = sym.FullyConnected(net, num_hidden=width, name=f"fc{i}")
    return net


def by_hand(args: dict[str, jax.Array]) -> jax.Array:
    x = args["data"]
    for i in range(len(WIDTHS)):
        x = x @ args[f"fc{i}_weight"].T + args[f"fc{i}_bias"]
    return x


def instructions(function, *args) -> int:
    """Instructions of the optimised program, those inside fusions included."""
    text = jax.jit(function).lower(*args).compile().as_text()
    assert text is not None
    return len(re.findall(r"^\s+(?:ROOT )?%?\S+ = ", text, re.MULTILINE))


@pytest.mark.slow("compiles")
def test_a_perceptron_compiles_to_the_code_of_hand_written_jax():
    net = perceptron()
    shapes = dict(zip(net.list_arguments(), net.infer_shape(data=(8, 64))[0], strict=True))
    args = {name: jnp.ones(shape) for name, shape in shapes.items()}
    head = jnp.ones((8, 10))
    forward, gradient = lowering.to_jax(net), lowering.grad_fn(net)
    assert instructions(lambda a: forward(a)[0][0], args) == instructions(by_hand, args)
    ours = instructions(lambda a, h: gradient(a, head_grads=[h])[1], args, head)
    assert ours == instructions(lambda a, h: jax.vjp(by_hand, a)[1](h)[0], args, head)


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("a", [(3, 4), (2, 3, 4)])
@pytest.mark.parametrize("b", [(4, 5), (4, 5, 2)])
def test_the_gradient_of_dot_compiles_to_one_contraction_for_each_operand(a: tuple[int, ...], b: tuple[int, ...]):
    args = {"a": jnp.ones(a), "b": jnp.ones(b)}
    gradient = lowering.grad_fn(sym.dot(A, B))
    text = str(jax.make_jaxpr(lambda args, h: gradient(args, head_grads=[h])[1])(args, jnp.ones(a[:-1] + b[1:])))
    assert text.count("dot_general") == 3  # the forward part's is dead code, which XLA removes
    assert "transpose" not in text
