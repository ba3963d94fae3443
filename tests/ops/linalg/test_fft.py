"""fft, ifft, count_sketch: NumPy's transforms, the convolution theorem, refusals."""

import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from tests.support.traced import evaluated

X, H, S = (sym.Variable(name) for name in "xhs")
RNG = np.random.default_rng(0)


def run(symbol, **args):
    return np.asarray(
        evaluated(lowering.to_jax(symbol), {name: jnp.asarray(value) for name, value in args.items()})[0][0]
    )


def interleaved(complex_numbers):
    return np.stack([complex_numbers.real, complex_numbers.imag], -1).reshape(*complex_numbers.shape[:-1], -1)


@pytest.mark.slow("computes much")
@pytest.mark.parametrize("length", [1, 5, 8])
def test_transforms_are_numpys_with_parts_alternating(length):
    x = RNG.normal(size=(3, length)).astype("float32")
    spectrum = np.fft.fft(x)
    np.testing.assert_allclose(run(sym._contrib_fft(X), x=x), interleaved(spectrum), atol=1e-5)
    z = spectrum * (1 + 0.5j)  # the inverse of what no real data have: its imaginary part is dropped
    inverse = run(sym._contrib_ifft(X), x=interleaved(z).astype("float32"))
    np.testing.assert_allclose(inverse, np.fft.ifft(z).real * length, atol=1e-4)


@pytest.mark.slow("computes much")
def test_inverse_is_not_divided_by_the_length():
    x = np.array([[1.0, 2.0, 4.0]], "float32")
    np.testing.assert_allclose(run(sym._contrib_ifft(sym._contrib_fft(X)), x=x), 3 * x, rtol=1e-6)


@pytest.mark.slow("computes much")
def test_sketch_of_an_outer_product_is_the_convolution_of_sketches():
    """The theorem that the operators are for: count sketches multiply in the frequency domain (Pham and Pagh 2013)."""
    d, out = 6, 8
    x, y = RNG.normal(size=(2, d)).astype("float32")
    (hx, hy), (sx, sy) = RNG.integers(0, out, (2, d)), RNG.choice([-1, 1], (2, d))

    def sketched(values, h, s):
        symbol = sym._contrib_count_sketch(X, H, S, out_dim=out)
        return run(symbol, x=values[None], h=h[None].astype("float32"), s=s[None].astype("float32"))

    h_outer, s_outer = (hx[:, None] + hy).ravel() % out, np.outer(sx, sy).ravel()
    spectra = [run(sym._contrib_fft(X), x=sketched(*of))[0] for of in ((x, hx, sx), (y, hy, sy))]
    a, b = (spectrum[::2] + 1j * spectrum[1::2] for spectrum in spectra)
    convolved = run(sym._contrib_ifft(X), x=interleaved((a * b)[None]).astype("float32")) / out
    np.testing.assert_allclose(convolved, sketched(np.outer(x, y).ravel(), h_outer, s_outer), atol=1e-5)


def test_shapes_and_dtypes_are_inferred_from_either_side():
    assert sym._contrib_fft(X).infer_shape(x=(2, 3, 4))[1] == [(2, 3, 8)]
    assert (sym._contrib_ifft(X) + H).infer_shape(h=(2, 5))[0] == [(2, 10), (2, 5)]
    sketch = sym._contrib_count_sketch(X, H, S, out_dim=7)
    assert sketch.infer_shape(x=(2, 3))[:2] == ([(2, 3), (1, 3), (1, 3)], [(2, 7)])
    assert sketch.infer_type(x="float64")[0] == [np.float64] * 3


@pytest.mark.parametrize(
    ("symbol", "shapes", "words"),
    [
        (sym._contrib_ifft(X, name="n"), {"x": (2, 3)}, ("'_contrib_ifft'", "pairs of real and imaginary", "(2, 3)")),
        (
            sym._contrib_count_sketch(X, H, S, out_dim=7, name="n"),
            {"x": (2, 3), "h": (1, 4)},
            ("'_contrib_count_sketch'", "Shape inconsistent", "'h'", "(1, 3)"),
        ),
    ],
)
def test_what_does_not_fit_is_named(symbol, shapes, words):
    with pytest.raises(InferenceError) as error:
        symbol.infer_shape(**shapes)
    assert all(word in str(error.value) for word in (*words, "'n'")), str(error.value)


def test_integers_and_empty_sketches_are_refused():
    with pytest.raises(InferenceError, match="floating point types.*'_contrib_fft'"):
        sym._contrib_fft(X).infer_type(x="int32")
    with pytest.raises(InferenceError, match="no last axis"):
        lowering.to_jax(sym._contrib_fft(X))({"x": jnp.ones(())})
    with pytest.raises(ParamError, match="'out_dim'.*≥ 1"):
        sym._contrib_count_sketch(X, H, S, out_dim=0)
