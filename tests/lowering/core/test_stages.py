"""SimplifyInference, FoldScaleAxis and PrecomputePrune: what they make of graphs, and that these compute the same."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
import symjax_nnvm as nn
from lowering.core.cache import Programs
from symjax_nnvm import pipeline
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, LoweringError, PassError
from symjax_nnvm.ir import pass_registry
from symjax_nnvm.pipeline import Options, Pipeline, Plan, optional_stages
from tests.mxnet_files.test_networks import NAMES, NETWORKS, part
from tests.support.comparison import assert_close
from tests.support.traced import evaluated

Arrays = dict[str, np.ndarray]


def ops(plan: Plan) -> list[str]:
    """The operators of a plan's graph, in order."""
    return [node.op.name for node in plan.graph.nodes() if node.op is not None]


def drawn(net: sym.Symbol, dtype: str = "float32", **shapes: tuple[int, ...]) -> tuple[Arrays, Arrays]:
    """(arguments, states) at random, all of them positive: variances are."""
    arg_shapes, _, aux_shapes = net.infer_shape(**shapes)
    rng = np.random.default_rng(5)
    args, aux = (
        {name: rng.uniform(0.5, 1.5, shape).astype(dtype) for name, shape in zip(names, found, strict=True)}
        for names, found in ((net.list_arguments(), arg_shapes), (net.list_auxiliary_states(), aux_shapes))
    )
    return args, aux


def run(net: sym.Symbol, args: Mapping[str, Any], aux: Mapping[str, Any], data: set[str], *without: str):
    """(outputs, new states) with all but the data constant, what is computed once apart."""
    programs = Programs(net)
    options = Options(constants=frozenset(net.list_inputs()) - data, without=frozenset(without))
    plan, main, once = programs.plan(options), programs.forward(options), programs.precompute(options)
    given: dict[str, Any] = {**args, **aux}
    if once is not None:
        values = evaluated(
            lambda args: once.collect(once.run(once.bind(args, {}), None))[0],
            {name: given[name] for name in once.arg_names},
        )
        assert plan.precompute is not None
        given |= zip(plan.precompute.attrs["names"], values, strict=True)
    named = ({name: given[name] for name in names} for names in (main.arg_names, main.aux_names))
    return evaluated(
        lambda args, aux, key: main.collect(main.run(main.bind(args, aux), key)), *named, jax.random.key(0)
    )


def assert_equal_with_and_without(net: sym.Symbol, data: set[str], args: Arrays, aux: Arrays, rtol: float):
    with pipeline.without(*optional_stages()):
        plain = lowering.to_jax(net)
    key = jax.random.key(0)
    expected, states = evaluated(plain, args, aux, key)
    simplified, new_aux = evaluated(lowering.to_jax(net), args, aux, key)
    assert list(new_aux) == list(states)
    for name, value in states.items():
        np.testing.assert_array_equal(new_aux[name], value)
    folded, _ = run(net, args, aux, data)
    for i, value in enumerate(expected):
        assert_close(np.asarray(simplified[i]), np.asarray(value), rtol, f"output {i}, simplified")
        assert_close(np.asarray(folded[i]), np.asarray(value), rtol, f"output {i}, folded")


x = sym.Variable("data")


def conv(data: sym.Symbol = x, name: str = "conv", **given: Any) -> sym.Symbol:
    return sym.Convolution(data, **{"kernel": (3, 3), "num_filter": 4, "name": name, **given})


def norm(data: sym.Symbol, name: str = "bn", **given: Any) -> sym.Symbol:
    return sym.BatchNorm(data, **{"fix_gamma": False, "name": name, **given})


def _shared_weight() -> sym.Symbol:
    weight = sym.Variable("w")
    return sym.Group([norm(conv(weight=weight, name="a"), "bn_a"), norm(conv(weight=weight, name="b"), "bn_b")])


def _shared_convolution() -> sym.Symbol:
    shared = conv()
    return sym.Group([norm(shared), sym.relu(shared)])


def _shared_states() -> sym.Symbol:
    moving = {name: sym.Variable(name) for name in ("moving_mean", "moving_var")}
    return norm(norm(conv(), "first", **moving), "second", **moving)


def _mean(data: sym.Symbol, **given: Any) -> sym.Symbol:
    return sym.Pooling(data, **{"kernel": (2, 2), "pool_type": "avg", **given})


def _before_two() -> sym.Symbol:
    scaled = norm(x)
    return sym.Group([conv(scaled), conv(scaled, "other")])


def _internals() -> sym.Symbol:
    return norm(conv()).get_internals()


