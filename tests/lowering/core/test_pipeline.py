"""The pipeline: one list of stages that every door goes through, each graph made, indexed and inferred once."""

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from lowering.convolutions.backends import Backend
from lowering.core.cache import Programs
from lowering.core.program import Program
from symjax_nnvm import pipeline
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import GraphError, PassError
from symjax_nnvm.ir import pass_registry
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.indexed_graph import IndexedGraph
from symjax_nnvm.ir.rewrite import rewrite
from symjax_nnvm.pipeline import STAGES, Options, Pipeline, Stage
from tests.support.traced import evaluated

ROOT = Path(lowering.__file__).parent


def network() -> sym.Symbol:
    data = sym.Variable("data")
    hidden = sym.BatchNorm(sym.FullyConnected(data, num_hidden=4, name="fc"), fix_gamma=False, name="bn")
    return sym.SoftmaxOutput(sym.Dropout(hidden, name="drop"), name="softmax")


WRT = ("fc_weight", "fc_bias", "bn_gamma", "bn_beta")


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """How often graphs are indexed, programs built, and shapes or dtypes inferred."""
    counts: Counter[str] = Counter()

    def counting(what: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            counts[what] += 1
            return function(*args, **kwargs)

        return wrapper

    with monkeypatch.context() as patched:
        for owner in (IndexedGraph, Program):
            patched.setattr(owner, "__init__", counting(owner.__name__, owner.__init__))
        for name, info in list(pass_registry._passes.items()):
            if name.startswith("MXInfer"):
                body = counting("inference", info.body)
                patched.setitem(pass_registry._passes, name, pass_registry.PassInfo(name, body))
        yield counts


@pytest.mark.slow("computes much")
def test_programs_are_built_at_one_place():
    texts = {path: path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py")}
    calls = {
        (path.relative_to(ROOT).as_posix(), node.func.id)
        for path, text in texts.items()
        if "Program(" in text or "Pipeline(" in text
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("Program", "GradientProgram", "Pipeline")
    }
    subgraphs = {("core/program.py", "Program")}  # and the part of a graph that its first outputs need
    assert calls - subgraphs == {("core/cache.py", name) for name in ("Program", "GradientProgram", "Pipeline")}


def test_an_executor_indexes_two_graphs_and_infers_nothing_after_it_was_bound(monkeypatch: pytest.MonkeyPatch):
    net = network()
    with pass_registry.checking_passes(False), counted(monkeypatch) as counts:
        executor = lowering.simple_bind(net, data=(2, 3), softmax_label=(2,))
        assert counts["IndexedGraph"] <= 2
        assert counts["inference"] <= 4  # shapes and dtypes of the arguments, shapes and dtypes of the whole graph
        counts.clear()
        executor.forward(is_train=True)
        executor.backward()
        executor.forward(is_train=False)
        assert counts["IndexedGraph"] == counts["inference"] == 0


def test_checking_gradients_takes_two_programs(monkeypatch: pytest.MonkeyPatch):
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=2, name="fc")
    args = {"data": np.ones((2, 3)), "fc_weight": np.ones((2, 3)), "fc_bias": np.zeros(2)}
    with counted(monkeypatch) as counts:
        assert lowering.check_gradients(net, args).ok
    assert counts["Program"] <= 2


def test_training_and_inference_share_the_graph_of_gradients():
    programs = Programs(network())
    train, test = (programs.gradient(Options(is_train=is_train, wrt=WRT)) for is_train in (True, False))
    assert train is not test
    assert train.program.graph is test.program.graph
    assert programs.gradient(Options(is_train=True, wrt=WRT)) is train


def test_a_plan_tells_what_each_stage_did():
    plan = Pipeline(network().outputs).plan(Options(wrt=WRT))
    ran = {record.name: record.ran for record in plan.records}
    assert list(ran) == [stage.name for stage in STAGES]
    assert ran["MXGradient"]
    assert not ran["ReducePrecision"]
    gradient = next(record for record in plan.records if record.name == "MXGradient")
    assert gradient.after_nodes > gradient.before_nodes
    assert f"{gradient.before_nodes} → {gradient.after_nodes}" in str(plan)
    assert "needs a mesh of devices" in str(plan)
    assert "needs a half precision" in str(plan)


def test_a_plan_says_what_is_missing_and_nothing_else():
    """The words come from what decides: what is there is not asked for."""
    net = network()
    there = Options(platform="cpu", backend=Backend("cpu"))
    told = {r.name: r.missing for r in Pipeline(net.outputs).plan(there).records if not r.ran}
    assert told["TransformWeights"] == ("constants", "shapes")
    assert told["FuseConvolution"] == ("a backend that fuses", "constants", "shapes")
    told = {r.name: r.missing for r in Pipeline(net.outputs).plan(Options(wrt=WRT, constants=frozenset())).records}
    assert told["FoldScaleAxis"] == ("no gradients",)


def test_explain_prints_the_stages():
    net = network()
    text = str(lowering.explain(net, data=(2, 3)))
    for stage in STAGES:
        assert stage.name in text
    assert "memory: " in text
    explained = lowering.explain(net, is_train=True, compute_dtype="bfloat16")
    assert {record.name for record in explained.stages if record.ran} >= {"ReducePrecision", "MXGradient"}
    assert explained.backward > 0
    assert "forward and" in str(explained)


@pytest.fixture
def sines_are_cosines():
    """A stage from outside, for the length of a test."""

    def sin_to_cos(graph: Graph, options: Options) -> Graph:
        def rule(node: Any, draft: Any) -> Any:
            if node.op is None or node.op.name != "sin":
                return draft
            return sym.cos(sym.Symbol(draft.inputs), name=node.name).outputs[0].node

        return graph.derive(rewrite(graph.outputs, rule).outputs)

    stage = Stage("SinToCos", "sines become cosines", sin_to_cos)
    remove = pipeline.register(stage, before="SimplifyInference")
    yield remove
    remove()


@pytest.mark.usefixtures("sines_are_cosines")
def test_a_stage_from_outside_runs_behind_every_door():
    net = sym.sin(sym.Variable("x"), name="wave")
    x = jnp.asarray([0.3, 0.7])
    expected = np.cos(np.asarray(x))
    outputs = [
        evaluated(lowering.to_jax(net), {"x": x})[0][0],
        lowering.compile(net)({"x": x})[0][0],
        evaluated(lowering.grad_fn(net), {"x": x}, head_grads=[x])[0][0],
        lowering.differentiable(net)({"x": x})[0][0],
        lowering.bind(net, args={"x": x}).forward()[0],
    ]
    for output in outputs:
        np.testing.assert_allclose(output, expected, rtol=1e-6)
    gradient = evaluated(lowering.grad_fn(net), {"x": x}, head_grads=[jnp.ones(2)])[1]["x"]
    np.testing.assert_allclose(gradient, -np.sin(np.asarray(x)), rtol=1e-6)
    assert "SinToCos" in str(lowering.explain(net))


def test_a_stage_from_outside_leaves_no_trace(sines_are_cosines: Callable[[], None]):
    assert [stage.name for stage in pipeline.stages()][1:4] == ["QuantizeGraph", "SinToCos", "SimplifyInference"]
    net = sym.sin(sym.Variable("x"))
    x = jnp.asarray([0.3])
    with_it = lowering.compile(net)
    np.testing.assert_allclose(with_it({"x": x})[0][0], np.cos(x), rtol=1e-6)
    with pipeline.without("SinToCos"):
        np.testing.assert_allclose(evaluated(lowering.to_jax(net), {"x": x})[0][0], np.sin(x), rtol=1e-6)
    sines_are_cosines()
    assert pipeline.stages() == STAGES
    np.testing.assert_allclose(evaluated(lowering.to_jax(net), {"x": x})[0][0], np.sin(x), rtol=1e-6)
    np.testing.assert_allclose(with_it({"x": x})[0][0], np.cos(x), rtol=1e-6)  # it was made before
    with pytest.raises(PassError, match="SinToCos"):
        pipeline.without("SinToCos").__enter__()


@pytest.mark.usefixtures("sines_are_cosines")
def test_a_stage_from_outside_runs_inside_loops():
    net, _ = sym.contrib.foreach(lambda x, s: (sym.sin(x) + s, s), sym.Variable("x"), sym.Variable("s"))
    x = np.linspace(0, 1, 6, dtype=np.float32).reshape(3, 2)
    (found,), _ = evaluated(lowering.to_jax(net), {"x": x, "s": np.zeros(2, np.float32)})
    np.testing.assert_allclose(found, np.cos(x), rtol=1e-6)


@pytest.mark.usefixtures("sines_are_cosines")
def test_places_and_names_of_stages_are_told():
    (stage,) = set(pipeline.stages()) - set(STAGES)
    with pytest.raises(PassError, match="a stage 'SinToCos' already.*register returned"):
        pipeline.register(stage, after="MXGradient")
    other = Stage("Other", "nothing", lambda graph, _: graph)
    for place in ({}, {"before": "MXGradient", "after": "MXGradient"}):
        with pytest.raises(PassError, match="before= or after="):
            pipeline.register(other, **place)
    with pytest.raises(PassError, match="'MXGradients'.*MXGradient"):
        pipeline.register(other, after="MXGradients")


def test_executors_of_other_shapes_are_inferred_anew():
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=2, no_bias=True, name="fc")
    executor = lowering.simple_bind(net, data=(2, 3))
    other = executor.reshape(allow_up_sizing=True, data=(5, 3))
    for bound, rows in ((executor, 2), (other, 5), (executor, 2)):
        bound.forward(is_train=True)
        bound.backward([jnp.ones((rows, 2))])
        assert bound.outputs[0].shape == (rows, 2)
        assert bound.grad_dict["data"].shape == (rows, 3)


