"""Kinks, deliberate gradients and wrong ones told apart, and the nodes named that make a gradient differ."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from lowering.core.rules import lowers
from lowering.verify.gradient_check import GradientsDisagreeError, check_gradients, check_projection
from lowering.verify.nodes import moved
from symjax_nnvm import symbol as sym
from symjax_nnvm.ir.attributes import FNotDerivative
from symjax_nnvm.ir.node import apply
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.register import register_op, same_shape
from tests.cases import Case
from tests.cases.random.broadcast_distributions import NARROW
from tests.support import ladder

AT_BOUNDS = np.array([[0, 0, 1], [7, 6, -1]], np.float32)
TIED = np.array([[0, 1, 1], [2, 2, 0]], np.float32)


def _toy(name: str, rule, gradient) -> None:
    register_op(f"_test_kinks_{name}", infer_shape=same_shape, gradient=gradient, doc="For tests.")
    lowers(f"_test_kinks_{name}")(rule)


_toy("wrong_square", lambda p, x: x * x, lambda node, ograds: [apply("elemwise_mul", node.inputs[0], ograds[0])])
# Right nowhere above 0, and at a kink at 0.
_toy("wrong_relu", lambda p, x: jnp.maximum(x, 0), lambda node, ograds: [apply("_mul_scalar", ograds[0], scalar=0.5)])
_toy("wrong_slope", lambda p, x: 2 * x, lambda node, ograds: [apply("_mul_scalar", ograds[0], scalar=1.999)])
_toy(
    "hidden_slope",
    lambda p, x: x * jax.lax.stop_gradient(x),
    lambda node, ograds: [apply("elemwise_mul", node.inputs[0], ograds[0])],
)


def kinds(report) -> dict[str, str]:
    return {finding.node: finding.kind for finding in report.nodes}


# -- kinks -----------------------------------------------------------------------------------------------------------

KINKS = {
    "clip": (lambda x: sym.clip(x, a_min=0, a_max=6, name="op"), AT_BOUNDS),
    "relu": (lambda x: sym.relu(x, name="op"), AT_BOUNDS),
    "Activation": (lambda x: sym.Activation(x, act_type="relu", name="op"), AT_BOUNDS),
    "LeakyReLU": (lambda x: sym.LeakyReLU(x, act_type="leaky", name="op"), AT_BOUNDS),
    "hard_sigmoid": (lambda x: sym.hard_sigmoid(x, alpha=1.0, beta=0.0, name="op"), AT_BOUNDS),
    "abs": (lambda x: sym.abs(x - 0.0, name="op") * x, AT_BOUNDS),
    "max": (lambda x: sym.max(x, axis=1, name="op"), TIED),
    "min": (lambda x: sym.min(x, name="op"), TIED),
    "norm": (lambda x: sym.norm(x, ord=1, axis=1, name="op"), AT_BOUNDS),
    "_maximum_scalar": (lambda x: sym.broadcast_maximum(x, sym.ones_like(x), name="op"), TIED),
    "Pooling": (
        lambda x: sym.Pooling(sym.reshape(x, shape=(1, 1, 2, 3)), kernel=(2, 2), pool_type="max", name="op"),
        TIED,
    ),
    "sign": (lambda x: sym.sign(x, name="op") + x, AT_BOUNDS),
    "round": (lambda x: sym.round(x, name="op") + x, AT_BOUNDS + 0.5),
}


@pytest.mark.nightly("every kind of kink", but_one_in=3)
@pytest.mark.slow("compiles")
@pytest.mark.parametrize("name", KINKS)
def test_a_point_at_a_kink_is_moved_off_it(name: str):
    build, point = KINKS[name]
    report = check_gradients(build(sym.Variable("x")), {"x": point})
    assert report.ok
    # Where our subgradient, JAX's and central differences are one, the kink is not noticed.
    assert set(kinds(report).values()) <= {"at a kink"}
    assert report.moved == bool(report.nodes)
    assert not report.trusted
    assert all(row.fd_rel is not None for row in report.rows)


@pytest.mark.slow("compiles")
def test_clip_at_its_bounds_is_named():
    report = check_gradients(sym.clip(sym.Variable("x"), a_min=0, a_max=6, name="relu6"), {"x": AT_BOUNDS})
    assert kinds(report) == {"relu6": "at a kink"}
    assert "at a kink: clip 'relu6' (jax.vjp: " in str(report)
    assert "DIFFERS" not in str(report)
    assert "each argument was moved by 0.001 of its range" in str(report)


def _mobile_block() -> tuple[sym.Symbol, dict, dict]:
    """A block of MobileNet v2, and an image half of which is exactly 0."""
    net = sym.Convolution(sym.Variable("data"), num_filter=3, kernel=(1, 1), no_bias=True, name="conv")
    net = sym.BatchNorm(net, fix_gamma=False, name="bn")
    net = sym.clip(net, a_min=0, a_max=6, name="relu6_0")
    net = sym.Convolution(net, num_filter=3, num_group=3, kernel=(3, 3), pad=(1, 1), no_bias=True, name="depthwise")
    net = sym.clip(net, a_min=0, a_max=6, name="relu6_1")
    net = sym.FullyConnected(net, num_hidden=2, name="fc")
    rng = np.random.RandomState(0)
    shapes, _, _ = net.infer_shape(data=(2, 2, 4, 4))
    args = {name: rng.uniform(-1, 1, shape) for name, shape in zip(net.list_arguments(), shapes, strict=True)}
    args["data"][:, :, :2] = 0
    args["bn_beta"][:] = 0
    return net, args, dict(zip(net.list_auxiliary_states(), [np.zeros(3), np.ones(3)], strict=True))


IN_PROJECTION = pytest.param(check_projection, marks=pytest.mark.nightly("projections meet other kinks below"))


@pytest.mark.nightly("a block of a network, whose kinks others meet one by one")
@pytest.mark.slow("compiles")
@pytest.mark.parametrize("check", [check_gradients, IN_PROJECTION])
def test_half_of_a_tensor_at_exactly_0_is_no_difference(check):
    net, args, aux = _mobile_block()
    report = check(net, args, aux, is_train=False)
    assert report.ok
    assert kinds(report) == {"relu6_0": "at a kink", "relu6_1": "at a kink"}
    assert all(row.fd_rel is not None for row in report.rows)


@pytest.mark.nightly("compiles")
@pytest.mark.parametrize("check", [check_gradients, IN_PROJECTION])
def test_a_kink_that_no_point_leaves_counts_as_it_is_and_all_else_is_compared(check):
    x = sym.Variable("x")
    net = sym.clip(x - sym.BlockGrad(x), a_min=0, a_max=6, name="stuck") * sym.sin(x)
    report = check(net + sym.exp(x), {"x": AT_BOUNDS})
    assert report.ok
    assert (kinds(report), report.trusted) == ({"stuck": "at a kink"}, True)
    assert "our own gradient counts" in str(report)
    with pytest.raises(GradientsDisagreeError):
        check(net + sym._test_kinks_wrong_square(x, name="bad"), {"x": AT_BOUNDS})


def test_a_smooth_point_needs_no_look_at_the_nodes():
    report = check_gradients(sym.clip(sym.Variable("x"), a_min=0, a_max=6), {"x": AT_BOUNDS + 0.3})
    assert (report.nodes, report.moved, report.trusted) == ((), False, False)


@pytest.mark.slow("compiles")
def test_a_moved_array_stays_within_its_values():
    x = np.array([0.0, 0.0, 0.5, 1.0, 1.0])
    with jax.enable_x64(True):
        near = np.asarray(moved(jnp.asarray(x), jax.random.key(0)))
        ones = np.asarray(moved(jnp.ones(4), jax.random.key(0)))
        zeros = np.asarray(moved(jnp.zeros(4), jax.random.key(0)))
        assert moved(jnp.zeros((0, 2)), jax.random.key(0)).shape == (0, 2)
    assert near.min() > 0
    assert near.max() < 1
    assert np.all((np.abs(near - x) > 2e-4) & (np.abs(near - x) <= 1e-3))
    assert np.all((np.abs(ones - 1) > 0) & (np.abs(ones - 1) <= 1e-3))
    assert np.all((np.abs(zeros) > 0) & (np.abs(zeros) <= 1e-3))


# -- kinks near the point --------------------------------------------------------------------------------------------


def _narrow_block(build=sym.relu) -> tuple[sym.Symbol, dict, dict]:
    """Small weights that BatchNorm magnifies: a step of 1e-6 moves some inputs of relu over 0."""
    net = sym.Convolution(sym.Variable("data"), kernel=(3, 3), num_filter=16, pad=(1, 1), name="c")
    net = build(sym.BatchNorm(net, name="bn"))
    net = sym.SoftmaxOutput(sym.FullyConnected(net, num_hidden=4, name="fc"), name="softmax")
    args, aux = lowering.init_params(net, {"data": (2, 3, 16, 16)}, 0)
    data = np.random.default_rng(0).normal(size=(2, 3, 16, 16)).astype(np.float32)
    return net, {**args, "data": data, "softmax_label": np.zeros(2)}, aux


@pytest.mark.slow("compiles")
def test_a_kink_within_the_step_behind_batch_norm_is_no_wrong_gradient():
    net, args, aux = _narrow_block()
    report = check_gradients(net, args, aux, wrt=["c_weight"])
    assert (report.ok, report.nodes, report.moved, report.trusted) == (True, (), False, False)
    assert [row.fd_step for row in report.rows] == [pytest.approx(1e-8)]


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("check", [check_gradients, check_projection])
def test_a_kink_within_the_step_is_said(check):
    report = check(sym.relu(sym.Variable("x")), {"x": np.array([1e-7])})
    assert (report.ok, report.nodes, report.moved, report.trusted) == (True, (), False, False)
    assert [row.fd_step for row in report.rows] == [pytest.approx(1e-7, rel=0.01)] * len(report.rows)
    assert "the usual finite differences cross a kink" in str(report)


@pytest.mark.slow("compiles")
@pytest.mark.parametrize(
    ("check", "bad"), [(check_gradients, "hidden"), pytest.param(check_projection, "wrong", marks=IN_PROJECTION.marks)]
)
def test_a_wrong_gradient_behind_a_kink_is_caught(check, bad: str):
    """hidden: JAX's derivative is as wrong as ours, and finite differences alone tell."""
    net, args, aux = _narrow_block(lambda x: getattr(sym, f"_test_kinks_{bad}_slope")(sym.relu(x), name="bad"))
    with pytest.raises(GradientsDisagreeError):
        check(net, args, aux, wrt=["c_weight"])


