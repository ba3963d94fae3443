"""Checks on eight devices, which `test_sharding.py` runs.

Numbers are float64, so that equal means 1e-12: what devices add up in another order differs by rounding alone.
"""

import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import lowering
from benchmarks.scaling import Abstracts, by_hand, collectives, held, ours, perceptron, resnet, transformer
from lowering.core.mesh_parts import count_parts, on_each_part
from lowering.core.rules import ByPart
from lowering.sharding.explicit_axes import auto_mesh
from lowering.sharding.placement import make_placement
from lowering.xla.compile_options import Awaited
from symjax_nnvm import symbol as sym
from symjax_nnvm.pipeline import Options
from tests.support.traced import evaluated

CHECKS: list[Callable[[], None]] = []
P = PartitionSpec


def check(function: Callable[[], None]) -> Callable[[], None]:
    CHECKS.append(function)
    return function


@cache
def mesh(*kinds: AxisType) -> jax.sharding.Mesh:
    """4 × 2 devices; explicit axes are what `jax.make_mesh` makes."""
    return jax.make_mesh((4, 2), ("data", "model"), axis_types=kinds or (AxisType.Auto,) * 2)


@cache
def data_mesh() -> jax.sharding.Mesh:
    return jax.make_mesh((8,), ("data",))


EXPLICIT = (AxisType.Explicit,) * 2


def equal(got: Any, wanted: Any) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12), got, wanted)


def spec(array: Any) -> PartitionSpec:
    """Without the axes at the end that are not split."""
    axes = list(array.sharding.spec)
    while axes and axes[-1] is None:
        axes.pop()
    return P(*axes)


# -- a small network, tensor parallel ----------------------------------------------------------------------------------


def dense() -> sym.Symbol:
    """Two dense layers, the first split by rows of its weight."""
    weight = sym.Variable("w1", attr={"__sharding__": "model, None"})
    h = sym.FullyConnected(
        sym.Variable("data"), weight=weight, num_hidden=16, name="fc1", attr={"__sharding__": "data, model"}
    )
    h = sym.FullyConnected(sym.tanh(h), num_hidden=4, name="fc2")
    return sym.SoftmaxOutput(h, name="softmax")


INPUTS = ("data", "softmax_label")


