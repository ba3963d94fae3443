"""InferShape, InferType and their MXNet variants: what is inferred, in which direction, and how conflicts read."""

import pytest

from symjax_nnvm import graph as graph_api
from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.attributes import FGradient
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, NodeEntry, apply, create_variable_node
from symjax_nnvm.ir.pass_registry import apply_pass
from symjax_nnvm.ir.types import DTypeList, ShapeList
from symjax_nnvm.passes.infer import infer_shape, infer_type
from symjax_nnvm.symbol.symbol import Symbol
from symjax_nnvm.symbol.variable import Group, Variable
from tests.support.pass_toys import PREFIX, toy


def shape_of(graph: Graph, name: str, output: int = 0):
    return graph.attrs["shape"][graph.indexed_graph().entry_id(name, output)]


def graph_of(symbol: Symbol) -> Graph:
    return Graph(symbol.outputs)


def test_shapes_flow_forward_and_into_parameters():
    net = toy("relu", toy("dense", Variable("x"), node="fc", num_hidden=4), node="out")
    graph = infer_shape(graph_of(net), shapes={"x": (2, 3)})
    assert [shape_of(graph, n) for n in ("fc_weight", "fc_bias", "fc", "out")] == [(4, 3), (4,), (2, 4), (2, 4)]
    assert graph.attrs["shape_num_unknown_nodes"] == 0
    assert "shape_inputs" not in graph.attrs


def test_shapes_flow_backward_through_a_chain():
    x = Variable("x")
    net = toy("add", toy("relu", toy("relu", x, node="a"), node="b"), Variable("y", shape=(2, 3)))
    assert shape_of(infer_shape(graph_of(net)), "x") == (2, 3)


def test_partially_known_shapes_complete_each_other():
    net = toy("add", Variable("x"), Variable("y"))
    graph = infer_shape(graph_of(net), shapes={"x": (2, None), "y": (None, 3)})
    assert shape_of(graph, "x") == shape_of(graph, "y") == (2, 3)
    assert net.infer_shape(x=(2, 0), y=(0, 3)) == ([(2, 3), (2, 3)], [(2, 3)], [])


def test_what_is_learnt_late_still_reaches_every_node():
    # Chains joined out of order: information must travel to and fro several times.
    xs = [Variable(f"x{i}") for i in range(40)]
    order = sorted(range(39), key=lambda i: (i * 17) % 39)
    net = Group([toy("add", xs[i], xs[i + 1], node=f"a{i}") for i in order])
    assert set(infer_shape(graph_of(net), shapes={"x7": (5,)}).attrs["shape"]) == {(5,)}


def test_unknown_entries_are_counted_as_entries_by_nnvm_and_as_dimensions_by_mxnet():
    graph = graph_of(toy("relu", Variable("x")))
    graph.attrs["shape_inputs"] = ShapeList([(None, None, 3)])
    assert apply_pass(graph, "InferShape").attrs["shape_num_unknown_nodes"] == 2
    assert apply_pass(graph, "MXInferShape").attrs["shape_num_unknown_nodes"] == 4
    graph.attrs["shape_inputs"] = ShapeList()
    assert apply_pass(graph, "MXInferShape").attrs["shape_num_unknown_nodes"] == 2


def test_nnvm_passes_consume_their_inputs_and_mxnet_keeps_the_shapes():
    graph = graph_of(toy("relu", Variable("x")))
    graph.attrs |= {"shape_inputs": ShapeList([(2,)]), "shape_attr_key": "shape"}
    assert set(apply_pass(graph, "InferShape").attrs) == {"shape", "shape_num_unknown_nodes"}
    assert set(apply_pass(graph, "MXInferShape").attrs) == {"shape", "shape_num_unknown_nodes", "shape_inputs"}


def test_nnvm_does_not_ask_operators_whose_shapes_are_known_and_mxnet_does():
    graph = graph_of(toy("add", Variable("x"), Variable("y")))
    graph.attrs["shape"] = ShapeList([(2,), (3,), (2,)])
    assert apply_pass(graph, "InferShape").attrs["shape"] == [(2,), (3,), (2,)]
    with pytest.raises(InferenceError, match="Shape inconsistent"):
        apply_pass(graph, "MXInferShape")


def test_hints_count_as_known_and_foreign_ones_are_ignored():
    net = toy("relu", Variable("x"))
    graph = graph_of(net)
    graph.attrs["shape_hints"] = {net.outputs[0]: (7,), NodeEntry(create_variable_node("other")): (1,)}
    assert shape_of(apply_pass(graph, "MXInferShape"), "x") == (7,)
    graph.attrs["shape_inputs"] = ShapeList([(8,)])
    with pytest.raises(InferenceError, match="Shape inconsistent"):
        apply_pass(graph, "MXInferShape")


