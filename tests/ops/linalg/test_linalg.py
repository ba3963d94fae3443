"""Linear algebra: what the case table cannot say: symmetric matrices, singular ones, inference backwards, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import GradientError, InferenceError
from tests.support.comparison import assert_close
from tests.support.traced import evaluated

A, B = sym.Variable("a"), sym.Variable("b")


def run(symbol: sym.Symbol, **args: object) -> list[np.ndarray]:
    outputs, _ = evaluated(
        lowering.to_jax(symbol), {name: jnp.asarray(value, jnp.float32) for name, value in args.items()}
    )
    return [np.asarray(output) for output in outputs]


def gradient(symbol: sym.Symbol, heads: list[object], **args: object) -> dict[str, np.ndarray]:
    arrays = {name: jnp.asarray(value, jnp.float32) for name, value in args.items()}
    _, grads, _ = evaluated(lowering.grad_fn(symbol), arrays, head_grads=[jnp.asarray(h, jnp.float32) for h in heads])
    return {name: np.asarray(value) for name, value in grads.items()}


def completed(symbol: sym.Symbol, out: tuple[int, ...], **shapes: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """Argument shapes inferred when the first output is added to an array of shape `out`; 0 is unknown."""
    net = symbol[0] + sym.Variable("like", shape=out)
    return dict(zip(net.list_arguments(), net.infer_shape_partial(**shapes)[0], strict=True))


# -- symmetric matrices ----------------------------------------------------------------------------------------------
# linalg_potrf and linalg_syevd read one triangle and give the gradient of symmetric changes, as in MXNet. Where the
# matrix is symmetric for every value of the argument, both are what a derivative must be.

SYMMETRIC = {
    "linalg_potrf": lambda x: sym.linalg_potrf(sym.linalg_syrk(x) + sym.linalg_syrk(sym.swapaxes(x, dim1=-1, dim2=-2))),
    "linalg_potrf of the upper triangle": lambda x: sym.linalg_potrf(
        sym.linalg_syrk(x) + sym.linalg_syrk(x, transpose=True), lower=False
    ),
    "_linalg_syevd": lambda x: sym._linalg_syevd(x + sym.swapaxes(x, dim1=-1, dim2=-2)),
}


@pytest.mark.nightly("every case", but_one_in=6)
@pytest.mark.slow("compiles")
@pytest.mark.parametrize("op", SYMMETRIC)
@pytest.mark.parametrize("shape", [(3, 3), (2, 1, 3, 3)])
def test_gradients_of_symmetric_matrices_are_derivatives_to_second_order(op: str, shape: tuple[int, ...]):
    rng = np.random.RandomState(3)
    symbol = SYMMETRIC[op](sym.Variable("x"))
    x = rng.uniform(-0.4, 0.4, shape) + np.diag([0.3, 1.2, 2.5])
    lowering.check_gradients(symbol, {"x": x})
    shapes = symbol.infer_shape(x=shape)[1]
    heads = {f"head{i}": rng.uniform(-1, 1, s) for i, s in enumerate(shapes)}
    first = symbol.gradient(["x"], head_grads=[sym.Variable(name) for name in heads])
    with jax.enable_x64(True):
        forward = jax.jit(lowering.to_jax(symbol, is_train=True))

        def phi(x):
            return sum(jnp.sum(y * h) for y, h in zip(forward({"x": x})[0], heads.values(), strict=True))

        direction = jnp.asarray(rng.uniform(-1, 1, shape))
        expected = jax.jit(jax.grad(lambda x: jnp.sum(jax.grad(phi)(x) * direction)))(jnp.asarray(x))
        args = {"x": jnp.asarray(x), **{name: jnp.asarray(value) for name, value in heads.items()}}
        _, second, _ = jax.jit(lowering.grad_fn(first, ["x"]))(args, head_grads=[direction])
        assert_close(second["x"], expected, 1e-9, "second-order gradient")


@pytest.mark.slow("compiles")
def test_one_triangle_of_a_symmetric_matrix_is_read():
    whole = np.array([[4, 2, 1], [2, 5, 3], [1, 3, 6]], np.float32)
    lower = np.where(np.tri(3, dtype=bool), whole, 99)
    for op in ("linalg_potrf", "_linalg_syevd"):
        for a, b in zip(run(getattr(sym, op)(A), a=whole), run(getattr(sym, op)(A), a=lower), strict=True):
            np.testing.assert_array_equal(a, b)
    upper = sym.linalg_potrf(A, lower=False)
    np.testing.assert_array_equal(run(upper, a=whole), run(upper, a=lower.T))


def test_triangles_that_files_ask_for_by_a_parameter_that_mxnet_does_not_list_are_computed():
    whole = np.array([[4, 2, 1], [2, 5, 3], [1, 3, 6]], np.float32)
    for op, argument in (("_linalg_potrf", np.triu(whole)), ("_linalg_potri", np.linalg.cholesky(whole).T)):
        text = getattr(sym, op)(A, name="op").tojson()
        text = text.replace('"name": "op", ', '"name": "op", \n      "attrs": {"lower": "False"}, ')
        loaded = sym.load_json(text)
        assert loaded.tojson() == text
        expected = np.linalg.cholesky(whole).T if op == "_linalg_potrf" else np.linalg.inv(whole)
        np.testing.assert_allclose(run(loaded, a=argument)[0], expected, rtol=1e-5, atol=1e-6)


def test_the_largest_component_of_an_eigenvector_is_positive():
    x = np.random.RandomState(0).uniform(-1, 1, (20, 4, 4))
    vectors, values = run(sym._linalg_syevd(A), a=x + np.swapaxes(x, 1, 2))
    assert (np.diff(values) > 0).all()
    assert (np.take_along_axis(vectors, np.abs(vectors).argmax(-1)[..., None], -1) > 0).all()


def test_equal_eigenvalues_leave_the_gradient_of_the_others_alone():
    grads = gradient(sym._linalg_syevd(A), [np.zeros((3, 3)), [1, 1, 5]], a=np.diag([1.0, 1.0, 2.0]))
    np.testing.assert_allclose(grads["a"], np.diag([1.0, 1.0, 5.0]))


# -- singular matrices -----------------------------------------------------------------------------------------------


@pytest.mark.slow("compiles")
@pytest.mark.parametrize(
    ("op", "values"), [("linalg_det", [[-3, 0]]), ("linalg_slogdet", [[-1, 0], [np.log(3), -np.inf]])]
)
def test_singular_matrices_have_a_determinant_but_no_gradient(op: str, values: list[list[float]]):
    symbol = getattr(sym, op)(A)
    a = np.array([[[1, 2], [2, 1]], [[1, 1], [1, 1]]])
    for output, expected in zip(run(symbol, a=a), values, strict=True):
        np.testing.assert_allclose(output, expected, rtol=1e-6)
    grads = gradient(symbol, [np.ones(2)] * len(values), a=a)["a"]
    assert np.isfinite(grads).all()
    assert (grads[0] != 0).all()
    assert (grads[1] == 0).all()


def test_a_matrix_that_is_not_positive_definite_has_a_factor_of_nan():
    assert np.isnan(run(sym.linalg_potrf(A), a=[[-1.0, 0], [0, 1]])[0]).any()


# -- names, shapes, dtypes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "names"),
    [
        ("linalg_det", ["op_output0"]),
        ("linalg_slogdet", ["op_output0", "op_output1"]),
        ("linalg_gelqf", ["op_output0", "op_output1"]),
        ("_linalg_syevd", ["op_output0", "op_output1"]),
        ("linalg_potrf", ["op_output"]),
    ],
)
def test_outputs_have_mxnets_names(op: str, names: list[str]):
    symbol = getattr(sym, op)(name="op")
    assert symbol.list_outputs() == names
    assert symbol.list_arguments() == ["op_A"]


def test_one_number_for_a_single_matrix_has_shape_1():
    for op in ("linalg_det", "linalg_sumlogdiag"):
        assert getattr(sym, op)(A).infer_shape(a=(3, 3))[1] == [(1,)]
        assert getattr(sym, op)(A).infer_shape(a=(2, 5, 3, 3))[1] == [(2, 5)]


def test_shapes_are_inferred_backwards():
    c = sym.Variable("c")
    assert completed(sym.linalg_gemm(A, B, c), (2, 3, 5), a=(0, 0, 4)) == {
        "a": (2, 3, 4),
        "b": (2, 4, 5),
        "c": (2, 3, 5),
        "like": (2, 3, 5),
    }
    assert completed(sym.linalg_syrk(A), (2, 3, 3), a=(0, 0, 4))["a"] == (2, 3, 4)
    assert completed(sym.linalg_trmm(A, B), (2, 3, 4)) == {"a": (2, 3, 3), "b": (2, 3, 4), "like": (2, 3, 4)}
    assert completed(sym.linalg_trsm(A, B, rightside=True), (3, 4))["a"] == (4, 4)
    assert completed(sym.linalg_extractdiag(A, offset=-1), (2, 3))["a"] == (2, 4, 4)
    assert completed(sym.linalg_makediag(A, offset=2), (2, 5, 5))["a"] == (2, 3)
    assert completed(sym.linalg_extracttrian(A, offset=1), (2, 6))["a"] == (2, 4, 4)
    assert completed(sym.linalg_maketrian(A), (2, 4, 4))["a"] == (2, 10)
    assert completed(sym.linalg_gelqf(A), (2, 3, 4))["a"] == (2, 3, 4)
    assert completed(sym.linalg_inverse(A), (2, 3, 0))["a"] == (2, 3, 3)


@pytest.mark.parametrize(
    ("symbol", "shapes", "words"),
    [
        (sym.linalg_potrf(A, name="n"), {"a": (3, 4)}, (r"expected (3, 3)", "got (3, 4)", "'A'")),
        (sym.linalg_det(A, name="n"), {"a": (3, 4)}, ("expected (3, 3)", "got (3, 4)")),
        (sym.linalg_det(A, name="n"), {"a": (3,)}, ("The data must be a matrix", "at least 2 axes", "got (3,)")),
        (
            sym.linalg_trmm(A, B, name="n"),
            {"a": (2, 3, 3), "b": (2, 4, 3)},
            ("expected (2, 3, 3)", "got (2, 4, 3)", "'B'"),
        ),
        (sym.linalg_trsm(A, B, name="n"), {"a": (3, 3), "b": (2, 3, 3)}, ("'B'", "got (2, 3, 3)")),
        (sym.linalg_gelqf(A, name="n"), {"a": (4, 3)}, ("More rows than columns", "m ≤ n", "got (4, 3)")),
        (sym.linalg_extractdiag(A, offset=3, name="n"), {"a": (3, 3)}, ("'offset'", "|offset| < 3", "got 3")),
        (sym.linalg_extracttrian(A, offset=-3, name="n"), {"a": (3, 3)}, ("'offset'", "|offset| < 3", "got -3")),
        (sym.linalg_maketrian(A, name="n"), {"a": (2, 4)}, ("No triangle", "1, 3, 6, 10", "got 4")),
        (
            sym.linalg_gemm(A, B, sym.Variable("c"), name="n"),
            {"a": (2, 3), "b": (3, 2), "c": (1, 2)},
            ("(1, 2)", "(2, 2)"),
        ),
    ],
)
def test_shapes_that_do_not_fit_are_named(
    symbol: sym.Symbol, shapes: dict[str, tuple[int, ...]], words: tuple[str, ...]
):
    with pytest.raises(InferenceError) as error:
        symbol.infer_shape(**shapes)
    assert all(word in str(error.value) for word in (*words, "'n'")), str(error.value)


@pytest.mark.parametrize("op", ["linalg_potrf", "linalg_det", "linalg_inverse", "_linalg_syevd", "linalg_gelqf"])
def test_factorisations_take_float32_and_float64_only(op: str):
    with pytest.raises(InferenceError, match=f"32-bit and 64-bit.*expected float32 or float64; got float16.*{op}.*'n'"):
        getattr(sym, op)(A, name="n").infer_type(a="float16")


def test_packing_keeps_the_order_of_mxnet():
    a = np.arange(9).reshape(3, 3)
    assert run(sym.linalg_extracttrian(A), a=a)[0].tolist() == [0, 3, 4, 6, 7, 8]
    assert run(sym.linalg_extracttrian(A, lower=False), a=a)[0].tolist() == [0, 1, 4, 2, 5, 8]
    for offset in (-2, -1, 0, 1, 2):
        for lower in (True, False):
            params = {"offset": offset, "lower": lower}
            packed = sym.linalg_extracttrian(A, **params)
            there_and_back = sym.linalg_extracttrian(sym.linalg_maketrian(packed, **params), **params)
            np.testing.assert_array_equal(run(packed, a=a)[0], run(there_and_back, a=a)[0])


def test_a_nuclear_norm_says_which_norms_have_a_second_gradient():
    first = sym._npi_norm(A, axis=(0, 1), flag=2).gradient("a")
    with pytest.raises(GradientError, match=r"_norm_direction.*np\.linalg\.norm.*no second one; ord='fro' has"):
        first.gradient("a")
