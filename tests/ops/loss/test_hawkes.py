"""hawkesll: against its definition, MXNet's gradient where it has one, memory handed on, refusals."""

# Some calls are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError
from tests.support.comparison import assert_close

HAWKES = sym._contrib_hawkesll(name="h")
ARGS = {
    "lda": [[0.5, 0.8], [0.7, 0.6]],
    "alpha": [0.2, 0.4],
    "beta": [1.0, 2.0],
    "state": [[0.0, 0.0], [0.0, 0.0]],
    "lags": [[0.5, 0.25, 0.75], [0.125, 0.5, 0.25]],
    "marks": [[0, 1, 0], [1, 1, 0]],
    "valid_length": [3.0, 2.0],
    "max_time": [2.0, 1.5],
}


def arrays(**given) -> dict:
    return {
        f"h_{name}": jnp.asarray(value, jnp.int32 if name == "marks" else jnp.float32)
        for name, value in (ARGS | given).items()
    }


@pytest.mark.slow("compiles")
def test_gradient_equals_mxnet_where_it_has_one():
    """Without a head gradient of the second output, of lda, alpha and beta."""
    heads = [jnp.array([1.0, 2.0]), jnp.zeros((2, 2))]
    names = ["h_lda", "h_alpha", "h_beta"]
    outputs, grads, _ = jax.jit(lowering.grad_fn(HAWKES, names))(arrays(), head_grads=heads)
    assert_close(outputs[0], [-4.673389538800649, -3.277454863350802], 1e-5, "output")
    assert_close(grads["h_lda"], [[1.743448456119733, -0.75], [-3.0, 2.56971043041807]], 1e-5, "lda")
    assert_close(grads["h_alpha"], [-0.5289603058077412, -2.7970770321071035], 1e-5, "alpha")
    assert_close(grads["h_beta"], [-0.12759211707721363, -0.2330049097604192], 1e-5, "beta")


@pytest.mark.slow("compiles")
def test_memory_carries_one_interval_over_to_the_next():
    """The likelihood of an interval is the sum of those of its halves, the second starting from the first's memory."""
    run = jax.jit(lowering.to_jax(HAWKES))
    (whole, end), _ = run(arrays())
    first = {"lags": np.array(ARGS["lags"])[:, :1], "marks": np.array(ARGS["marks"])[:, :1]}
    (start, memory), _ = run(arrays(**first, valid_length=[1, 1], max_time=[0.5, 0.125]))
    second = {"lags": np.array(ARGS["lags"])[:, 1:], "marks": np.array(ARGS["marks"])[:, 1:]}
    (rest, last), _ = run(arrays(**second, state=memory, valid_length=[2, 1], max_time=[1.5, 1.375]))
    np.testing.assert_allclose(start + rest, whole, rtol=1e-5)
    np.testing.assert_allclose(last, end, rtol=1e-5)


def test_shapes_and_dtypes_are_inferred():
    assert HAWKES.list_outputs() == ["h_output", "h_out_state"]
    arguments, outputs, _ = HAWKES.infer_shape(h_lda=(2, 3), h_lags=(2, 5))
    assert arguments == [(2, 3), (3,), (3,), (2, 3), (2, 5), (2, 5), (2,), (2,)]
    assert outputs == [(2,), (2, 3)]
    dtypes = HAWKES.infer_type(h_lda="float64")[0]
    assert dtypes == [np.int32 if name == "h_marks" else np.float64 for name in HAWKES.list_arguments()]


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ({"h_lda": (2, 3), "h_lags": (3, 5)}, ("'lags'", "(2, 5)", "(3, 5)")),
        ({"h_lda": (2, 3), "h_alpha": (2,)}, ("'alpha'", "(3,)", "(2,)")),
        ({"h_lda": (3,)}, ("'lda'", "(n, k)", "(3,)")),
    ],
)
def test_what_does_not_fit_is_named(shapes, words):
    with pytest.raises(InferenceError) as error:
        HAWKES.infer_shape(**shapes)
    assert all(word in str(error.value) for word in (*words, "'h'")), str(error.value)