IMAGE = (2, 4, 5, 5)
CASES: dict[str, tuple[Callable[[], sym.Symbol], tuple[int, ...], bool]] = {
    "convolution": (lambda: norm(conv()), IMAGE, True),
    "without a bias": (lambda: norm(conv(no_bias=True)), IMAGE, True),
    "fixed gamma": (lambda: norm(conv(), fix_gamma=True), IMAGE, True),
    "global statistics": (lambda: norm(conv(), use_global_stats=True), IMAGE, True),
    "first version": (lambda: sym.BatchNorm_v1(sym.Convolution_v1(x, kernel=(3, 3), num_filter=2)), IMAGE, True),
    "synchronised": (lambda: sym.contrib.SyncBatchNorm(conv(), key="k"), IMAGE, True),
    "with a relu": (lambda: sym.contrib.BatchNormWithReLU(conv()), IMAGE, True),
    "padded, strided": (lambda: norm(conv(pad=(1, 1), stride=(2, 2))), IMAGE, True),
    "grouped": (lambda: norm(conv(num_group=2, num_filter=6)), IMAGE, True),
    "depth-wise": (lambda: norm(conv(num_group=4)), IMAGE, True),
    "one axis": (lambda: norm(conv(kernel=(3,))), (2, 4, 5), True),
    "three axes": (lambda: norm(conv(kernel=(2, 2, 2))), (1, 2, 3, 3, 3), True),
    "channels last": (lambda: norm(conv(layout="NHWC"), axis=-1), IMAGE, True),
    "channels last, counted from the front": (lambda: norm(conv(layout="NHWC"), axis=3), IMAGE, True),
    "another axis": (lambda: norm(conv(), axis=2), IMAGE, False),
    "deconvolution": (lambda: norm(sym.Deconvolution(x, kernel=(2, 2), num_filter=3)), IMAGE, True),
    "deconvolution with a bias": (
        lambda: norm(sym.Deconvolution(x, kernel=(2, 2), num_filter=3, no_bias=False)),
        IMAGE,
        True,
    ),
    "deconvolution in groups": (
        lambda: norm(sym.Deconvolution(x, kernel=(2, 2), stride=(2, 2), num_filter=6, num_group=2)),
        IMAGE,
        True,
    ),
    "deconvolution in groups, channels last": (
        lambda: norm(sym.Deconvolution(x, kernel=(2, 2), num_filter=6, num_group=2, layout="NHWC"), axis=-1),
        (2, 3, 3, 4),
        True,
    ),
    "dense": (lambda: norm(sym.FullyConnected(x, num_hidden=3)), IMAGE, True),
    "dense, rows": (lambda: norm(sym.FullyConnected(x, num_hidden=3, flatten=False), axis=-1), (2, 3, 4), True),
    "dense, not the last axis": (lambda: norm(sym.FullyConnected(x, num_hidden=3, flatten=False)), (2, 3, 4), False),
    "two in a row": (lambda: norm(norm(conv()), "again"), IMAGE, True),
    "through dropout and a copy": (lambda: norm(sym.identity(sym.Dropout(conv()))), IMAGE, True),
    "pooled": (lambda: norm(_mean(conv())), IMAGE, True),
    "pooled as a whole": (lambda: norm(_mean(conv(), kernel=(), global_pool=True)), IMAGE, True),
    "pooled with padding": (lambda: norm(_mean(conv(), pad=(1, 1))), IMAGE, False),
    "pooled past the end": (lambda: norm(_mean(conv(), pooling_convention="full")), IMAGE, False),
    "the largest": (lambda: norm(_mean(conv(), pool_type="max")), IMAGE, False),
    "joined": (lambda: norm(sym.Concat(conv(), _mean(conv(name="b", num_filter=3, kernel=(2, 2))))), IMAGE, True),
    "joined along another axis": (lambda: norm(sym.Concat(conv(), conv(name="b"), dim=2)), IMAGE, True),
    "joined with data": (lambda: norm(sym.Concat(conv(kernel=(1, 1)), x)), IMAGE, False),
    "joined twice": (lambda: norm(sym.Concat(*[conv()] * 2)), IMAGE, False),
    "before a convolution": (lambda: conv(norm(x)), IMAGE, True),
    "before one without a bias": (lambda: conv(norm(x), no_bias=True), IMAGE, True),
    "before one in groups": (lambda: conv(norm(x), num_group=2, num_filter=6), IMAGE, True),
    "before one channels last": (lambda: conv(norm(x, axis=-1), layout="NHWC", num_group=2), (2, 5, 5, 4), True),
    "before a padded one": (lambda: conv(norm(x), pad=(1, 1)), IMAGE, False),
    "before a dense layer": (lambda: sym.FullyConnected(norm(sym.Flatten(x)), num_hidden=3), IMAGE, True),
    "before a dense layer of rows": (
        lambda: sym.FullyConnected(norm(x, axis=-1), num_hidden=3, flatten=False),
        IMAGE,
        True,
    ),
    "before one that flattens": (lambda: sym.FullyConnected(norm(x), num_hidden=3), IMAGE, False),
    "before and after": (lambda: norm(conv(norm(x)), "after"), IMAGE, True),
    "before two": (_before_two, IMAGE, False),
    "shared weight": (_shared_weight, IMAGE, True),
    "shared convolution": (_shared_convolution, IMAGE, False),
    "shared states": (_shared_states, IMAGE, True),
    "internals": (_internals, IMAGE, False),
    "of a variable": (lambda: norm(x), IMAGE, False),
    "mean and variance read": (lambda: sym.Group(list(norm(conv(), output_mean_var=True))), IMAGE, False),
    "mean alone": (lambda: norm(conv(), output_mean_var=True)[1], IMAGE, False),
    "dropout that always drops": (lambda: norm(sym.Dropout(conv(), mode="always", name="drop")), IMAGE, False),
}


