"""boolean_mask: MXNet's values, its gradient to any order, and what is said where the mask is not known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, LoweringError

X, MASK = sym.Variable("x"), sym.Variable("mask")
MASKED = sym._contrib_boolean_mask(X, MASK, name="kept")
DATA = np.arange(6, dtype=np.float32).reshape(3, 2)


def run(symbol, **args):
    return lowering.to_jax(symbol)(args)[0][0]


@pytest.mark.parametrize(
    ("mask", "kept"),
    [  # MXNet 1.9.1's results
        (np.array([0, 1, 1], "float32"), [[2, 3], [4, 5]]),
        (np.array([0, 2, -1], "int32"), [[2, 3], [4, 5]]),
        (np.array([0, 0.5, 0], "float32"), [[2, 3]]),
        (np.array([True, False, True]), [[0, 1], [4, 5]]),
        (np.array([0, 0, 0], "uint8"), []),
    ],
)
def test_slices_whose_index_is_not_0_are_kept(mask, kept):
    output = run(MASKED, x=DATA, mask=mask)
    assert output.tolist() == kept
    assert output.shape == (len(kept), 2)
    assert run(MASKED, x=DATA.astype("float16"), mask=jnp.asarray(mask)).dtype == np.float16


def test_any_axis_can_be_masked_where_mxnet_has_the_first_only():
    assert run(sym._contrib_boolean_mask(X, MASK, axis=-1), x=DATA, mask=np.array([0, 1])).tolist() == [[1], [3], [5]]


@pytest.mark.slow("compiles")
@pytest.mark.parametrize(("axis", "mask"), [(0, [0, 1, 1]), (1, [0, 1]), (-1, [0, 0])])
def test_gradient_puts_slices_back_and_is_differentiable_again(axis, mask):
    symbol = sym._contrib_boolean_mask(X, MASK, axis=axis, name="kept")
    args = {"x": DATA, "mask": np.array(mask, "int32")}
    outputs, _ = lowering.to_jax(symbol)(args)
    head = np.arange(1, outputs[0].size + 1, dtype=np.float32).reshape(outputs[0].shape)
    _, grads, _ = lowering.grad_fn(symbol, ["x", "mask"])(args, head_grads=[head])
    _, vjp = jax.vjp(lambda x: lowering.to_jax(symbol)({**args, "x": x})[0][0], jnp.asarray(DATA))
    assert grads["x"].tolist() == vjp(jnp.asarray(head))[0].tolist()
    assert grads["mask"].tolist() == [0] * len(mask)
    first = symbol.gradient(["x"], head_grads=[sym.Variable("head")])
    _, second, _ = lowering.grad_fn(first, ["head"])({**args, "head": head}, head_grads=[DATA])
    assert second["head"].tolist() == outputs[0].tolist()


def test_gradient_is_mxnets():
    args = {"x": DATA, "mask": np.array([0, 1, 1], "float32")}
    head = np.array([[1, 2], [3, 4]], "float32")
    assert lowering.grad_fn(MASKED, ["x"])(args, head_grads=[head])[1]["x"].tolist() == [[0, 0], [1, 2], [3, 4]]


def test_a_mask_that_the_graph_calculates_and_what_follows_it():
    symbol = sym.sum(sym.square(sym._contrib_boolean_mask(X, X > 1.5)) * 3)
    x = np.array([1.0, 2.0, 3.0], "float32")
    _, grads, _ = lowering.grad_fn(symbol, ["x"])({"x": x})
    assert run(symbol, x=x).tolist() == [39]
    assert grads["x"].tolist() == [0, 12, 18]


def test_a_mask_that_is_closed_over_is_known_to_jit_and_vmap():
    mask = jnp.array([0, 1, 1])
    function, grad = lowering.to_jax(MASKED), lowering.grad_fn(MASKED, ["x"])

    @jax.jit
    def kept_and_gradient(x):
        outputs, grads, _ = grad({"x": x, "mask": mask}, head_grads=[jnp.ones((2, 2))])
        return outputs[0], grads["x"]

    kept, gradient = kept_and_gradient(DATA)
    assert kept.tolist() == DATA[1:].tolist()
    assert gradient.tolist() == [[0, 0], [1, 1], [1, 1]]
    (mapped,), _ = jax.vmap(lambda x: function({"x": x, "mask": mask}))(DATA[None])
    assert mapped.tolist() == [DATA[1:].tolist()]


def test_number_of_kept_slices_is_unknown_until_it_runs():
    arguments, outputs, _ = MASKED.infer_shape_partial(x=(3, 2))
    assert (arguments, outputs) == ([(3, 2), (3,)], [(0, 2)])
    following = sym.FullyConnected(MASKED, num_hidden=4, name="fc")
    assert following.infer_shape_partial(x=(3, 2))[0] == [(3, 2), (3,), (4, 2), (4,)]


@pytest.mark.parametrize(
    "call",
    [
        lambda args: jax.jit(lowering.to_jax(MASKED))(args),
        lambda args: jax.vmap(lowering.to_jax(MASKED))({name: value[None] for name, value in args.items()}),
        lambda args: jax.jit(lowering.grad_fn(MASKED, ["x"]))(args, head_grads=[jnp.ones((2, 2))]),
    ],
    ids=["jit", "vmap", "gradient"],
)
def test_a_mask_that_is_not_known_is_refused_with_what_to_use_instead(call):
    with pytest.raises(LoweringError) as error:
        call({"x": DATA, "mask": np.array([0.0, 1.0, 1.0], "float32")})
    words = ("'_contrib_boolean_mask'", "'kept'", "'index'", "XLA must know shapes", "SequenceMask", "outside jax.jit")
    assert all(word in str(error.value) for word in words), str(error.value)


@pytest.mark.parametrize(
    ("axis", "shapes", "words"),
    [
        (0, {"x": (3, 2), "mask": (3, 2)}, ("A mask must have one axis", "(n,)", "(3, 2)")),
        (0, {"x": (3, 2), "mask": (2,)}, ("Shape inconsistent", "'index'", "(3,)")),
        (2, {"x": (3, 2), "mask": (2,)}, ("'axis'", "got 2")),
    ],
)
def test_masks_that_do_not_fit_are_named(axis, shapes, words):
    with pytest.raises(InferenceError) as error:
        sym._contrib_boolean_mask(X, MASK, axis=axis, name="kept").infer_shape(**shapes)
    assert all(word in str(error.value) for word in (*words, "'_contrib_boolean_mask'", "'kept'")), str(error.value)