def test_keys_do_not_depend_on_the_door():
    net = sym.Dropout(sym.Variable("x"), p=0.5, name="drop")
    x, key = jnp.ones(64), jax.random.key(3)
    alone = evaluated(lowering.to_jax(net, is_train=True), {"x": x}, key=key)[0][0]
    np.testing.assert_array_equal(alone, evaluated(lowering.grad_fn(net), {"x": x}, key=key, head_grads=[x])[0][0])


@pytest.mark.parametrize(
    ("run", "kind", "words"),
    [
        (lambda graph, options: Graph(graph.outputs[:0]), PassError, "'Wrong' failed; expected a Graph with 1 outputs"),
        (lambda graph, options: None, PassError, "'Wrong' failed; expected a Graph with 1 outputs; got NoneType"),
    ],
)
def test_what_a_registered_stage_returns_is_checked(run: Any, kind: type[Exception], words: str):
    remove = pipeline.register(Stage("Wrong", "", run), after="FoldScaleAxis")
    try:
        with pytest.raises(kind, match=words):
            lowering.to_jax(sym.Variable("x") * 2)
    finally:
        remove()


@pytest.mark.parametrize(
    ("outputs", "kind", "words"),
    [
        (lambda outputs: None, PassError, "'Wrong' failed; expected a Graph with 2 outputs; got NoneType"),
        (lambda outputs: outputs[:1], PassError, "'Wrong' failed; expected a Graph with 2 outputs; got 1"),
        (
            lambda outputs: [sym.Variable("stranger").outputs[0]] * 2,
            GraphError,
            "'Wrong': .*'stranger', which no input",
        ),
    ],
)
def test_what_a_registered_stage_returns_for_a_body_is_checked(outputs: Any, kind: type[Exception], words: str):
    net, _ = sym.contrib.foreach(lambda x, s: (x * s, s), sym.Variable("x"), sym.Variable("s"))

    def run(graph: Graph, options: Options) -> Any:
        if len(graph.outputs) == 1:
            return graph
        other = outputs(graph.outputs)
        return other if other is None else Graph(other)

    remove = pipeline.register(Stage("Wrong", "", run), after="FoldScaleAxis")
    try:
        with pytest.raises(kind, match=words):
            lowering.to_jax(net)
    finally:
        remove()