@pytest.mark.nightly("every case", but_one_in=3)
@pytest.mark.slow("compiles")
@pytest.mark.parametrize("name", CASES)
def test_a_case_computes_the_same(name: str):
    build, shape, folds = CASES[name]
    net = build()
    args, aux = drawn(net, data=shape)
    with pass_registry.checking_passes():
        assert_equal_with_and_without(net, {"data"}, args, aux, 1e-5)
    constants = frozenset(net.list_inputs()) - {"data"}
    left = ops(Pipeline(net.outputs).plan(Options(constants=constants)))
    assert folds == (not {"_scale_shift", "BatchNorm"}.intersection(left)), left


@pytest.mark.nightly("every case", but_one_in=2)
@pytest.mark.parametrize("name", ["convolution", "grouped", "deconvolution in groups", "dense", "two in a row"])
def test_a_case_computes_the_same_in_float64(name: str):
    build, shape, _ = CASES[name]
    with jax.enable_x64(True):
        net = build()
        assert_equal_with_and_without(net, {"data"}, *drawn(net, "float64", data=shape), 1e-12)


@cache
def model(name: str) -> tuple[sym.Symbol, Arrays, Arrays]:
    return nn.load_model(NETWORKS / f"{name}-symbol.json", NETWORKS / f"{name}-0000.params")


@pytest.mark.nightly("every network", but_one_in=2)
@pytest.mark.slow("compiles")
@pytest.mark.parametrize("name", NAMES)
def test_a_network_computes_the_same(name: str):
    net, args, aux = model(name)
    data = part(name, "in")
    assert_equal_with_and_without(net, set(data), {**args, **data}, aux, 1e-5)


def test_what_nothing_simplifies_is_not_copied():
    line = Pipeline(sym.relu(sym.FullyConnected(x, num_hidden=3)).outputs)
    assert line.plan(Options()).graph is line.graph


def test_batch_norm_becomes_a_scale_and_a_shift_and_training_keeps_it():
    line = Pipeline(norm(conv()).outputs)
    assert ops(line.plan(Options()))[-1] == "_scale_shift"
    for options in (Options(is_train=True), Options(wrt=()), Options(witness=True)):
        assert ops(line.plan(options)) == ["Convolution", "BatchNorm"]


@pytest.mark.slow("compiles")
def test_states_and_unread_arguments_stay_what_callers_give():
    net = sym.BatchNorm(conv(), name="bn")  # which does not read gamma
    args, aux = drawn(net, data=IMAGE)
    _, new_aux = lowering.compile(net, donate_aux=True)(args, {name: jnp.asarray(value) for name, value in aux.items()})
    assert list(new_aux) == net.list_auxiliary_states()
    for name, value in aux.items():
        np.testing.assert_array_equal(new_aux[name], value)
    with pytest.raises(LoweringError, match="bn_gamma"):
        lowering.to_jax(net)({name: value for name, value in args.items() if name != "bn_gamma"}, aux)
    alone = norm(conv(), output_mean_var=True)[2]
    np.testing.assert_array_equal(
        evaluated(lowering.to_jax(alone), args, aux)[1]["bn_moving_mean"], aux["bn_moving_mean"]
    )


