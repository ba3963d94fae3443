"""CTCLoss: against all alignments counted out, sequences that nothing fits, inference, refusals."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError

DATA = np.random.RandomState(0).uniform(-2, 2, (4, 3, 3)).astype(np.float32)


def ctc(**params) -> sym.Symbol:
    return sym.CTCLoss(name="c", **params)


def loss_and_gradient(symbol: sym.Symbol, **inputs):
    args = {f"c_{name}": jnp.asarray(value, jnp.float32) for name, value in inputs.items()}
    heads = [jnp.ones(inputs["data"].shape[1])]
    (loss,), grads, _ = jax.jit(lowering.grad_fn(symbol, ["c_data"]))(args, head_grads=heads)
    return np.asarray(loss), np.asarray(grads["c_data"])


def counted_out(data: np.ndarray, labels: list[int], blank: int) -> float:
    """-log of the total probability of all paths (t,) that collapse to the labels."""
    probabilities = np.exp(data) / np.exp(data).sum(-1, keepdims=True)
    total = 0.0
    for path in itertools.product(range(data.shape[1]), repeat=data.shape[0]):
        collapsed = [c for i, c in enumerate(path) if c != blank and (i == 0 or c != path[i - 1])]
        if collapsed == labels:
            total += np.prod([probabilities[i, c] for i, c in enumerate(path)])
    return -np.log(total)


@pytest.mark.slow("compiles")
@pytest.mark.parametrize(("blank", "padding", "shift"), [("first", 0, 0), ("last", -1, -1)])
def test_it_counts_all_alignments(blank: str, padding: int, shift: int):
    labels = [[1, 2], [2, 2], [1]]
    padded = np.array([[c + shift for c in row] + [padding] * (2 - len(row)) for row in labels])
    loss, _ = loss_and_gradient(ctc(blank_label=blank), data=DATA, label=padded)
    number = 0 if blank == "first" else 2
    expected = [counted_out(DATA[:, i], [c + shift for c in row], number) for i, row in enumerate(labels)]
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


@pytest.mark.slow("compiles")
def test_only_label_lengths_may_be_given():
    label = np.array([[1, 2], [2, 2], [1, 1]])
    symbol = ctc(use_label_lengths=True)
    assert symbol.list_arguments() == ["c_data", "c_label", "c_label_lengths"]
    loss, _ = loss_and_gradient(symbol, data=DATA, label=label, label_lengths=[1, 2, 0])
    expected = [counted_out(DATA[:, i], labels, 0) for i, labels in enumerate([[1], [2, 2], []])]
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


@pytest.mark.slow("compiles")
def test_what_no_alignment_fits_has_loss_and_gradient_0():
    """A quirk mended: MXNet's loss is 0, and its gradient whatever the memory held."""
    symbol = ctc(use_data_lengths=True)
    label = np.array([[1, 1, 1], [1, 2, 0], [1, 2, 1]])
    loss, gradient = loss_and_gradient(symbol, data=DATA, label=label, data_lengths=[4, 0, 3])
    assert (loss[:2] == 0).all()
    assert not gradient[:, :2].any()
    assert loss[2] > 0
    assert gradient[:3, 2].any()
    assert not gradient[3, 2].any()


@pytest.mark.slow("compiles")
def test_the_gradient_of_each_step_adds_up_to_0():
    _, gradient = loss_and_gradient(ctc(), data=DATA, label=np.array([[1, 2], [2, 2], [1, 0]]))
    np.testing.assert_allclose(gradient.sum(-1), 0, atol=1e-6)


@pytest.mark.slow("compiles")
def test_long_sequences_do_not_underflow():
    data = np.random.RandomState(1).uniform(-9, 9, (500, 1, 5)).astype(np.float32)
    loss, gradient = loss_and_gradient(ctc(), data=data, label=np.random.RandomState(2).randint(1, 5, (1, 60)))
    assert 100 < loss[0] < 1e5
    assert np.isfinite(gradient).all()
    assert gradient.any(-1).all()


def test_shapes_and_dtypes_are_inferred():
    symbol = ctc(use_data_lengths=True, use_label_lengths=True)
    assert symbol.infer_shape(c_data=(6, 2, 5), c_label=(2, 3))[0] == [(6, 2, 5), (2, 3), (2,), (2,)]
    assert symbol.list_outputs() == ["c_output0"]
    assert ctc().infer_type(c_data="float32", c_label="int32")[0] == [np.float32, np.int32]


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ({"c_data": (3, 2, 5), "c_label": (2, 4)}, ("cannot exceed", "at most 3", "got 4")),
        ({"c_data": (6, 2, 5), "c_label": (3, 4)}, ("(2, 4)", "(3, 4)")),
        ({"c_data": (6, 5)}, ("data must be 3", "(6, 5)")),
        ({"c_label": (6,)}, ("label must be 2", "(6,)")),
    ],
)
def test_what_does_not_fit_is_named(shapes, words):
    with pytest.raises(InferenceError) as error:
        ctc().infer_shape(**shapes)
    assert all(word in str(error.value) for word in (*words, "'CTCLoss'", "'c'")), str(error.value)


def test_the_blank_is_first_or_last():
    with pytest.raises(ParamError, match="blank_label.*'first', 'last'"):
        ctc(blank_label="middle")