def test_an_exception_of_a_registered_stage_names_it():
    def run(graph: Graph, options: Options) -> Graph:
        raise KeyError("x")

    remove = pipeline.register(Stage("Raises", "", run), after="FoldScaleAxis")
    try:
        with pytest.raises(KeyError) as error:
            lowering.to_jax(sym.contrib.foreach(lambda x, s: (x * s, s), sym.Variable("x"), sym.Variable("s"))[0])
    finally:
        remove()
    assert error.value.__notes__ == ["Raised in the registered stage 'Raises'."]
    with pytest.raises(PassError, match="takes a symjax_nnvm.pipeline.Stage; got str"):
        pipeline.register("Raises", after="FoldScaleAxis")  # pyright: ignore[reportArgumentType]


def test_convolutions_of_one_name_and_of_none_are_told_apart():
    x = sym.Variable("x")
    for _ in range(2):
        x = sym.Convolution(x, num_filter=4, kernel=(3, 3), name="c")
    assert list(lowering.explain(x, x=(1, 4, 9, 9)).algorithms) == ["c", "c (2)"]


def test_explain_refuses_constants_that_are_not_there_and_takes_one_name():
    net = sym.Convolution(sym.Variable("x"), num_filter=4, kernel=(3, 3), name="c")
    with pytest.raises(ValueError, match="No such constants: .*'zzz'"):
        lowering.explain(net, constants=["zzz"])
    plain, listed = (str(lowering.explain(net, constants=given)) for given in ("c_weight", ["c_weight"]))
    assert [line.split()[0] for line in plain.splitlines()] == [line.split()[0] for line in listed.splitlines()]
    assert "left out" in str(lowering.explain(net, without="FoldScaleAxis"))