def test_errors_are_told_of_the_network_and_not_of_what_became_of_it():
    net = norm(conv())
    args, aux = drawn(net, data=IMAGE)
    with pytest.raises(InferenceError, match="BatchNorm.*'bn'"):
        lowering.to_jax(net)(args | {"bn_gamma": np.ones(5, "float32")}, aux)


def test_without_constants_weights_are_not_computed_with():
    plan = Pipeline(norm(conv()).outputs).plan(Options())
    assert "Convolution" in ops(plan)
    assert "_scale_shift" in ops(plan)
    assert plan.precompute is None


def test_what_is_computed_once_has_readable_names_of_its_own():
    net = norm(conv(no_bias=True))
    plan = Pipeline(net.outputs).plan(Options(constants=frozenset(net.list_inputs()) - {"data"}))
    assert plan.precompute is not None
    assert plan.precompute.attrs["names"] == ["conv_weight_scaled", "conv_bias"]
    assert [node.name for node in plan.graph.nodes()] == ["data", "conv_weight_scaled", "conv_bias", "conv"]


def test_what_is_large_or_changes_is_not_kept():
    w = sym.Variable("w")
    row = sym.sqrt(w)
    large = sym.broadcast_to(row, shape=(4, 1000))
    random = sym.broadcast_mul(w, sym.random.uniform(shape=(1, 1)))
    net = x + large + sym.zeros((4, 1000)) + random
    plan = Pipeline(net.outputs).plan(Options(constants=frozenset({"w"})))
    assert plan.precompute is not None
    assert [entry.node for entry in plan.precompute.outputs] == [row.outputs[0].node]
    assert {"broadcast_to", "_zeros", "_random_uniform"} <= set(ops(plan))
    assert "w" in [node.name for node in plan.graph.nodes()]  # the random product reads it


def test_what_is_made_of_nothing_is_computed_once_if_nothing_else_decides_it():
    decided = sym.arange(0, 4, dtype="float16").astype("float32")
    begin = sym.zeros((0, 4)) + 1  # of as many rows as data have
    twos = sym.ones((1, 4)) + 1  # of the dtype of data
    plan = Pipeline((x * begin * sym.broadcast_mul(x, decided) + sym.broadcast_mul(x, twos)).outputs).plan(
        Options(constants=frozenset())
    )
    assert plan.precompute is not None
    assert [entry.node for entry in plan.precompute.outputs] == [decided.outputs[0].node]


def test_states_that_somebody_writes_are_not_constant():
    net = norm(conv(), output_mean_var=True)
    plan = Pipeline(net.outputs).plan(Options(constants=frozenset(net.list_inputs()) - {"data"}))
    assert "BatchNorm" in ops(plan)
    assert plan.precompute is None


def test_weights_that_change_are_not_folded_into():
    net = norm(conv())
    plan = Pipeline(net.outputs).plan(Options(constants=frozenset(net.list_inputs()) - {"data", "conv_weight"}))
    assert ops(plan) == ["Convolution", "_scale_shift"]
    assert plan.precompute is not None
    assert plan.precompute.attrs["names"] == ["bn_scale", "bn_shift"]


def test_a_stage_is_left_out_by_its_name():
    net = norm(conv())
    with pipeline.without("SimplifyInference"), pipeline.without("FoldScaleAxis"):
        assert Options().without == {"SimplifyInference", "FoldScaleAxis"}
        assert "BatchNorm" in str(ops(Pipeline(net.outputs).plan(Options())))
    assert Options().without == frozenset()
    explained = lowering.explain(net, constants=net.list_inputs(), without=["FoldScaleAxis"])
    assert [record.name for record in explained.stages if record.ran] == [
        "SimplifyInference",
        "AlterOpLayout",
        "HoistInvariants",
        "PrecomputePrune",
    ]
    assert "left out" in str(explained)
    for wrong in ("FoldScale", "MXGradient"):
        with pytest.raises(PassError, match="FoldScaleAxis"), pipeline.without(wrong):
            pass


def test_gradients_are_the_same_without_merging():
    h = sym.tanh(x)
    net = sym.Group([h * sym.exp(x), sym.exp(x), h])
    given = {"data": np.linspace(-1, 1, 4, dtype="float32")}
    heads = [jnp.ones(4)] * 3
    expected = evaluated(lowering.grad_fn(net), given, head_grads=heads)[1]["data"]
    with pipeline.without("EliminateCommonExpr"):
        np.testing.assert_allclose(
            evaluated(lowering.grad_fn(net), given, head_grads=heads)[1]["data"], expected, rtol=1e-6
        )