def test_declared_shape_is_found_under_the_key_and_its_hidden_spelling():
    graph = graph_api.create(toy("relu", Variable("x", shape=(4, 2))))
    assert shape_of(graph.apply("InferShape"), "relu") == (4, 2)
    assert shape_of(graph.apply("MXInferShape"), "relu") is None
    graph._set_json_attr("shape_attr_key", "__shape__")
    assert shape_of(graph.apply("MXInferShape"), "relu") == (4, 2)


def test_given_shape_overrides_declared_shape():
    assert toy("relu", Variable("x", shape=(4, 2))).infer_shape(x=(3, 3))[1] == [(3, 3)]


def test_partially_known_given_shape_is_merged_with_the_declared_one():
    net = toy("relu", Variable("x", shape=(2, 3)))
    assert net.infer_shape(x=(0, 3))[1] == [(2, 3)]
    with pytest.raises(InferenceError, match=r"variable x.*Shape inconsistent, Provided = \[\?,5\].*declares"):
        net.infer_shape(x=(0, 5))


@pytest.mark.parametrize(
    ("declared", "classic", "numpy"), [((0, 3), (None, 3), (0, 3)), ((-1, 3), (None, 3), (None, 3)), ((), None, ())]
)
def test_declarations_of_either_convention(declared: tuple[int, ...], classic: object, numpy: object):
    graph = graph_of(Variable("x", shape=declared))
    assert shape_of(infer_shape(graph), "x") == classic
    graph.attrs["numpy_shapes"] = True
    inferred = infer_shape(graph)
    assert shape_of(inferred, "x") == numpy
    assert "numpy_shapes" not in inferred.attrs


def test_malformed_declaration_names_the_variable():
    x = Variable("x", attr={"__shape__": "(2, x)"})
    with pytest.raises(InferenceError, match=r"Invalid attribute __shape__='\(2, x\)'.*node 'x'"):
        toy("relu", x).infer_shape()


def test_too_many_shapes():
    graph = graph_of(toy("relu", Variable("x")))
    with pytest.raises(InferenceError, match=r"More provided shapes than number of arguments.*at most 1.*got 2"):
        infer_shape(graph, shapes=[(1,), (2,)])


def test_shape_of_an_unknown_variable():
    with pytest.raises(InferenceError, match=r"InferShapeKeyword argument name z not found.\n.*\n\t\[0\]x"):
        infer_shape(graph_of(toy("relu", Variable("x"))), shapes={"z": (1,)})


def test_conflict_names_operator_node_input_and_both_shapes():
    net = toy("dense", Variable("x"), Variable("w", shape=(3, 6)), node="fc", num_hidden=3)
    with pytest.raises(InferenceError) as caught:
        net.infer_shape(x=(2, 5))
    message = str(caught.value)
    assert message.startswith(
        "Error in operator fc: Shape inconsistent, Provided = [3,6], inferred shape=(3,5); in operator"
    )
    assert "node 'fc', input 'weight'; expected (3, 5); got (3, 6) from variable 'w'" in message


def test_conflict_in_the_rank():
    with pytest.raises(InferenceError, match=r"input 'rhs'; expected \(2, 3\); got \(2,\) from variable 'y'"):
        toy("add", Variable("x"), Variable("y")).infer_shape(x=(2, 3), y=(2,))


def test_conflict_at_an_output():
    net = toy("add", toy("reshape", Variable("x"), node="r", target="(2, 3)"), Variable("y"))
    graph = graph_of(net)
    graph.attrs["shape_hints"] = {net.outputs[0].node.inputs[0]: (3, 3)}
    with pytest.raises(InferenceError, match=r"operator r: .*node 'r'; expected \(2, 3\); got \(3, 3\) for output 0"):
        apply_pass(graph, "MXInferShape")


def test_same_entry_at_two_inputs():
    x = Variable("x")
    assert toy("add", x, x).infer_shape(x=(2,))[1] == [(2,)]
    with pytest.raises(InferenceError, match="operator scale: "):
        toy("scale", x, x).infer_shape(x=(2,))


def test_error_inside_a_rule_names_operator_and_node():
    net = toy("reshape", Variable("x"), node="r", target="(2, 3)")
    with pytest.raises(InferenceError, match=r"Error in operator r: cannot reshape 8 elements into 6; .*node 'r'"):
        net.infer_shape(x=(2, 4))


def test_rule_of_the_wrong_length_is_an_error():
    with pytest.raises(InferenceError, match="expected 1 inputs and 1 outputs; got 1 proposed"):
        toy("short", Variable("x")).infer_shape(x=(1,))


def test_operator_without_shape_rule_leaves_its_output_unknown():
    net = toy("relu", toy("opaque", Variable("x")))
    with pytest.warns(UserWarning, match="Cannot decide shape"):
        assert net.infer_shape(x=(2,)) == (None, None, None)
    assert net.infer_shape_partial(x=(2,)) == ([(2,)], [()], [])


def test_hidden_outputs_and_auxiliary_states_get_shapes():
    net = toy("norm", Variable("x"), node="bn")
    arguments, outputs, aux = net.infer_shape(x=(2, 3))
    assert (arguments, outputs, aux) == ([(2, 3), (3,), (3,)], [(2, 3)], [(3,), (3,)])
    assert shape_of(infer_shape(graph_of(net), shapes={"x": (2, 3)}), "bn", 2) == (3,)