def test_without_a_kink_the_usual_step_counts():
    report = check_gradients(sym.sin(sym.Variable("x")), {"x": AT_BOUNDS})
    assert [row.fd_step for row in report.rows] == [None]
    assert "finite differences cross" not in str(report)


# -- wrong gradients -------------------------------------------------------------------------------------------------


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("check", [check_gradients, check_projection])
def test_a_wrong_gradient_is_caught_and_named_beside_kinks(check):
    x = sym.Variable("x")
    net = sym.clip(sym._test_kinks_wrong_square(x, name="bad"), a_min=0, a_max=36, name="relu36")
    with pytest.raises(GradientsDisagreeError, match="wrong: _test_kinks_wrong_square 'bad'") as error:
        check(net, {"x": AT_BOUNDS})
    assert kinds(error.value.report) == {"bad": "wrong", "relu36": "at a kink"}
    assert "at a kink: clip 'relu36'" in str(error.value)
    assert "DIFFERS" in str(error.value)


@pytest.mark.slow("compiles")
def test_a_wrong_gradient_of_an_operator_with_a_kink_is_no_kink():
    net = sym._test_kinks_wrong_relu(sym.Variable("x"), name="bad")
    with pytest.raises(GradientsDisagreeError, match="wrong: _test_kinks_wrong_relu 'bad'"):
        check_gradients(net, {"x": AT_BOUNDS})


