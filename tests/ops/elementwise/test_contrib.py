"""Quadratic, division by the root of a dimension, allclose: edges and refusals."""

import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError
from tests.support.traced import evaluated

A, B = sym.Variable("a"), sym.Variable("b")
INF, NAN = np.inf, np.nan


@pytest.mark.parametrize(
    ("a", "b", "options", "verdict"),
    [  # MXNet 1.9.1's verdicts
        ([1, NAN], [1, NAN], {}, 1),
        ([1, NAN], [1, NAN], {"equal_nan": False}, 0),
        ([1, NAN], [1, 2], {}, 0),
        ([INF, -INF], [INF, -INF], {}, 1),
        ([INF], [-INF], {"atol": 1}, 1),
        ([INF], [1], {}, 0),
        ([1], [INF], {}, 1),
        ([1], [1.0001], {}, 0),
        ([1], [1.000001], {}, 1),
    ],
)
def test_allclose_of_what_is_not_finite(a, b, options, verdict):
    args = {"a": jnp.array(a, "float32"), "b": jnp.array(b, "float32")}
    (output,), _ = evaluated(lowering.to_jax(sym._contrib_allclose(A, B, **options)), args)
    assert (output.shape, output.dtype, int(output)) == ((), jnp.uint8, verdict)


def test_allclose_wants_equal_shapes_where_mxnet_reads_outside():
    with pytest.raises(InferenceError, match="Shape inconsistent.*'_contrib_allclose'.*'n'.*'b'"):
        sym._contrib_allclose(A, B, name="n").infer_shape(a=(2, 3), b=(3,))
    assert sym._contrib_allclose(A, B).infer_shape(a=(2, 3))[0] == [(2, 3), (2, 3)]


def test_division_by_the_root_of_a_dimension_needs_one():
    with pytest.raises(InferenceError, match="no last axis.*'_contrib_div_sqrt_dim'.*'n'"):
        lowering.to_jax(sym._contrib_div_sqrt_dim(A, name="n"))({"a": jnp.ones(())})
