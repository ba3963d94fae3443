"""RNN: parameters and shapes, sequence lengths, clipping, dropout, third order, what the gradient costs."""

# Some calls are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from lowering.ops.nn import rnn as rules
from lowering.ops.nn.rnn_layout import BATCH_FIRST, FEATURES_FIRST, Layout
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, LoweringError, ParamError
from tests.ops import test_ladder  # noqa: F401  # it has the rungs
from tests.support.comparison import assert_close
from tests.support.traced import Traced, evaluated
from tests.support.walk import climb

KEY = jax.random.key(3)


def rnn(mode: str = "lstm", **params: Any) -> sym.Symbol:
    return sym.RNN(mode=mode, name="r", **{"state_size": 2, "num_layers": 1} | params)


def draw(symbol: sym.Symbol, **shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Arguments of inferred shapes, uniform in [-1, 1)."""
    rng = np.random.RandomState(5)
    inferred = symbol.infer_shape(**{f"r_{name}": shape for name, shape in shapes.items()})[0]
    named = zip(symbol.list_arguments(), inferred, strict=True)
    return {name: rng.uniform(-1, 1, shape).astype(np.float32) for name, shape in named}


# -- inputs, outputs, inference --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["rnn_relu", "rnn_tanh", "gru", "lstm"])
def test_the_mode_decides_inputs_and_outputs(mode: str):
    states = ["r_state", "r_state_cell"][: 1 + (mode == "lstm")]
    symbol = rnn(mode, use_sequence_length=True)
    assert symbol.list_arguments() == ["r_data", "r_parameters", *states, "r_sequence_length"]
    assert symbol.list_outputs() == ["r_output"]
    outputs = ["r_output", "r_state_output", "r_statecell_output"][: 2 + (mode == "lstm")]
    assert rnn(mode, state_outputs=True).list_outputs() == outputs


def test_all_shapes_follow_from_data():
    symbol = rnn(state_size=5, num_layers=2, bidirectional=True, projection_size=3, state_outputs=True)
    arguments, outputs, _ = symbol.infer_shape(r_data=(7, 2, 4))
    assert arguments == [(7, 2, 4), (860,), (4, 2, 3), (4, 2, 5)]
    assert outputs == [(7, 2, 6), (4, 2, 3), (4, 2, 5)]


def test_the_number_of_parameters_tells_the_input_size():
    assert rnn("gru", num_layers=2, state_size=3).infer_shape_partial(r_parameters=(153,))[0][0] == (0, 0, 4)
    assert rnn("gru", state_size=3).infer_shape(r_data=(5, 0, 0), r_parameters=(81,), r_state=(1, 2, 3))[1] == [
        (5, 2, 3)
    ]


@pytest.mark.parametrize(
    ("params", "shapes", "words"),
    [
        ({}, {"r_data": (5, 4)}, ("rank-3", "'data'", "(5, 4)")),
        ({}, {"r_parameters": (100,)}, ("'parameters'", "32 + 8 · (input size)", "got 100")),
        ({}, {"r_data": (5, 2, 4), "r_parameters": (72,)}, ("'parameters'", "(64,)", "(72,)")),
        ({}, {"r_data": (5, 2, 4), "r_state": (1, 3, 2)}, ("(1, 2, 2)", "(1, 3, 2)")),
        ({"use_sequence_length": True}, {"r_data": (5, 2, 4), "r_sequence_length": (3,)}, ("(2,)", "(3,)")),
    ],
)
def test_what_does_not_fit_is_named(params: dict[str, Any], shapes: dict[str, Any], words: tuple[str, ...]):
    with pytest.raises(InferenceError) as error:
        rnn(**params).infer_shape(**shapes)
    assert all(word in str(error.value) for word in (*words, "'RNN'", "'r'")), str(error.value)


@pytest.mark.parametrize(
    ("mode", "params", "words"),
    [
        ("gru", {"projection_size": 2}, "projection_size=2: only mode='lstm'"),
        ("gru", {"lstm_state_clip_min": -1, "lstm_state_clip_max": 1}, "lstm_state_clip_min=-1.0: only mode='lstm'"),
        ("lstm", {"lstm_state_clip_min": -1}, "lstm_state_clip_max are given together"),
        ("lstm", {"lstm_state_clip_min": 1, "lstm_state_clip_max": 0}, "greater than"),
        ("lstm", {"p": 1.5}, "p.*≤ 1"),
        ("lstm", {"num_layers": 0}, "num_layers.*≥ 1"),
        ("peephole", {}, "mode.*'gru', 'lstm', 'rnn_relu', 'rnn_tanh'"),
    ],
)
def test_impossible_parameters_are_refused(mode: str, params: dict[str, Any], words: str):
    with pytest.raises(ParamError, match=words):
        rnn(mode, **params)


# -- sequence lengths, clipping --------------------------------------------------------------------------------------


@pytest.mark.nightly("every case", but_one_in=2)
@pytest.mark.slow("compiles")
@pytest.mark.parametrize("mode", ["lstm", "gru"])
def test_sequence_lengths_work_on_the_cpu(mode: str):
    """A quirk mended: each sequence is treated as if it were alone and ended where it ends."""
    params = {"num_layers": 2, "bidirectional": True, "state_outputs": True}
    args = draw(rnn(mode, **params), data=(4, 3, 2))
    lengths = [4, 1, 3]
    together = rnn(mode, use_sequence_length=True, **params)
    outputs, _ = jax.jit(lowering.to_jax(together))(args | {"r_sequence_length": np.array(lengths, np.float32)})
    for i, length in enumerate(lengths):
        alone = {name: value if value.ndim == 1 else value[:, i : i + 1] for name, value in args.items()}
        alone["r_data"] = alone["r_data"][:length]
        expected, _ = jax.jit(lowering.to_jax(rnn(mode, **params)))(alone)
        np.testing.assert_allclose(outputs[0][:length, i : i + 1], expected[0], rtol=1e-5, atol=1e-6)
        assert not np.asarray(outputs[0][length:, i]).any()
        for ours, theirs in zip(outputs[1:], expected[1:], strict=True):
            np.testing.assert_allclose(ours[:, i : i + 1], theirs, rtol=1e-5, atol=1e-6)


def test_an_empty_sequence_keeps_its_state():
    symbol = rnn(state_outputs=True, use_sequence_length=True)
    args = draw(symbol, data=(3, 1, 2)) | {"r_sequence_length": np.array([0], np.int32)}
    (out, state, cell), _ = evaluated(lowering.to_jax(symbol), args)
    assert not np.asarray(out).any()
    np.testing.assert_array_equal(state, args["r_state"])
    np.testing.assert_array_equal(cell, args["r_state_cell"])


def test_state_clipping_works_on_the_cpu():
    """A quirk mended: the cell state stays in its range, and NaN is made its least value if so asked."""
    given = {"state_outputs": True, "lstm_state_clip_min": -0.1, "lstm_state_clip_max": 0.2}
    args = draw(rnn(**given), data=(3, 2, 2))
    cell = np.asarray(evaluated(lowering.to_jax(rnn(**given)), args)[0][2])
    assert cell.min() >= np.float32(-0.1)
    assert cell.max() <= np.float32(0.2)
    args["r_state_cell"][0, 0, 0] = np.nan
    assert np.isnan(evaluated(lowering.to_jax(rnn(**given)), args)[0][2]).any()
    stopped = np.asarray(evaluated(lowering.to_jax(rnn(lstm_state_clip_nan=True, **given)), args)[0][2])
    assert np.isfinite(stopped).all()


# -- dropout ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow("compiles")
def test_elements_are_dropped_between_layers_in_training_only():
    symbol = rnn("rnn_relu", num_layers=2, p=0.5)
    args = draw(symbol, data=(3, 2, 2))
    (plain,), _ = evaluated(lowering.to_jax(rnn("rnn_relu", num_layers=2)), args)
    (dropped,), _ = evaluated(lowering.to_jax(symbol), args)
    np.testing.assert_array_equal(dropped, plain)
    run = lowering.to_jax(symbol, is_train=True)
    (one,), _ = run(args, key=KEY)
    (again,), _ = run(args, key=KEY)
    (other,), _ = run(args, key=jax.random.key(4))
    np.testing.assert_array_equal(one, again)
    assert not np.allclose(one, other)
    assert not np.allclose(one, plain)
    with pytest.raises(LoweringError, match="PRNG key"):
        run(args)


def test_one_layer_drops_nothing_and_needs_no_key():
    symbol = rnn(p=0.5)
    args = draw(symbol, data=(3, 2, 2))
    assert evaluated(lowering.to_jax(symbol, is_train=True), args)[0][0].shape == (3, 2, 2)


@pytest.mark.nightly("compiles")
def test_dropping_all_leaves_the_upper_layer_its_state():
    symbol = rnn("rnn_tanh", num_layers=2, p=1.0)
    args = draw(symbol, data=(3, 2, 2))
    run = lowering.to_jax(symbol, is_train=True)
    (one,), _ = run(args, key=KEY)
    (same,), _ = run(args | {"r_data": -args["r_data"]}, key=KEY)
    np.testing.assert_array_equal(one, same)


# -- gradients -------------------------------------------------------------------------------------------------------


@pytest.mark.nightly("a third order")
def test_the_third_order_is_right():
    """d/dx of <u, d/dx <v, d/dx <y, RNN>>>: directions nest to any depth."""
    symbol = rnn("gru", state_size=1)
    args = draw(symbol, data=(2, 1, 1))
    names = list(args)
    first = symbol.gradient(names, head_grads=[sym.Variable("y")])
    second = first.gradient(names, head_grads=[sym.Variable(f"v_{name}") for name in names])
    rng = np.random.RandomState(1)
    with jax.enable_x64(True):
        wide = {name: jnp.asarray(value, jnp.float64) for name, value in args.items()}
        y = jnp.asarray(rng.uniform(-1, 1, (2, 1, 1)))
        u, v = ([jnp.asarray(rng.uniform(-1, 1, args[name].shape)) for name in names] for _ in "uv")

        def ordered(function: Any, direction: list[jax.Array]) -> Any:
            named = dict(zip(names, direction, strict=True))
            return lambda a: sum(jnp.sum(g * named[name]) for name, g in jax.grad(function)(a).items())

        forward = lowering.to_jax(symbol)
        value = ordered(ordered(lambda a: jnp.sum(forward(a)[0][0] * y), v), u)
        expected = jax.jit(jax.grad(value))(wide)
        given = wide | {"y": y} | {f"v_{name}": d for name, d in zip(names, v, strict=True)}
        _, third, _ = jax.jit(lowering.grad_fn(second, names))(given, head_grads=u)
    for name in names:
        assert_close(third[name], expected[name], 1e-9, name)


def test_a_gradient_is_one_scan_forward_and_one_back():
    """Products with the weights' gradients stand outside the scans, one for each weight."""
    symbol = rnn("gru")
    args = draw(symbol, data=(3, 2, 2))
    grad = lowering.grad_fn(symbol, list(args))
    heads = [jnp.ones((3, 2, 2))]
    jaxpr = jax.make_jaxpr(lambda a: grad(a, head_grads=heads)[:2])(args).jaxpr
    scans = [equation for equation in jaxpr.eqns if equation.primitive.name == "scan"]
    outside = [equation for equation in jaxpr.eqns if equation.primitive.name == "dot_general"]
    assert ([str(scan.params["jaxpr"]).count("dot_general[") for scan in scans], len(outside)) == ([1, 1], 4)


@pytest.mark.nightly("every case", but_one_in=3)
@pytest.mark.slow("compiles")
@pytest.mark.parametrize(
    ("mode", "params"), [("rnn_tanh", {}), ("gru", {}), ("lstm", {"projection_size": 1, "state_outputs": True})]
)
def test_both_layouts_agree(mode: str, params: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    """With layers, directions, lengths and dropout of one key: the layout of arrays changes nothing but time."""
    symbol = rnn(mode, num_layers=2, bidirectional=True, use_sequence_length=True, p=0.5, **params)
    args = draw(symbol, data=(3, 4, 2)) | {"r_sequence_length": np.array([2, 3, 1, 3], np.float32)}
    names = list(args)[:-1]
    rng = np.random.RandomState(2)
    heads = [rng.uniform(-1, 1, shape).astype(np.float32) for shape in symbol.infer_shape(r_data=(3, 4, 2))[1]]
    found, programs = [], []
    for steps in (rules.MANY, 1):
        monkeypatch.setattr(rules, "MANY", steps)
        grad = lowering.grad_fn(symbol, names)
        traced = jax.jit(lambda a, grad=grad: grad(a, key=KEY, head_grads=heads)[:2]).trace(args)
        programs.append(str(traced.jaxpr))
        found.append(traced.lower().compile()(args))
    assert programs[0] != programs[1]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), *found)


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("layout", [FEATURES_FIRST, BATCH_FIRST])
@pytest.mark.parametrize(
    ("mode", "params"),
    [
        ("rnn_relu", {"num_layers": 4}),
        ("gru", {"num_layers": 3, "use_sequence_length": True, "p": 0.5, "state_outputs": True}),
        ("lstm", {"num_layers": 2, "p": 0.5, "state_outputs": True}),
        (
            "lstm",
            {"num_layers": 3, "use_sequence_length": True, "lstm_state_clip_min": -0.2, "lstm_state_clip_max": 0.1},
        ),
    ],
)
def test_a_wavefront_of_layers_computes_the_same(
    mode: str, params: dict[str, Any], layout: Layout, monkeypatch: pytest.MonkeyPatch
):
    """Values and gradients, of states and weights, too, in as many dependent steps as there are diagonals."""
    monkeypatch.setattr(rules, "_layout", lambda p, data: layout)
    symbol = rnn(mode, **params)
    args = draw(symbol, data=(5, 4, 3))
    names = [name for name in args if name != "r_sequence_length"]
    if "use_sequence_length" in params:
        args["r_sequence_length"] = np.array([2, 5, 1, 4], np.float32)
    rng = np.random.RandomState(2)
    heads = [rng.uniform(-1, 1, shape).astype(np.float32) for shape in symbol.infer_shape(r_data=(5, 4, 3))[1]]
    found, lengths = [], []
    for waves in ((), ("cpu",)):
        monkeypatch.setattr(rules, "WAVES", waves)
        grad = lowering.grad_fn(symbol, names, platform="cpu")
        traced = Traced(lambda a, grad=grad: grad(a, key=KEY, head_grads=heads)[:2], args)
        scans = [equation.params for equation in traced.closed.jaxpr.eqns if equation.primitive.name == "scan"]
        lengths.append([scan["length"] for scan in scans if "dot_general" in str(scan["jaxpr"])])
        found.append(traced.evaluated(args))
    assert lengths == [[5] * 2 * params["num_layers"], [5 + params["num_layers"] - 1] * 2]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), *found)


