"""Initialisers: fixed values, rules of names and scales are MXNet's; drawn numbers follow their distributions."""

# Some calls are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import json
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
import symjax_nnvm as nn
from lowering import initializer as init
from lowering.host import threefry_bits
from lowering.initializer import drawn
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, InitializerError
from symjax_nnvm.symbol.symbol import Symbol
from tests.support.initializer_cases import FIXED, NAMES, SCALES, shape_of

GOLDENS = Path(__file__).parents[2] / "goldens"
TOLD = json.loads((GOLDENS / "initializer.json").read_text())


@pytest.mark.parametrize("case", FIXED)
def test_fixed_values_are_mxnets(case: str):
    attribute, shape = FIXED[case]
    ours = init.Constant(3)(init.InitDesc("anything", {"__init__": attribute}), shape)
    assert ours.dtype == np.float32
    np.testing.assert_array_equal(ours, np.load(GOLDENS / "initializer.npz")[case])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["described", "plain"])
def test_rules_by_name_are_mxnets(kind: str, name: str):
    expected = TOLD[kind][name]
    desc = init.InitDesc(name) if kind == "described" else name
    if expected is None:
        with pytest.raises(InitializerError, match=f"Unknown initialization pattern for {name}"):
            init.Constant(3)(desc, shape_of(name))
    else:
        ours = np.asarray(init.Constant(3)(desc, shape_of(name))).ravel()
        np.testing.assert_array_equal(ours[: len(expected)] if len(expected) > 1 else np.unique(ours), expected)


@pytest.mark.parametrize("i", range(len(SCALES)), ids=lambda i: f"{SCALES[i][0]}{i}")
def test_scales_and_distributions_are_mxnets(i: int, monkeypatch: pytest.MonkeyPatch):
    """The generator's numbers are replaced by ones, so that the value is the scale itself, to float32's last bit."""
    name, parameters, shape = SCALES[i]
    used = []
    monkeypatch.setattr(jax.random, "uniform", lambda key, shape, *_: used.append("uniform") or jnp.ones(shape))
    monkeypatch.setattr(jax.random, "normal", lambda key, shape, *_: used.append("normal") or jnp.ones(shape))
    value = np.unique(init.create(name, **parameters)(init.InitDesc("a_weight"), shape, key=0))
    distribution, scale = TOLD["drawn"][i]
    assert used == [distribution]
    np.testing.assert_array_equal(value, np.float32([scale]))


@pytest.mark.parametrize(("initializer", "bound"), [(init.Uniform(0.2), 0.2), (init.Xavier(magnitude=2), None)])
def test_uniform_numbers_fill_their_range_evenly(initializer: init.Initializer, bound: float | None):
    shape = (300, 200)
    if isinstance(initializer, init.Xavier):
        bound = initializer.scale(shape)
    assert bound is not None
    x = np.asarray(initializer(init.InitDesc("w_weight"), shape, key=1), np.float64) / bound
    counts, _ = np.histogram(x, 20, (-1, 1))
    assert counts.sum() == x.size  # nothing outside
    expected = x.size / 20
    assert np.sum((counts - expected) ** 2 / expected) < 43.8  # χ² of 19 degrees of freedom, p = 0.001


@pytest.mark.parametrize(("initializer", "sigma"), [(init.Normal(0.3), 0.3), (init.MSRAPrelu(), None)])
def test_normal_numbers_have_their_moments(initializer: init.Initializer, sigma: float | None):
    shape = (300, 200)
    if isinstance(initializer, init.Xavier):
        sigma = initializer.scale(shape)
    assert sigma is not None
    x = np.asarray(initializer(init.InitDesc("w_weight"), shape, key=2), np.float64) / sigma
    # Five standard errors of each moment's estimate: of the mean 1, of x² 2, of x³ 15, of x⁴ 96.
    for power, moment, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs(np.mean(x**power) - moment) < 5 * np.sqrt(variance / x.size), power


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("shape", [(6, 20), (20, 6), (8, 3, 2, 2)])
@pytest.mark.parametrize("rand_type", ["uniform", "normal"])
def test_orthogonal_rows_or_columns_are_orthonormal(shape: tuple[int, ...], rand_type: str):
    w = np.asarray(init.Orthogonal(2.0, rand_type)(init.InitDesc("w_weight"), shape, key=0)).reshape(shape[0], -1)
    gram = w @ w.T if w.shape[0] <= w.shape[1] else w.T @ w
    np.testing.assert_allclose(gram, 4 * np.eye(len(gram)), atol=4 * 8 * 1.2e-7)