# -- dtypes ----------------------------------------------------------------------------------------------------------


def test_operator_without_dtype_rule_has_one_dtype():
    net = toy("opaque", toy("opaque", Variable("x"), node="inner"))
    graph = infer_type(graph_of(net), dtypes={"x": "float16"})
    assert graph.attrs["dtype"] == ["float16"] * 3
    assert graph.attrs["dtype_num_unknown_nodes"] == 0


def test_dtypes_flow_backward():
    graph = graph_of(toy("add", Variable("x"), Variable("y", dtype="float64")))
    graph.attrs["dtype_attr_key"] = "__dtype__"
    assert apply_pass(graph, "MXInferType").attrs["dtype"] == ["float64"] * 3


@pytest.mark.parametrize("text", ["2", "float16", " 2 "])
def test_declared_dtype_is_a_code_or_a_name(text):
    net = toy("relu", Variable("x", attr={"__dtype__": text}))
    assert infer_type(graph_of(net)).attrs["dtype"] == ["float16"] * 2


@pytest.mark.parametrize("text", ["99", "complex64", "f4,f4", ""])
def test_malformed_declared_dtype(text):
    net = toy("relu", Variable("x", attr={"__dtype__": text}))
    with pytest.raises(InferenceError, match="Invalid attribute __dtype__"):
        infer_type(graph_of(net))


def test_dtype_conflict_is_worded_as_by_mxnet():
    net = toy("add", Variable("x"), Variable("y"), node="plus")
    with pytest.raises(
        InferenceError,
        match=r"Error in operator plus: Incompatible attr in node plus at 1-th input: expected float32, got float64",
    ):
        infer_type(graph_of(net), dtypes=["float32", "float64"])


def test_dtype_inputs_as_codes():
    graph = graph_api.create(toy("relu", Variable("x")))
    graph._set_json_attr("dtype_inputs", [6], "list_int")
    result = graph.apply("InferType")
    assert result.attrs["dtype"] == DTypeList(["int64", "int64"])
    assert result.json_attr("dtype") == [6, 6]


# -- backward operators without a rule of their own --------------------------------------------------------------------


def scale_with_gradient() -> tuple[Node, Node]:
    x, f, og = (NodeEntry(create_variable_node(name)) for name in ("x", "f", "og"))
    forward = apply(PREFIX + "scale", x, f, name="s").node
    return forward, FGradient[forward.op](forward, [og])[0].node  # type: ignore[index]


def test_backward_operator_takes_shapes_from_its_forward_node():
    forward, backward = scale_with_gradient()
    graph = Graph([NodeEntry(forward), NodeEntry(backward, 0), NodeEntry(backward, 1)])
    result = infer_shape(graph, shapes={"x": (2, 3)})
    assert [shape_of(result, "s_backward", i) for i in (0, 1)] == [(2, 3), (1,)]
    assert shape_of(result, "og") == (2, 3)
    assert set(infer_type(graph, dtypes={"x": "float16"}).attrs["dtype"]) == {"float16"}


def test_backward_operator_learns_what_its_forward_node_learns_late():
    forward, backward = scale_with_gradient()
    relu = apply(PREFIX + "relu", NodeEntry(forward), name="relu")
    late = apply(PREFIX + "add", forward.inputs[0], NodeEntry(create_variable_node("y")), name="late")
    graph = Graph([NodeEntry(backward, 0), relu, late])
    assert shape_of(infer_shape(graph, shapes={"y": (4,)}), "s_backward") == (4,)


def test_backward_shape_inconsistent_with_the_forward():
    forward, backward = scale_with_gradient()
    graph = Graph([NodeEntry(backward, 0)])
    graph.attrs["shape_hints"] = {NodeEntry(backward, 0): (9,), forward.inputs[0]: (2,)}
    with pytest.raises(InferenceError, match=r"Backward shape inconsistent with the forward shape.*node 's_backward'"):
        apply_pass(graph, "MXInferShape")


def test_backward_operator_of_another_operators_gradient():
    _, backward = scale_with_gradient()
    backward.control_deps = [apply(PREFIX + "relu", NodeEntry(create_variable_node("z")), name="wrong").node]
    with pytest.raises(InferenceError, match="Cannot find matching backward op for s_backward"):
        infer_shape(Graph([NodeEntry(backward, 0)]))


# -- size ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("known", ["x", "head"])
def test_a_chain_of_20000_nodes_in_either_direction(known):
    x = NodeEntry(create_variable_node("x"))
    head = x
    for i in range(20_000):
        head = apply(PREFIX + "relu", head, name=f"r{i}")
    graph = Graph([head])
    graph.attrs["shape_hints"] = {x if known == "x" else head: (2, 3)}
    assert set(apply_pass(graph, "MXInferShape").attrs["shape"]) == {(2, 3)}
