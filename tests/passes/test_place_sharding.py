"""`__sharding__` and PlaceSharding: what the attribute may say, where constraints go, what errors name."""

import re
from collections import Counter

import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import CallError, InferenceError, ParamError, PassError
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.sharding import axes_text, mesh_axes
from symjax_nnvm.passes.alter_op_layout import alter_op_layout
from symjax_nnvm.passes.place_sharding import place_sharding
from symjax_nnvm.pipeline import Options, Pipeline

CONSTRAINT = "_sharding_constraint"


class OfAxes:
    """What the pipeline asks of a mesh."""

    def __init__(self, *names: str):
        self.axis_names = names
        self.size = 4


def split(text: str) -> dict[str, str]:
    return {"__sharding__": text}


def constraints(graph: Graph) -> list[tuple[str, str]]:
    """(name, spec) of each constraint, sorted."""
    nodes = (node for node in graph.nodes() if node.op is not None and node.op.name == CONSTRAINT)
    return sorted((node.name, node.attrs.parsed.spec) for node in nodes)


@pytest.mark.parametrize(
    ("text", "axes"),
    [
        ("model, None", ("model", None)),
        ("None", (None,)),
        ("data,", ("data",)),
        ("(data, model), None", (("data", "model"), None)),
        (" 'data' , \"model\" ", ("data", "model")),
        ("None, (a,), b_2", (None, ("a",), "b_2")),
    ],
)
def test_axes_are_read_and_written(text, axes):
    assert mesh_axes(text) == axes
    assert mesh_axes(axes_text(axes)) == axes


@pytest.mark.parametrize(
    "text", ["", ",", "data model", "data,,model", "(data", "data)", "(a, (b, c))", "2x", "()", "(None, a)", "a, b,,"]
)
def test_what_names_no_axes_is_refused(text):
    with pytest.raises(ParamError, match=re.escape(repr(text))):
        mesh_axes(text)


def test_an_axis_splits_one_axis_only():
    with pytest.raises(ParamError, match="splits two axes over data"):
        mesh_axes("data, (model, data)")


def dense() -> sym.Symbol:
    weight = sym.Variable("w", attr=split("model, None"))
    net = sym.FullyConnected(sym.Variable("data"), weight=weight, num_hidden=4, name="fc", attr=split("data, model"))
    return sym.LinearRegressionOutput(sym.tanh(net, name="act"), name="out")


def test_readers_read_through_a_constraint_of_the_same_name():
    graph = Graph(dense().outputs)
    assert constraints(place_sharding(graph, ("data", "model"))) == [("fc", "data, model"), ("w", "model, None")]
    assert constraints(graph) == []


def test_a_graph_that_says_nothing_is_itself():
    graph = Graph(sym.tanh(sym.Variable("x")).outputs)
    assert place_sharding(graph, ("data",)) is graph


def test_a_constrained_output_keeps_its_name():
    net = sym.tanh(sym.Variable("x"), name="t", attr=split("data"))
    assert sym.Symbol(place_sharding(Graph(net.outputs), ("data",)).outputs).list_outputs() == ["t_output"]


def test_gradients_are_split_like_what_they_are_gradients_of():
    options = Options(is_train=True, wrt=("w", "data"), mesh=OfAxes("data", "model"))
    found = Counter(spec for _, spec in constraints(Pipeline(dense().outputs).plan(options).graph))
    assert found == {"data, model": 2, "model, None": 2}


def test_without_a_mesh_the_attribute_means_nothing():
    for options in (Options(is_train=True, wrt=("w",)), Options()):
        assert constraints(Pipeline(dense().outputs).plan(options).graph) == []


def test_parameters_that_are_made_for_an_operator_do_not_inherit_it():
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=4, name="fc", attr=split("data") | {"__other__": "1"})
    assert net.attr_dict()["fc_weight"] == {"num_hidden": "4", "__other__": "1"}


def test_a_scope_and_a_file_keep_it():
    with sym.AttrScope(__sharding__="model, None"):
        weight = sym.Variable("w")
    again = sym.load_json(sym.dot(sym.Variable("x"), weight, name="d").tojson())
    assert again.attr_dict()["w"] == split("model, None")


def test_states_are_written_as_they_are():
    mean = sym.Variable("mean", attr=split("model"))
    net = sym.BatchNorm(sym.Variable("data"), moving_mean=mean, name="bn", attr=split("data"))
    assert constraints(place_sharding(Graph(net.outputs), ("data", "model"))) == [("bn", "data")]


def test_channels_last_the_axes_follow():
    net = sym.Convolution(sym.Variable("data"), kernel=(3, 3), num_filter=4, name="c", attr=split("data, model"))
    placed = alter_op_layout(place_sharding(Graph(sym.relu(net).outputs), ("data", "model")))
    assert constraints(placed) == [("c", "data, None, None, model")]


def test_scales_are_folded_through_it():
    net = sym.Convolution(sym.Variable("data"), kernel=(1, 1), num_filter=4, name="c", attr=split("data"))
    net = sym.BatchNorm(net, fix_gamma=False, name="bn")
    constants = frozenset(net.list_inputs()) - {"data"}
    plan = Pipeline(net.outputs).plan(Options(constants=constants, mesh=OfAxes("data")))
    assert "_scale_shift" not in {node.op.name for node in plan.graph.nodes() if node.op}


def test_axes_that_the_mesh_does_not_have_are_told_with_the_node():
    with pytest.raises(PassError, match="names axes that the mesh does not have") as error:
        place_sharding(Graph(dense().outputs), ("data", "modell"))
    assert "model" in str(error.value)
    assert "'modell'" in str(error.value)
    with pytest.raises(PassError, match=r"jax\.make_mesh\(\(jax\.device_count\(\), 1\), \('data', 'model'\)\)"):
        place_sharding(Graph(dense().outputs), ("data",))


def test_what_is_no_sharding_is_told_with_the_node():
    net = sym.tanh(sym.Variable("x"), name="odd", attr=split("data model"))
    with pytest.raises(PassError, match="odd"):
        place_sharding(Graph(net.outputs), ("data",))


def test_more_axes_than_the_array_has_are_told_with_the_node():
    net = sym.FullyConnected(sym.Variable("x"), num_hidden=2, name="fc", attr=split("None, None, data"))
    placed = sym.Symbol(place_sharding(Graph(net.outputs), ("data",)).outputs)
    with pytest.raises(InferenceError, match="about more axes than the array has") as error:
        placed.infer_shape(x=(2, 3))
    assert "fc" in str(error.value)


def test_on_one_device_numbers_stay():
    net = sym.tanh(sym.Variable("x"), name="t", attr=split("data"))
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    (out,), _ = lowering.to_jax(net)({"x": x})
    np.testing.assert_allclose(out, np.tanh(x), rtol=1e-6)


def test_no_mesh_is_told():
    with pytest.raises(CallError, match="make_mesh"):
        lowering.to_jax(dense(), mesh="data")