@pytest.mark.slow("climbs the ladder")
def test_a_wavefront_of_layers_computes_what_mxnet_does(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rules, "WAVES", ("cpu",))
    for name in ("value_equals_mxnet", "gradient_equals_mxnet"):
        climb("RNN", "all", only=name)


@pytest.mark.slow("compiles")
def test_gradients_of_bfloat16_run_on_the_cpu():
    symbol = rnn("lstm", num_layers=2)
    args = draw(symbol, data=(7, 4, 5))
    grad = lowering.grad_fn(symbol, list(args), platform="cpu")
    program = jax.jit(lambda a, head: grad(a, head_grads=[head])[1])
    found, expected = (
        program({n: jnp.asarray(a, dtype) for n, a in args.items()}, jnp.ones((7, 4, 2), dtype))
        for dtype in (jnp.bfloat16, jnp.float32)
    )
    for name in args:
        assert found[name].dtype == jnp.bfloat16
        assert_close(found[name], expected[name], 0.05, name)


def test_lengths_get_a_zero_gradient():
    symbol = rnn("gru", use_sequence_length=True)
    args = draw(symbol, data=(3, 2, 2)) | {"r_sequence_length": np.array([2, 3], np.float32)}
    _, grads, _ = evaluated(lowering.grad_fn(symbol, ["r_sequence_length"]), args, head_grads=[jnp.ones((3, 2, 2))])
    assert grads["r_sequence_length"].tolist() == [0, 0]