# -- deliberate ones -------------------------------------------------------------------------------------------------


@pytest.mark.nightly("compiles")
def test_a_gradient_that_stops_on_purpose_is_named_as_deliberate():
    case = next(case for _, case in ladder.all_cases() if case.op == "_contrib_MultiBoxDetection")
    args = {f"in{i}": value for i, value in enumerate(case.values())}
    inputs = [sym.Variable(name) for name in args]
    net = sym.contrib.MultiBoxDetection(inputs[0], inputs[1], inputs[2], name="detection", **case.params)
    net = sym.Group([sym.sum(net), sym.sum(sym.square(inputs[1]))])
    report = check_gradients(net, args)
    assert report.ok
    assert kinds(report) == {"detection": "deliberate"}
    line = "deliberate: _contrib_MultiBoxDetection 'detection' (the gradient stops here: it is zero, as in MXNet)"
    assert line in str(report)


@pytest.mark.nightly("compiles")
def test_straight_through_estimators_are_deliberate_and_the_rest_is_compared():
    x = sym.Variable("x")
    net = sym.contrib.round_ste(3 * x, name="ste") * sym.exp(x)
    report = check_gradients(net, {"x": TIED + 0.2})
    assert report.ok
    assert kinds(report) == {"ste": "deliberate"}
    with pytest.raises(GradientsDisagreeError, match="wrong: _test_kinks_wrong_square 'bad'") as error:
        check_gradients(net + sym._test_kinks_wrong_square(x, name="bad"), {"x": TIED + 0.2})
    assert kinds(error.value.report) == {"ste": "deliberate", "bad": "wrong"}


