"""ChooseAlgorithm: the plan says what computes each convolution, and that is what computes it."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
import pytest

import lowering
from lowering.convolutions import directions, pointwise
from lowering.convolutions.backends import Backend, onednn
from lowering.core.cache import Programs
from lowering.ops.nn import convolution as rules
from symjax_nnvm import pipeline
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import LoweringError
from symjax_nnvm.ir.attributes import FAlgorithm
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.passes.choose_algorithm import choose_algorithm
from symjax_nnvm.passes.subgraphs import Known
from symjax_nnvm.pipeline import Options, Stage, register

RNG = np.random.default_rng(8)


def layer(x: Any, filters: int, kernel: int, **parameters: Any) -> sym.Symbol:
    pad = (kernel // 2,) * 2
    return sym.Convolution(x, num_filter=filters, kernel=(kernel,) * 2, pad=pad, no_bias=True, **parameters)


def branches() -> sym.Symbol:
    """Convolutions of every kind: dense, strided, pointwise, depth-wise, in large groups, turned round."""
    x = layer(sym.Variable("data"), 32, 3, name="dense")
    x = layer(x, 64, 3, stride=(2, 2), name="strided")
    x = layer(x, 64, 1, name="pointwise")
    x = layer(x, 64, 3, num_group=64, name="depthwise")
    x = layer(x, 64, 3, num_group=2, name="grouped")
    x = sym.Deconvolution(x, num_filter=32, kernel=(2, 2), stride=(2, 2), name="turned")
    x = sym.UpSampling(x, sym.Variable("filter"), scale=2, num_filter=32, sample_type="bilinear", name="up")
    return sym.make_loss(sym.sum(x))


SHAPES: dict[str, Any] = {"data": (2, 8, 16, 16), "filter": (32, 1, 4, 4)}
DIRECTIONS = ("data_gradient", "weight_gradient", "forward")


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """How often each algorithm is called for, by a rule with channels last or one with channels first."""
    found: Counter[str] = Counter()
    with monkeypatch.context() as patch:
        for name in DIRECTIONS:
            last, first = getattr(directions, name), getattr(pointwise, name)

            def by_name(*given: Any, of: Any = last) -> Any:
                found[given[3]] += 1
                return of(*given)

            def product(*given: Any, of: Any = first) -> Any:
                found["product"] += 1
                return of(*given)

            patch.setattr(directions, name, by_name)
            patch.setattr(pointwise, name, product)
        by_rows = rules.by_rows

        def rows(*given: Any) -> Any:
            found["rows"] += 1
            return by_rows(*given)

        patch.setattr(rules, "by_rows", rows)
        yield found


@pytest.mark.parametrize("without", [(), ("AlterOpLayout",)], ids=["channels last", "channels first"])
def test_what_the_plan_says_is_what_runs(monkeypatch: pytest.MonkeyPatch, without: tuple[str, ...]):
    net = branches()
    told = lowering.explain(net, is_train=True, wrt=net.list_arguments(), without=without, **SHAPES)
    operators = [node for node in told.plan.graph.nodes() if node.op in FAlgorithm]
    assert told.algorithms.keys() == {node.name for node in operators}
    assert len(operators) > 3 * 5
    shapes = net.infer_shape(**SHAPES)[0]
    args = {
        name: RNG.standard_normal(s).astype(np.float32) for name, s in zip(net.list_arguments(), shapes, strict=True)
    }
    with counted(monkeypatch) as found, pipeline.without(*without):
        jax.make_jaxpr(lambda args: lowering.grad_fn(net)(args, {}))(args)
    planned = Counter(told.algorithms.values())
    assert len(planned) > 3
    for name in ("xla", "shifts"):  # with channels first these are called by no name
        del planned[name], found[name]
    assert found == planned


def test_a_rule_does_what_the_plan_says():
    net = layer(sym.Variable("data"), 16, 3, name="conv")
    args = {"data": RNG.standard_normal((2, 16, 8, 8), np.float32), "conv_weight": np.ones((16, 16, 3, 3), np.float32)}

    def overrule(graph: Graph, options: Options) -> Graph:
        return graph.derive(attrs={**graph.attrs, "algorithm": dict.fromkeys(graph.nodes(), "no such algorithm")})

    expected = lowering.to_jax(net)(args)
    remove = register(Stage("Overrule", "another algorithm", overrule), after="ChooseAlgorithm")
    try:
        with pytest.raises(LoweringError, match="no such algorithm"):
            lowering.to_jax(net)(args)
    finally:
        remove()
    np.testing.assert_array_equal(lowering.to_jax(net)(args)[0][0], expected[0][0])


@pytest.mark.nightly("compiles")
def test_without_the_stage_all_is_left_to_xla(monkeypatch: pytest.MonkeyPatch):
    net = branches()
    shapes = net.infer_shape(**SHAPES)[0]
    args = {n: RNG.standard_normal(s).astype(np.float32) for n, s in zip(net.list_arguments(), shapes, strict=True)}
    expected = lowering.to_jax(net)(args)[0][0]
    with counted(monkeypatch) as found, pipeline.without("ChooseAlgorithm"):
        got = lowering.to_jax(net)(args)[0][0]
    assert set(found) <= {"xla"}
    np.testing.assert_allclose(got, expected, rtol=1e-4)


def test_bodies_of_loops_and_their_gradients_are_named():
    def body(item: sym.Symbol, state: sym.Symbol):
        return layer(item, 16, 3, weight=sym.Variable("w"), name="inner"), state

    loop = sym.contrib.foreach(body, sym.Variable("data"), [sym.Variable("s")])[0]
    shapes: dict[str, Any] = {"data": (4, 2, 16, 28, 28), "s": (1,), "w": (16, 16, 3, 3)}
    told = lowering.explain(loop, is_train=True, wrt=["w", "data"], **shapes)
    assert len(told.algorithms) == 3
    assert "_backward_channels_last_convolution_weight: 1 " in str(told)
    assert not lowering.explain(loop, is_train=True, wrt=["w"]).algorithms


def test_shapes_that_contradict_each_other_are_told_when_it_is_lowered():
    graph = Graph(branches().outputs)
    known = Known(shapes=(("data", (2, 8, 16, 16)), ("dense_weight", (1, 1, 1, 1))))
    assert choose_algorithm(graph, Backend("cpu"), known).attrs["algorithm"] == {}


@pytest.mark.skipif(onednn.why_not() is not None, reason="jaxlib has no oneDNN on this platform")
def test_a_library_is_asked_only_where_it_may_be_called():
    net = layer(sym.Variable("data"), 64, 3, name="conv")
    shapes = (("data", (8, 64, 56, 56)), ("conv_weight", (64, 64, 3, 3)))
    programs = Programs(net)

    def named(options: Options) -> set[str]:
        return set(programs.plan(options).graph.attrs["algorithm"].values())

    assert named(Options(platform="cpu", shapes=shapes)) == {"library"}
    assert "library" not in named(Options(platform="cpu", shapes=shapes, witness=True))
    assert named(Options(platform="gpu", shapes=shapes)) == {"xla"}