def test_texts_are_mxnets_and_read_back():
    for (name, parameters, _), text in zip(SCALES, TOLD["dumps"], strict=True):
        ours = init.create(name, **parameters)
        assert json.loads(ours.dumps()) == json.loads(text)
        assert init.create(text) == ours
    fused = init.FusedRNN(init.Xavier("gaussian"), 4, 2, "lstm", True)
    assert init.create(fused.dumps()) == fused  # which MXNet 1.9.1 cannot


def network(extra: bool = False) -> sym.Symbol:
    net = sym.Variable("data")
    if extra:
        net = sym.FullyConnected(net, num_hidden=7, name="fc0")
    net = sym.BatchNorm(sym.FullyConnected(net, num_hidden=8, name="fc1"), name="bn", fix_gamma=False)
    return sym.SoftmaxOutput(sym.FullyConnected(net, num_hidden=3, name="fc2"), name="softmax")


def test_a_symbol_gets_its_parameters_and_states():
    args, aux = lowering.init_params(network(), {"data": (4, 5)}, 0, "xavier")
    layers = {"fc1_weight": (8, 5), "fc1_bias": (8,), "bn_gamma": (8,), "bn_beta": (8,)}
    assert {name: value.shape for name, value in args.items()} == layers | {"fc2_weight": (3, 8), "fc2_bias": (3,)}
    assert (args["bn_gamma"] == 1).all()
    assert not args["fc1_bias"].any()
    assert (aux["bn_moving_var"] == 1).all()
    assert not aux["bn_moving_mean"].any()


def test_deviation_a_state_without_an_initialiser_goes_by_its_name():
    states = [sym.Variable(f"s_moving_{which}", attr={"__init__": ""}) for which in ("mean", "var")]
    gamma, beta = sym.Variable("bn_gamma"), sym.Variable("bn_beta")
    _, aux = lowering.init_params(sym.BatchNorm(sym.Variable("data"), gamma, beta, *states), {"data": (2, 3)}, 0)
    np.testing.assert_array_equal(aux["s_moving_mean"], np.zeros(3))
    np.testing.assert_array_equal(aux["s_moving_var"], np.ones(3))


def test_a_new_layer_changes_no_others_numbers():
    before, _ = lowering.init_params(network(), {"data": (4, 5)}, 3)
    after, _ = lowering.init_params(network(extra=True), {"data": (4, 7)}, jax.random.key(3))
    np.testing.assert_array_equal(before["fc2_weight"], after["fc2_weight"])
    assert "fc0_weight" in after
    other, _ = lowering.init_params(network(), {"data": (4, 5)}, 4)
    assert not np.array_equal(before["fc2_weight"], other["fc2_weight"])


def unnamed(*, convolution: bool = False, end: bool = False, named: bool = False) -> Symbol:
    """Layers without names."""
    net = sym.Variable("data")
    if convolution:
        net = sym.Convolution(net, kernel=(1,), num_filter=2)
    if named:
        net = sym.FullyConnected(net, num_hidden=4, name="mine", flatten=False)
    net = sym.BatchNorm(sym.FullyConnected(net, num_hidden=8))
    net = sym.LeakyReLU(sym.FullyConnected(net, num_hidden=8), act_type="prelu")
    return sym.MakeLoss(sym.FullyConnected(net, num_hidden=8) if end else net)


def weights(net: Symbol) -> list[np.ndarray]:
    """The weights of the dense layers without names behind the first, in the network's order: all have one shape."""
    args, _ = lowering.init_params(net, {"data": (4, 3, 5)}, 3)
    return [np.asarray(value) for name, value in args.items() if re.search(r"^fullyc.*\d_weight", name)][1:]


def test_a_network_built_twice_starts_with_the_same_values():
    first, second = unnamed(), unnamed()
    assert first.list_arguments() != second.list_arguments()  # automatic names go on counting
    shapes = {"data": (4, 3, 5)}
    for one, other in zip(*(lowering.init_params(net, shapes, 3) for net in (first, second)), strict=True):
        for a, b in zip(one.values(), other.values(), strict=True):
            np.testing.assert_array_equal(a, b)
    a, b = (lowering.Trainer(net, label_names=()).init(3, data=(4, 3, 5)).params for net in (first, second))
    assert len([name for name in a if name.startswith("fullyconnected") and name.endswith("weight")]) == 2
    for old, new in zip(a, b, strict=True):
        np.testing.assert_array_equal(a[old], b[new])