def _not_derivatives() -> list[Case]:
    """One case for each reason why the gradient of an operator is not the derivative."""
    cases: dict[str, Case] = {}
    for _, case in ladder.all_cases():
        if case.not_derivative not in ("", NARROW) and case.graph is None and Op.get(case.op).name not in HIDDEN:
            cases.setdefault(case.not_derivative, case)
    return list(cases.values())


HIDDEN: dict[str, str] = {
    "BlockGrad": "the witness lets no derivative pass through it either",
    "_eigenvalue_gaps": "only gradient rules apply it",
    "SoftmaxOutput": "no scalar has the gradient of out_grad=True: the next test",
    **{
        f"_image_random_{name}": "the witness keeps its own gradient of what draws"
        for name in ("brightness", "contrast", "saturation", "hue", "lighting", "color_jitter")
    },
}


@pytest.mark.nightly("climbs the ladder once more", but_one_in=12)
@pytest.mark.slow("compiles")
@pytest.mark.parametrize("case", _not_derivatives(), ids=lambda case: case.id)
def test_whatever_the_table_of_cases_calls_no_derivative_is_explained(case: Case):
    symbol = ladder.build(case)
    args, aux = ladder.arrays(case, symbol)
    report = check_gradients(symbol, args, aux, wrt=ladder.wrt(case, symbol), is_train=case.is_train)
    assert report.ok
    assert set(kinds(report).values()) <= {"at a kink", "deliberate"}


@pytest.mark.slow("compiles")
def test_a_loss_head_whose_gradient_no_scalar_has_differs_and_is_named():
    args = {"x": TIED, "label": np.array([0, 1], np.float32)}
    net = sym.SoftmaxOutput(sym.Variable("x"), sym.Variable("label"), out_grad=True, name="softmax")
    with pytest.raises(GradientsDisagreeError, match="deliberate: SoftmaxOutput 'softmax'"):
        check_gradients(net, args, wrt=["x"])


def test_parameters_decide_whether_there_is_a_reason():
    shown, hidden = (sym.BatchNorm(sym.Variable("x"), output_mean_var=flag) for flag in (True, False))
    reason = FNotDerivative[Op.get("BatchNorm")]
    assert reason(shown.outputs[0].node.attrs)
    assert reason(hidden.outputs[0].node.attrs) is None
