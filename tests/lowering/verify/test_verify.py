"""The witness itself: what it proves, what it catches, and how its report reads."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from lowering.core.rules import lowers
from lowering.verify.gradient_check import (
    GradientsDisagreeError,
    check_gradients,
    check_projection,
    relative_difference,
)
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import GradientError
from symjax_nnvm.ir.node import NodeEntry, apply
from symjax_nnvm.ir.register import register_op, same_shape
from tests.support.traced import evaluated

RNG = np.random.RandomState(3)
X = RNG.uniform(-1, 1, (2, 3)).astype(np.float32)
LABEL = np.array([2, 0], np.float32)

# -- small operators -------------------------------------------------------------------------------------------------


def _cubed_with_gradient(factor: float):
    def rule(node, ograds):
        squared = apply("square", node.inputs[0])
        return [apply("elemwise_mul", apply("_mul_scalar", squared, scalar=factor), ograds[0])]

    return rule


def _toy(name: str, rule, **options) -> None:
    register_op(f"_test_verify_{name}", infer_shape=same_shape, doc="For tests.", **options)
    lowers(f"_test_verify_{name}")(rule)


for _name, _factor in (("cube", 3.0), ("wrong_cube", 2.0), ("nearly_cube", 3.0 * (1 + 1e-7))):
    _toy(_name, lambda p, x: x * x * x, gradient=_cubed_with_gradient(_factor))

# Neither JAX nor the rule sees the derivative of the second factor; finite differences do.
_toy(
    "hidden",
    lambda p, x: x * jax.lax.stop_gradient(x),
    gradient=lambda node, ograds: [apply("elemwise_mul", ograds[0], node.inputs[0])],
)

for _name, _loss in (("head", "square"), ("wrong_head", "exp")):
    _toy(
        _name,
        lambda p, x: x,
        gradient=lambda node, ograds: [apply("_mul_scalar", node.inputs[0], scalar=2.0)],
        loss=lambda node, loss=_loss: apply("sum", apply(loss, node.inputs[0])),
    )

register_op(
    "_test_verify_noise",
    infer_shape=same_shape,
    outputs=("output", "mask"),
    visible_outputs=1,
    gradient=lambda node, ograds: [apply("elemwise_mul", ograds[0], NodeEntry(node, 1, 0))],
    doc="For tests: data times random numbers.",
)


@lowers("_test_verify_noise", needs=("key",))
def _noise(p, x, *, key):
    mask = jax.random.uniform(key, x.shape, x.dtype)
    return x * mask, mask


def toy(name: str, x: sym.Symbol) -> sym.Symbol:
    return getattr(sym, f"_test_verify_{name}")(x, name=name)


# -- the report ------------------------------------------------------------------------------------------------------


def test_the_report_prints_as_a_table_of_arguments():
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=2, name="fc")
    report = check_gradients(net, {"data": X, "fc_weight": X[:, ::-1].copy(), "fc_bias": np.ones(2, np.float32)})
    header, rule, *lines, bounds = str(report).splitlines()
    titles = ["argument", "shape", "max |grad|", "vs jax.vjp: abs", "rel", "vs finite diff.: abs", "rel", "verdict"]
    assert re.split(r"  +", header) == titles
    assert set(rule) == {"-", " "}
    assert [line.split()[0] for line in lines] == ["data", "fc_weight", "fc_bias"]
    assert all(line.endswith("agrees") for line in lines)
    assert "(2, 3)" in lines[0]
    assert bounds == (
        "bounds, relative to max |grad|: 1e-09 against jax.vjp, 1e-05 against finite differences; all in float64"
    )


def test_the_report_holds_the_numbers():
    report = check_gradients(toy("cube", sym.Variable("x")), {"x": X}, head_grads=[np.ones((2, 3))])
    (row,) = report.rows
    assert report.ok
    assert (row.argument, row.shape) == ("x", (2, 3))
    assert row.scale == pytest.approx(3 * np.max(X.astype(np.float64) ** 2))
    assert row.vjp_rel <= 1e-15
    assert row.fd_rel is not None
    assert 0 < row.fd_rel < 1e-8


@pytest.mark.slow("compiles")
def test_without_finite_differences_their_columns_are_empty():
    report = check_gradients(toy("cube", sym.Variable("x")), {"x": X}, finite_differences=False)
    assert (report.rows[0].fd_abs, report.rows[0].fd_rel) == (None, None)
    assert str(report).splitlines()[2].split()[-3:] == ["-", "-", "agrees"]


def test_relative_difference_is_relative_to_the_largest_magnitude():
    assert relative_difference([1.0, 4.0], [2.0, -8.0]) == (12.0, 1.5)
    assert relative_difference([0.0], [0.0]) == (0.0, 0.0)
    assert relative_difference(np.zeros((0, 2)), np.zeros((0, 2))) == (0.0, 0.0)


# -- what it catches -------------------------------------------------------------------------------------------------


@pytest.mark.slow("compiles")
def test_a_wrong_gradient_rule_raises_with_the_table():
    net = toy("wrong_cube", sym.Variable("x")) + toy("cube", sym.Variable("y"))
    with pytest.raises(GradientError, match=r"Gradients disagree for \['x'\]") as error:
        check_gradients(net, {"x": X, "y": X})
    lines = {line.split()[0]: line for line in str(error.value).splitlines()[1:]}
    assert lines["x"].endswith("DIFFERS")
    assert lines["y"].endswith("agrees")


@pytest.mark.slow("compiles")
def test_an_error_of_a_tenth_of_a_millionth_is_caught():
    with pytest.raises(GradientError, match="disagree"):
        check_gradients(toy("nearly_cube", sym.Variable("x")), {"x": X})
    assert check_gradients(toy("nearly_cube", sym.Variable("x")), {"x": X}, rtol=1e-6).ok


@pytest.mark.slow("compiles")
def test_finite_differences_catch_what_both_derivatives_miss():
    net = toy("hidden", sym.Variable("x"))
    with pytest.raises(GradientError, match="disagree"):
        check_gradients(net, {"x": X})
    assert check_gradients(net, {"x": X}, finite_differences=False).ok


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("name", ["cube", "wrong_cube"])
def test_large_arguments_are_probed_along_random_directions(name: str):
    x = RNG.uniform(-1, 1, (20, 10)).astype(np.float32)
    if name == "cube":
        assert check_gradients(toy(name, sym.Variable("x")), {"x": x}).rows[0].shape == (20, 10)
    else:
        with pytest.raises(GradientError) as error:
            check_gradients(toy(name, sym.Variable("x")), {"x": x}, rtol=np.inf)  # only finite differences judge
        assert "DIFFERS" in str(error.value)


@pytest.mark.slow("computes much")
def test_a_projection_agrees_with_both_witnesses_and_counts_what_it_moves():
    net = sym.SoftmaxOutput(sym.FullyConnected(toy("cube", sym.Variable("x")), num_hidden=4, name="fc"), name="out")
    args = {"x": X, "fc_weight": RNG.normal(size=(4, X[0].size)), "fc_bias": np.zeros(4), "out_label": np.zeros(len(X))}
    report = check_projection(net, args, wrt=["x", "fc_weight", "fc_bias"], directions=3)
    assert report.ok
    assert (len(report.rows), report.arguments) == (3, 3)
    assert report.elements == X.size + 4 * X[0].size + 4
    for row in report.rows:
        assert row.jvp == pytest.approx(row.ours, rel=1e-9)
        assert row.fd == pytest.approx(row.ours, rel=1e-5)


@pytest.mark.nightly("every case", but_one_in=2)
@pytest.mark.slow("compiles")
@pytest.mark.parametrize("name", ["wrong_cube", "nearly_cube"])
def test_a_projection_catches_one_wrong_gradient_among_larger_ones(name: str):
    right = toy("cube", sym.Variable("y")) * 100.0
    with pytest.raises(GradientsDisagreeError, match="along directions") as error:
        check_projection(sym.Group([toy(name, sym.Variable("x")), right]), {"x": X, "y": X})
    assert not error.value.report.ok


@pytest.mark.slow("computes much")
def test_a_projection_asks_finite_differences_too():
    net = toy("hidden", sym.Variable("x"))
    with pytest.raises(GradientsDisagreeError):
        check_projection(net, {"x": X})
    assert check_projection(net, {"x": X}, finite_differences=False).ok


@pytest.mark.slow("compiles")
def test_a_wrong_loss_equivalent_is_caught():
    assert check_gradients(toy("head", sym.Variable("x")), {"x": X}).ok
    with pytest.raises(GradientError, match="disagree"):
        check_gradients(toy("wrong_head", sym.Variable("x")), {"x": X})


# -- loss heads ------------------------------------------------------------------------------------------------------


def classifier(data: sym.Symbol) -> sym.Symbol:
    return sym.SoftmaxOutput(sym.FullyConnected(data, num_hidden=3, name="fc"), name="softmax")


WEIGHTS = {
    "fc_weight": RNG.uniform(-1, 1, (3, 3)).astype(np.float32),
    "fc_bias": RNG.uniform(-1, 1, 3).astype(np.float32),
}


@pytest.mark.slow("compiles")
def test_a_loss_head_is_compared_through_the_loss_it_stands_for():
    report = check_gradients(
        classifier(sym.Variable("data")),
        {"data": X, "softmax_label": LABEL, **WEIGHTS},
        wrt=["data", "fc_weight", "fc_bias"],
    )
    assert [row.argument for row in report.rows] == ["data", "fc_weight", "fc_bias"]
    assert all(row.scale > 0 for row in report.rows)


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("label", [LABEL, RNG.uniform(0, 1, (2, 3)).astype(np.float32)], ids=["class", "probabilities"])
def test_labels_are_arguments_with_a_gradient_of_zeros(label: np.ndarray):
    report = check_gradients(classifier(sym.Variable("data")), {"data": X, "softmax_label": label, **WEIGHTS})
    assert {row.argument: row.scale for row in report.rows}["softmax_label"] == 0


def test_no_witness_looks_through_block_grad():
    x = sym.Variable("x")
    report = check_gradients(x * sym.BlockGrad(sym.exp(x)), {"x": X}, head_grads=[np.ones((2, 3))])
    assert report.rows[0].scale == pytest.approx(np.max(np.exp(X)), rel=1e-6)


@pytest.mark.slow("compiles")
def test_head_gradients_do_not_matter_to_a_loss_head():
    args = {"data": X, "softmax_label": LABEL, **WEIGHTS}
    reports = [
        check_gradients(classifier(sym.Variable("data")), args, wrt=["data"], head_grads=[np.full((2, 3), value)])
        for value in (1.0, 1e6)
    ]
    assert reports[0].rows[0].scale == reports[1].rows[0].scale


@pytest.mark.slow("compiles")
def test_a_group_of_a_loss_head_and_a_plain_output():
    data = sym.Variable("data")
    hidden = sym.FullyConnected(data, num_hidden=3, name="fc")
    net = sym.Group([sym.SoftmaxOutput(hidden, name="softmax"), sym.exp(hidden), sym.make_loss(sym.square(data))])
    args = {"data": X, "softmax_label": LABEL, **WEIGHTS}
    assert check_gradients(net, args, wrt=["data", "fc_weight", "fc_bias"]).ok


@pytest.mark.slow("compiles")
def test_a_loss_head_in_the_middle_passes_no_gradient_on():
    x = sym.Variable("x")
    net = sym.exp(toy("head", sym.sin(x))) * sym.Variable("y")
    args = {"x": X, "y": X + 2}
    assert check_gradients(net, args).ok
    grads = evaluated(lowering.grad_fn(net), args, head_grads=[np.ones((2, 3), np.float32)])[1]
    np.testing.assert_allclose(grads["x"], 2 * np.sin(X) * np.cos(X), rtol=1e-6)


def test_two_loss_heads_on_one_trunk_add_up():
    hidden = sym.sin(sym.Variable("x"))
    assert check_gradients(sym.Group([toy("head", hidden), sym.MakeLoss(hidden, grad_scale=0.5)]), {"x": X}).ok


# -- arguments -------------------------------------------------------------------------------------------------------


def test_wrt_chooses_arguments():
    report = check_gradients(sym.Variable("x") * sym.Variable("y"), {"x": X, "y": X + 1}, wrt=["y"])
    assert [row.argument for row in report.rows] == ["y"]


def test_an_argument_that_does_not_exist_is_named():
    with pytest.raises(GradientError, match="nonsense"):
        check_gradients(sym.exp(sym.Variable("x")), {"x": X}, wrt=["nonsense"])


def test_the_number_of_head_gradients_is_checked():
    with pytest.raises(GradientError, match="The number of head gradients is wrong; expected 1; got 2"):
        check_gradients(sym.exp(sym.Variable("x")), {"x": X}, head_grads=[X, X])


def test_float32_arguments_are_taken_to_float64_and_no_configuration_changes():
    before = jnp.asarray(1.0).dtype
    report = check_gradients(sym.exp(sym.sin(sym.Variable("x"))), {"x": jnp.asarray(X)})
    assert jnp.asarray(1.0).dtype == before
    assert report.rows[0].vjp_rel <= 1e-12


def test_integer_arguments_are_not_asked_for_a_gradient():
    net = sym.Embedding(sym.Variable("data"), sym.Variable("weight"), input_dim=4, output_dim=3)
    args = {"data": np.array([1, 3, 1], np.int32), "weight": RNG.uniform(-1, 1, (4, 3)).astype(np.float32)}
    assert [row.argument for row in check_gradients(net, args).rows] == ["weight"]


def test_an_argument_without_influence_has_a_gradient_of_zeros():
    report = check_gradients(sym.zeros_like(sym.Variable("x")) * sym.Variable("y"), {"x": X, "y": X})
    assert [row.scale for row in report.rows] == [0, 0]


@pytest.mark.slow("compiles")
def test_random_operators_draw_the_same_numbers_for_every_witness():
    net = toy("noise", sym.sin(sym.Variable("x")))
    heads = [np.ones((2, 3))]
    scales = [
        check_gradients(net, {"x": X}, key=jax.random.key(seed), head_grads=heads).rows[0].scale for seed in (0, 1)
    ]
    assert scales[0] != scales[1]
    assert check_gradients(net, {"x": X}).ok  # a key of its own


@pytest.mark.slow("compiles")
def test_states_are_passed_along():
    net = sym.BatchNorm(sym.Variable("x"), fix_gamma=False, name="bn")
    args = {"x": X, "bn_gamma": np.array([1, -2, 0.5], np.float32), "bn_beta": np.zeros(3, np.float32)}
    aux = {"bn_moving_mean": np.zeros(3, np.float32), "bn_moving_var": np.ones(3, np.float32)}
    assert check_gradients(net, args, aux).ok
    assert check_gradients(net, args, aux, is_train=False).ok


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("package", ["lowering", "symjax_nnvm"])
def test_floats_are_added_up_alike_on_every_version(package: str):
    """`math.fsum` is the same on every version; `sum` is compensated from Python 3.12 on."""
    files = (Path(__file__).parents[3] / package).rglob("*.py")
    assert [str(file) for file in files if re.search(r"(?<!f)sum\(\s*float\(", file.read_text())] == []