def values(net: sym.Symbol, batch: int, *sample: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments and states of a seed."""
    rng = np.random.default_rng(0)
    shapes, _, states = net.infer_shape(data=(batch, *sample))
    args = {n: rng.normal(size=s, scale=0.3) for n, s in zip(net.list_arguments(), shapes, strict=True)}
    args["softmax_label"] = np.arange(batch) % 4.0
    pairs = zip(net.list_auxiliary_states(), states, strict=True)
    return args, {n: np.ones(s) if n.endswith("var") else np.zeros(s) for n, s in pairs}


def spread(args: Mapping[str, Any], on: jax.sharding.Mesh) -> dict[str, jax.Array]:
    where = dict.fromkeys(INPUTS, P("data")) | {"w1": P("model")}
    return {n: jax.device_put(a, NamedSharding(on, where.get(n, P()))) for n, a in args.items()}


@cache
def known() -> tuple[Any, Any, Any]:
    """(arguments, outputs, gradients) of one device."""
    args, _ = values(dense(), 8, 6)
    outputs, grads, _ = lowering.grad_fn(dense())(args)
    return args, outputs, grads


@check
def to_jax_lays_out_what_the_graph_says() -> None:
    args, outputs, _ = known()
    inner = dense().get_internals()["fc1_output"]
    given = {name: args[name] for name in inner.list_arguments()}
    (out,), _ = jax.jit(lowering.to_jax(inner, mesh=mesh()))(given)  # nothing but the graph says it
    assert spec(out) == P("data", "model")
    with jax.set_mesh(mesh()):
        (out,), _ = jax.jit(lowering.to_jax(inner))(given)
    assert spec(out) == P("data", "model")
    (out,), _ = jax.jit(lowering.to_jax(inner))(given)
    assert len(out.sharding.device_set) == 1
    got, _ = lowering.to_jax(dense(), mesh=mesh())(spread(args, mesh()))
    equal(got, outputs)


@check
def gradients_lie_like_what_they_are_gradients_of() -> None:
    args, outputs, wanted = known()
    got, grads, _ = jax.jit(lowering.grad_fn(dense(), mesh=mesh()))(args)  # only the graph says it
    equal((got, grads), (outputs, wanted))
    assert spec(grads["w1"]) == P("model")
    function = lowering.differentiable(dense(), mesh=mesh())
    grads = jax.jit(jax.grad(lambda a: function(a)[0][0].sum()))(spread(args, mesh()))
    equal(grads, wanted)
    assert spec(grads["w1"]) == P("model")


@check
def compile_keeps_arrays_where_they_lie() -> None:
    args, outputs, _ = known()
    run = lowering.compile(dense(), mesh=mesh())
    got, _ = run(spread(args, mesh()))
    equal(got, outputs)
    assert spec(got[0]) == P("data")
    assert collectives(run.hlo()).keys() == {"all-reduce"}  # of the second product, over the split axis
    assert not collectives(lowering.compile(dense()).hlo(args))
    assert collectives(lowering.compile(dense()).hlo(spread(args, mesh()))).keys() == {"all-reduce"}


@check
def explicit_axes_work_everywhere() -> None:
    args, outputs, wanted = known()
    given = spread(args, mesh(*EXPLICIT))

    def mixed(function: Any) -> Callable[[Any], Any]:
        def loss(a: Any) -> Any:
            (out,), _ = function(a)
            return (out * out).sum() + (a["data"] + out.sum(1, keepdims=True)).sum()

        return loss

    plain, _ = jax.value_and_grad(mixed(lowering.differentiable(dense())))(args)
    for around in (False, True):
        with jax.set_mesh(mesh(*EXPLICIT)) if around else jax.disable_jit(False):
            (out,), _ = jax.jit(lowering.to_jax(dense(), mesh=mesh(*EXPLICIT)))(given)
            equal([out], outputs)
            assert spec(out) == P("data")
            assert out.sharding.mesh == mesh(*EXPLICIT)
            got, grads, _ = jax.jit(lowering.grad_fn(dense(), mesh=mesh(*EXPLICIT)))(given)
            equal((got, grads), (outputs, wanted))
            assert all(grads[name].sharding.mesh == mesh(*EXPLICIT) for name in grads)
            stepped = jax.jit(lambda a, g: {name: a[name] - g[name] for name in g})(given, grads)
            assert spec(stepped["w1"]) == P("model")
            total, _ = jax.jit(jax.value_and_grad(mixed(lowering.differentiable(dense(), mesh=mesh(*EXPLICIT)))))(given)
            equal(total, plain)
    equal(lowering.compile(dense())(given)[0], outputs)
    equal(lowering.to_jax(dense())(given)[0], outputs)  # without jit


@check
def results_are_on_the_explicit_axes_of_the_arguments() -> None:
    """As they are traced; what they are is asked at night."""
    args, _, _ = known()
    on = mesh(*EXPLICIT)
    given, inner = spread(args, on), dense().get_internals()["fc1_output"]
    shapes = jax.eval_shape(lowering.grad_fn(dense(), mesh=on), given)
    assert spec(shapes[0][0]) == P("data")
    assert spec(shapes[1]["w1"]) == P("model")
    ((out,), _) = jax.eval_shape(lowering.to_jax(inner, mesh=on), {n: given[n] for n in inner.list_arguments()})
    assert spec(out) == P("data", "model")  # as the graph says
    assert {leaf.sharding.mesh for leaf in jax.tree.leaves(shapes[1])} == {out.sharding.mesh}


@check
def a_batch_that_no_devices_share_evenly_is_whole() -> None:
    of = make_placement(data_mesh())
    assert [of.batch(size).spec for size in (16, 12, 3)] == [P(("data",)), P(), P()]


@check
def what_the_graph_declares_comes_before_words_and_rules() -> None:
    data, weight = (
        sym.Variable(n, attr={"__sharding__": text}) for n, text in (("data", "model"), ("w", "None, data"))
    )
    net = sym.FullyConnected(data, weight=weight, num_hidden=16)
    for sharding in ("replicate", "fsdp", "zero1", [("w", P("model"))]):
        of = make_placement(mesh(), sharding, symbol=net)
        assert of.input("data", (8, 4)).spec == P("model")
        for place in (of.parameters, of.optimizer_slots, of.states):
            assert place({"w": (16, 4)})["w"].spec == P(None, "data")


@check
def what_each_device_sums_up_is_added() -> None:
    x, y = np.arange(16.0).reshape(8, 2), np.arange(24.0).reshape(8, 3)
    options = Options(mesh=auto_mesh(data_mesh()), data_axis=("data",))
    for by, function, wanted in (
        (ByPart((0, 1), summed=True), lambda x, y: x.T @ y, x.T @ y),
        (ByPart((0,)), lambda x, y: x + y[:1, :2], x + y[:1, :2]),
    ):
        assert count_parts(by, options, "cpu", (x, y)) == 8
        equal(jax.jit(lambda x, y, f=function, b=by: on_each_part(f, b, options, "cpu", (x, y)))(x, y), wanted)


@check
def it_composes_with_shard_map() -> None:
    args, outputs, _ = known()
    function = lowering.to_jax(dense(), mesh=mesh())
    specs = {name: P("data") if name in INPUTS else P() for name in args}
    mapped = jax.shard_map(lambda a: function(a)[0][0], mesh=mesh(), in_specs=(specs,), out_specs=P("data"))
    equal([jax.jit(mapped)(args)], outputs)
    half = jax.shard_map(
        lambda a: function(a)[0][0], mesh=mesh(), in_specs=(specs,), out_specs=P("data"), axis_names={"data"}
    )
    with jax.set_mesh(mesh()):  # "model" is left to the graph
        equal([jax.jit(half)(args)], outputs)


@check
def bodies_of_loops_are_split_too() -> None:
    def body(x: Any, states: Any) -> Any:
        new = sym.tanh(sym.FullyConnected(x + states, num_hidden=6, name="in", attr={"__sharding__": "data, model"}))
        return new, new

    out, _ = sym.contrib.foreach(body, sym.Variable("data"), sym.Variable("state"))
    rng = np.random.default_rng(1)
    shapes, _, _ = out.infer_shape(data=(3, 8, 6), state=(8, 6))
    args = {name: rng.normal(size=shape) for name, shape in zip(out.list_arguments(), shapes, strict=True)}
    wanted = evaluated(lowering.grad_fn(out), args, head_grads=[np.ones((3, 8, 6))])
    equal(jax.jit(lowering.grad_fn(out, mesh=mesh()))(args, head_grads=[np.ones((3, 8, 6))]), wanted)


# -- the executor ------------------------------------------------------------------------------------------------------


@check
def an_executor_keeps_arrays_where_they_lie() -> None:
    args, outputs, wanted = known()
    for on in (mesh(), mesh(*EXPLICIT)):
        given = spread(args, on)
        executor = lowering.bind(dense(), args=given, args_grad={n: np.zeros_like(a) for n, a in args.items()})
        equal(executor.forward_backward(), outputs)
        equal({name: executor.grad_dict[name] for name in wanted}, wanted)
        assert spec(executor.grad_dict["w1"]) == P("model")
        equal(executor.forward(is_train=True, data=args["data"]), outputs)  # of NumPy's memory
        assert spec(executor.arg_dict["data"]) == P("data")
        executor.backward()
        equal({name: executor.grad_dict[name] for name in wanted}, wanted)


@check
def groups_have_shardings() -> None:
    args, outputs, wanted = known()
    with sym.AttrScope(ctx_group="first"):
        h = sym.FullyConnected(sym.Variable("data"), weight=sym.Variable("w1"), num_hidden=16, name="fc1")
    with sym.AttrScope(ctx_group="second"):
        net = sym.SoftmaxOutput(sym.FullyConnected(sym.tanh(h), num_hidden=4, name="fc2"), name="softmax")
    places = {"first": NamedSharding(mesh(), P("model")), "second": NamedSharding(mesh(), P())}
    types = dict.fromkeys(args, "float64")
    executor = lowering.simple_bind(net, group2ctx=places, type_dict=types, data=(8, 6))
    executor.copy_params_from(args)
    equal(executor.forward_backward(), outputs)
    equal({name: executor.grad_dict[name] for name in wanted}, wanted)
    assert {n for n, a in executor.arg_dict.items() if spec(a)} == {"data", "w1", "fc1_bias"}
    assert spec(lowering.bind(net, args=args, group2ctx=places).arg_dict["w1"]) == P("model")


# -- convolutions ------------------------------------------------------------------------------------------------------


@cache
def images() -> Any:
    net = resnet((1, 1), 8, 32, 4).net
    args, aux = values(net, 16, 3, 32, 32)
    return net, args, aux


@check
def no_loop_over_samples_gathers_the_batch() -> None:
    net, args, aux = images()
    wrt = [name for name in args if name not in INPUTS]
    wanted = evaluated(lowering.grad_fn(net, wrt), args, aux)
    run = jax.jit(lowering.grad_fn(net, wrt, mesh=data_mesh()))
    auto = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
    given = spread(args, auto), {n: jax.device_put(a, NamedSharding(auto, P())) for n, a in aux.items()}
    compiled = run.lower(*given).compile()
    assert collectives(compiled.as_text()).keys() == {"all-reduce"}
    outputs, grads, states = compiled(*given)
    for got, one in zip((outputs, grads, states), wanted, strict=True):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9), got, one)  # Winograd's sums


# -- predictors --------------------------------------------------------------------------------------------------------


@check
def a_predictor_splits_the_batch() -> None:
    net, args, aux = images()
    params, x = {n: a for n, a in args.items() if n not in INPUTS}, args["data"]
    (wanted,) = lowering.Predictor(net, params, aux)(data=x)
    rules = [("fc_weight", P(None, "data"))]
    for sharding, sent in (("replicate", set()), ("fsdp", {"all-gather"}), (rules, {"all-gather"})):
        predict = lowering.Predictor(net, params, aux, mesh=data_mesh(), sharding=sharding)
        (out,) = predict(data=x)
        np.testing.assert_allclose(out, wanted, rtol=1e-9)
        assert spec(out) == P("data")
        ((_, ready),) = predict._prepared_ones()
        assert isinstance(ready.executable, Awaited)
        assert collectives(ready.executable.executable.as_text() or "").keys() == sent
        assert any(spec(a) for a in ready.held.values()) == bool(sent)
    parts = list(predict.batches([x[:5], x[5:], x[:3]], 16))
    equal([part[0].shape[0] for part in parts], [5, 11, 3])
    np.testing.assert_allclose(np.concatenate([part[0] for part in parts])[:16], wanted, rtol=1e-9)
    np.testing.assert_allclose(predict(data=x[:3])[0], wanted[:3], rtol=1e-9)  # not to be split evenly


@check
def a_predictor_lays_out_what_the_graph_says() -> None:
    args, outputs, _ = known()
    params = {name: array for name, array in args.items() if name not in INPUTS}
    predict = lowering.Predictor(dense(), params, mesh=mesh(*EXPLICIT))
    equal(predict(data=args["data"]), outputs)
    ((_, ready),) = predict._prepared_ones()
    assert [spec(a) for a in ready.held.values()].count(P("model")) == 1


@check
def a_saved_predictor_is_laid_out_anew() -> None:
    args, outputs, _ = known()
    params = {name: array.astype(np.float32) for name, array in args.items() if name not in INPUTS}
    over: dict[str, Any] = {"mesh": mesh()}
    alone: dict[str, Any] = {}
    for before, after in ((alone, over), (over, alone)):
        with tempfile.TemporaryDirectory() as folder:
            predict = lowering.Predictor(dense(), params, **before)
            predict(data=args["data"].astype(np.float32))
            predict.save(folder)
            again = lowering.Predictor.load(folder, **after)
            np.testing.assert_allclose(again(data=args["data"].astype(np.float32))[0], outputs[0], rtol=1e-5)


@check
def random_operators_draw_the_same() -> None:
    net = sym.Dropout(sym.Variable("data"), p=0.5, mode="always", name="drop", attr={"__sharding__": "data"})
    x, key = np.ones((8, 6)), jax.random.key(3)
    (wanted,), _ = lowering.to_jax(net)({"data": x}, key=key)
    (out,), _ = jax.jit(lowering.to_jax(net, mesh=mesh()))({"data": x}, {}, key)
    equal(out, wanted)
    equal(lowering.Predictor(net, {}, mesh=data_mesh())(key, data=x), [wanted])


# -- the Trainer's program is the one an expert writes -----------------------------------------------------------------


def sent(model: Any, on: Any, sharding: Any) -> tuple[Any, Any]:
    made = (who(model, on, sharding, 16).compile().as_text() for who in (ours, by_hand))
    mine, theirs = map(collectives, made)
    return mine, theirs


def parameter_bytes(model: Any) -> int:
    return held(Abstracts(model, make_placement(data_mesh()), 16).params)[1]


@check
def data_parallel_sends_one_sum_of_the_gradients() -> None:
    for model in (perceptron(), transformer(1, 32, 4, 8)):
        mine, theirs = sent(model, data_mesh(), "replicate")
        assert mine == theirs, (mine, theirs)
        assert mine.keys() == {"all-reduce"}
        assert mine["all-reduce"].instructions == 1
        assert mine["all-reduce"].bytes == parameter_bytes(model)


@check
def fsdp_gathers_parameters_and_sums_gradients() -> None:
    mine, theirs = sent(transformer(1, 32, 4, 8), data_mesh(), "fsdp")
    assert mine.keys() == theirs.keys()
    for kind, each in mine.items():
        assert each.bytes <= 1.05 * theirs[kind].bytes, (kind, mine, theirs)


@check
def convolutions_send_no_more_than_by_hand() -> None:
    mine, theirs = sent(resnet((1, 1), 8, 32, 4), data_mesh(), "replicate")
    assert mine.keys() == theirs.keys() == {"all-reduce"}
    assert mine["all-reduce"].instructions <= theirs["all-reduce"].instructions
    assert mine["all-reduce"].bytes <= 1.02 * theirs["all-reduce"].bytes


@check
def devices_hold_an_eighth() -> None:
    model = transformer(1, 64, 4, 8)
    for sharding, eighths in (("replicate", ()), ("zero1", ("momenta",)), ("fsdp", ("params", "momenta"))):
        arrays = Abstracts(model, make_placement(data_mesh(), sharding), 16)
        for what in ("params", "momenta"):
            one, whole = held(getattr(arrays, what))
            np.testing.assert_allclose(one, whole / 8 if what in eighths else whole, rtol=0.05)