@pytest.mark.parametrize("added", ["convolution", "end", "named"])
def test_a_layer_that_is_added_changes_no_first_value_of_layers_without_names(added: str):
    before, after = weights(unnamed()), weights(unnamed(**{added: True}))
    assert len(before) == 1
    assert before[0].shape == (8, 8)
    np.testing.assert_array_equal(after[0], before[0])


def test_first_values_of_automatic_names_without_gaps_follow_the_very_names():
    with sym.NameManager():
        args, _ = lowering.init_params(unnamed(), {"data": (4, 3, 5)}, 3)
    for name in ("fullyconnected0_weight", "fullyconnected1_weight"):
        np.testing.assert_array_equal(args[name], init.Uniform(0.01)(init.InitDesc(name), args[name].shape, key=3))


def test_noise_of_an_optimiser_follows_the_names_by_rank():
    """SGLD draws for every parameter, also where the names' order as text is another: layer 10 comes before layer 9."""
    with sym.NameManager():
        for _ in range(7):
            sym.FullyConnected(sym.Variable("data"), num_hidden=1)
        networks = [unnamed() for _ in range(2)]
    batch = {"data": np.ones((4, 3, 5), np.float32)}
    states = []
    for net in networks:
        trainer = lowering.Trainer(net, "sgld", {"learning_rate": 0.1}, label_names=())
        trainer.init(3, data=(4, 3, 5))
        trainer.step(batch)
        params = trainer.require_state().params
        states.append([params[name] for name in net.list_arguments() if name in params])
    assert "fullyconnected10_weight" in networks[1].list_arguments()
    assert len(states[0]) == 7
    for a, b in zip(*states, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_variables_own_initialiser_comes_first():
    w = sym.Variable("w", init=init.Constant([1.0, 2.0]), shape=(3, 2), dtype="float16")
    assert w.attr_dict()["w"]["__init__"] == '["constant", {"value": [1.0, 2.0]}]'
    args, _ = lowering.init_params(
        sym.FullyConnected(sym.Variable("data"), w, num_hidden=3), {"data": (1, 2)}, 0, "one"
    )
    assert args["w"].dtype == np.float16
    np.testing.assert_array_equal(args["w"], [[1, 2]] * 3)


@pytest.mark.slow("computes much")
def test_a_fused_rnn_takes_the_models_initialiser_gate_by_gate():
    fused = sym.Variable("parameters", init=init.FusedRNN(None, 3, 1, "lstm"))
    net = sym.RNN(sym.Variable("data"), fused, *map(sym.Variable, "sc"), state_size=3, num_layers=1, mode="lstm")
    shapes = {"data": (2, 1, 5), "s": (1, 1, 3), "c": (1, 1, 3)}
    (vector,) = lowering.init_params(net, shapes, 0, init.Orthogonal(1.0))[0].values()
    first_gate, recurrent = np.asarray(vector[:15]).reshape(3, 5), np.asarray(vector[60:69]).reshape(3, 3)
    for gate in (first_gate, recurrent):
        np.testing.assert_allclose(gate @ gate.T, np.eye(3), atol=1e-6)
    np.testing.assert_array_equal(vector[-24:].reshape(2, 4, 3)[:, 1], 1)
    assert vector[-24:].sum() == 6


def test_load_and_mixed(tmp_path: Path):
    nn.save_arrays(tmp_path / "p.params", {"arg:fc1_bias": np.arange(8, dtype=np.float32)})
    chosen = init.Mixed(["fc1_bias", ".*"], [init.Load(tmp_path / "p.params"), init.Load({}, "one")])
    args, _ = lowering.init_params(network(), {"data": (4, 5)}, 0, chosen)
    np.testing.assert_array_equal(args["fc1_bias"], np.arange(8))
    assert (args["fc2_weight"] == 1).all()


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ("<mxnet.initializer.Xavier object at 0x7f3a>", r"lacks the parameters of the initialiser 'Xavier'.*_set_attr"),
        ("xaviar", r"not registered.*Did you mean 'xavier'\?"),
        ('["xavier", {"magnetude": 3}]', "does not take these parameters.*magnetude"),
        ('["xavier", {"rnd_type": "cauchy"}]', r"parameter 'rnd_type'; expected \['uniform', 'gaussian'\]"),
        ("[broken", "must be JSON"),
        ("[" * 100_000, "must be JSON"),
        ('["xavier"]', "expected a name"),
        ('["constant", {"value": [1, 2, 3]}]', r"does not have its parameter's shape.*\(8, 5\)"),
        (
            '["fusedrnn", {"init": null, "num_hidden": 3, "num_layers": 1, "mode": "lstm"}]',
            "is not the vector of weights of FusedRNN",
        ),
        ("bilinear", "four axes"),
    ],
)
def test_an_attribute_that_cannot_be_used_names_its_variable(attribute: str, message: str):
    net = sym.FullyConnected(sym.Variable("data"), sym.Variable("w", init=attribute), num_hidden=8)
    with pytest.raises(InitializerError, match=message) as raised:
        lowering.init_params(net, {"data": (4, 5)}, 0)
    assert "'w'" in str(raised.value)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda: lowering.init_params(network(), {}, 0), InferenceError, "'fc1_weight'.*do not follow"),
        (lambda: init.Xavier()("v_weight", (3,), key=0), InitializerError, "cannot be applied to vector v_weight"),
        (lambda: init.Normal()("v_weight", (3,)), InitializerError, "needs a key"),
        (lambda: init.Load({"v": np.ones(2)})("v", (3,)), InitializerError, r"Shape mismatch; expected \(3,\)"),
        (lambda: init.Load({"u": np.ones(2)})("v", (3,)), InitializerError, "Cannot Initialize v.*'u'"),
        (lambda: init.Mixed(["u"], ["one"])("v", (3,)), InitializerError, "v did not match any pattern of 'u'"),
        (lambda: init.Mixed(["(u"], ["one"]), InitializerError, "not a regular expression"),
        (lambda: init.Mixed(["u"], []), InitializerError, "one initialiser for each pattern"),
        (lambda: init.FusedRNN(None, 1, 1, "lst"), InitializerError, "There is no such cell"),
        (lambda: init.FusedRNN(None, 1, 1, "gru")("v_weight", (9,)), InitializerError, "needs an initialiser for"),
        (lambda: init.create("nope"), AssertionError, "not registered"),
        (lambda: init.create(3), InitializerError, "No initialiser"),
    ],
)
def test_wrong_use_is_explained(wrong, error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        wrong()


def test_users_register_their_own():
    @init.register
    @init.alias("mine")
    class HalfAndHalf(init.Initializer):
        def _init_weight(self, desc, shape, key):
            return 0.5

        def _init_bias(self, desc, shape, key):
            return 0.25

    args, _ = lowering.init_params(network(), {"data": (4, 5)}, 0, "mine")
    assert (args["fc1_weight"] == 0.5).all()
    assert (args["fc1_bias"] == 0.25).all()
    assert init.create("halfandhalf").dumps() == '["halfandhalf", {}]'


@pytest.mark.slow("has many cases")
@pytest.mark.usefixtures("compiled_fully")
@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
@pytest.mark.parametrize("shape", [(3, 5), (64, 65), (1, 4096), (70, 70, 1)])
def test_numbers_are_those_of_a_draw_of_the_very_shape(impl: str, shape: tuple[int, ...]):
    """However many are drawn for the sake of one program for many shapes."""
    key = jax.random.key(7, impl=impl)
    for made, expected in (
        (drawn._uniform("w", key, shape, 0.1), jax.random.uniform(key, shape, "f", -1, 1)),
        (drawn._normal("w", key, shape, 0.1), jax.random.normal(key, shape, "f")),
    ):
        np.testing.assert_array_equal(made, np.asarray(expected) * np.float32(0.1))


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("shape", [(), (0, 3), (3, 5), (1500,), (2048, 3)])
def test_numpy_draws_the_same_numbers_in_parts(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...]):
    monkeypatch.setattr(drawn, "_PART", 2048)
    key = jax.random.key(7)
    made = drawn._uniform("w", key, shape, 0.1)
    np.testing.assert_array_equal(made, np.asarray(jax.random.uniform(key, shape, "f", -1, 1)) * np.float32(0.1))
    made = drawn._normal("w", key, shape, 0.1)
    np.testing.assert_allclose(made, np.asarray(jax.random.normal(key, shape, "f")) * np.float32(0.1), atol=1e-6)


def test_counts_go_on_beyond_32_bits():
    begin = (1 << 33) + (1 << 32) - 3
    first, second = threefry_bits._counted(threefry_bits.key_from([5, 6], begin), (6,))
    places = np.arange(begin, begin + 6)
    words = threefry_bits.threefry(np.array([5, 6], "u4"), (places >> 32).astype("u4"), places.astype("u4"))
    np.testing.assert_array_equal([first, second], words)
