"""Interleaved attention: agreement with plain attention, inference, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from tests.support.traced import evaluated

A, B = sym.Variable("a"), sym.Variable("b")
SELF_QK, SELF_VALUES = (getattr(sym, f"_contrib_interleaved_matmul_selfatt_{name}") for name in ("qk", "valatt"))
ENC_QK, ENC_VALUES = (getattr(sym, f"_contrib_interleaved_matmul_encdec_{name}") for name in ("qk", "valatt"))


@pytest.mark.slow("compiles")
def test_it_is_attention():
    """softmax(Q Kᵀ / √d) V of every head and sample."""
    t, n, heads, d = 5, 2, 3, 4
    symbol = SELF_VALUES(A, sym.softmax(SELF_QK(A, heads=heads)), heads=heads)
    data = np.random.RandomState(0).uniform(-1, 1, (t, n, heads * 3 * d)).astype(np.float32)
    (out,), _ = evaluated(lowering.to_jax(symbol), {"a": data})
    q, k, v = np.moveaxis(data.reshape(t, n, heads, 3, d), 3, 0)
    scores = np.einsum("inhd,jnhd->nhij", q, k) / np.sqrt(d)
    expected = np.einsum("nhij,jnhd->inhd", np.asarray(jax.nn.softmax(jnp.asarray(scores))), v)
    np.testing.assert_allclose(out, expected.reshape(t, n, -1), rtol=1e-5, atol=1e-6)


def test_shapes_are_inferred_both_ways():
    assert SELF_QK(A, heads=2).infer_shape(a=(5, 3, 24))[1] == [(6, 5, 5)]
    qk = ENC_QK(A, B, heads=2)
    assert qk.infer_shape(a=(5, 3, 8), b=(7, 3, 16))[1] == [(6, 5, 7)]
    assert qk.infer_shape(a=(5, 0, 8), b=(7, 3, 0))[0] == [(5, 3, 8), (7, 3, 16)]
    assert (qk + sym.Variable("y", shape=(6, 5, 7))).infer_shape_partial(a=(0, 0, 8))[0][:2] == [(5, 3, 8), (7, 3, 16)]
    values = ENC_VALUES(A, B, heads=2)
    assert values.infer_shape(a=(7, 3, 16), b=(6, 5, 7))[1] == [(5, 3, 8)]
    assert values.infer_shape_partial(a=(7, 3, 16))[0] == [(7, 3, 16), (6, 0, 7)]


def test_half_precision_accumulates_in_float32():
    data = np.full((1, 1, 3 * 4096), 0.25, np.float16)
    (out,), _ = evaluated(lowering.to_jax(SELF_QK(A, heads=1)), {"a": data})
    assert out.dtype == np.float16
    assert float(out[0, 0, 0]) == 4096 * 0.25**2 / 64


@pytest.mark.parametrize(
    ("symbol", "shapes", "words"),
    [
        (SELF_QK(A, heads=5, name="s"), {"a": (5, 2, 24)}, ("'heads'", "divisible by 15", "(5, 2, 24)")),
        (SELF_QK(A, heads=2, name="s"), {"a": (5, 24)}, ("should be 3D", "(5, 24)")),
        (SELF_VALUES(A, B, heads=2, name="s"), {"a": (5, 2, 24), "b": (4, 5, 6)}, ("'attention'", "(4, 5, 5)")),
        (ENC_QK(A, B, heads=2, name="s"), {"a": (5, 2, 8), "b": (7, 3, 16)}, ("'keys_values'", "(7, 2, 16)")),
        (ENC_VALUES(A, B, heads=2, name="s"), {"b": (5, 5, 7)}, ("batch · heads", "multiple of 2", "got 5")),
    ],
)
def test_what_does_not_fit_is_named(symbol, shapes, words):
    with pytest.raises(InferenceError) as error:
        symbol.infer_shape(**shapes)
    assert all(word in str(error.value) for word in (*words, "'s'")), str(error.value)


def test_heads_are_needed_and_positive():
    with pytest.raises(ParamError, match="heads"):
        SELF_QK(A)
    with pytest.raises(ParamError, match="heads.*≥ 1.*0"):
        SELF_QK(A, heads=0)
