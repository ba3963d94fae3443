"""Each thing that must hold of a graph is broken once, and `check_graph` finds it."""

import pytest

from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import GraphError
from symjax_nnvm.ir.attributes import FGradient
from symjax_nnvm.ir.check_graph import check_graph, graph_faults
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.pass_registry import apply_pass, checking_passes, register_pass
from symjax_nnvm.symbol import Symbol
from tests.support.ladder import all_cases, build, wrt


def _network() -> Symbol:
    net = sym.BatchNorm(sym.FullyConnected(sym.Variable("data"), num_hidden=4, name="fc"), name="bn")
    return sym.Activation(net, act_type="relu", name="relu")


def _node(symbol: Symbol, name: str) -> Node:
    return next(entry.node for entry in symbol.get_internals().outputs if entry.node.name == name)


def test_a_sound_graph_and_its_gradient_have_no_faults():
    net = _network()
    assert list(graph_faults(net.outputs)) == []
    assert list(graph_faults(net.gradient(["fc_weight"]).outputs)) == []


@pytest.mark.slow("has many cases")
def test_every_case_and_its_gradient_are_sound():
    """One case of each operator: what is composed, and what MXGradient makes of it."""
    once = {case.op: case for _, case in all_cases()}
    for case in once.values():
        symbol = build(case)
        check_graph(symbol.outputs)
        names = wrt(case, symbol)
        if names and symbol.outputs[0].node.op in FGradient:
            check_graph(symbol.gradient(names).outputs)


def _cycle(net: Symbol) -> None:
    _node(net, "fc").inputs[0] = NodeEntry(_node(net, "relu"))


def _output_out_of_range(net: Symbol) -> None:
    _node(net, "relu").inputs[0] = NodeEntry(_node(net, "bn"), 7)


def _head_out_of_range(net: Symbol) -> None:
    net.outputs[0] = NodeEntry(_node(net, "relu"), 1)


def _missing_input(net: Symbol) -> None:
    del _node(net, "fc").inputs[2]


def _stale_parameters(net: Symbol) -> None:
    _node(net, "fc").attrs.dict["num_hidden"] = "5"


def _malformed_parameters(net: Symbol) -> None:
    _node(net, "fc").attrs.dict["num_hidden"] = "many"


def _version_of_an_operator(net: Symbol) -> None:
    _node(net, "relu").inputs[0] = NodeEntry(_node(net, "bn"), 0, 3)


def _version_past_the_counter(net: Symbol) -> None:
    bn = _node(net, "bn")
    bn.inputs[3] = bn.inputs[3]._replace(version=9)


def _written_twice(net: Symbol) -> None:
    again = _node(net, "bn").copy()
    again.attrs.name = "again"
    net.outputs.append(NodeEntry(again))


def _writes_a_result(net: Symbol) -> None:
    _node(net, "bn").inputs[3] = NodeEntry(_node(net, "fc"))


def _dangling_control_dependency(net: Symbol) -> None:
    _node(net, "relu").control_deps = [None]  # type: ignore[list-item]  # the fault


def _variable_with_inputs(net: Symbol) -> None:
    _node(net, "data").inputs = [NodeEntry(sym.Variable("x").outputs[0].node)]


def _superseding_nothing(net: Symbol) -> None:
    inputs = [NodeEntry(sym.Variable(name).outputs[0].node) for name in ("data", "parameters", "state", "cell")]
    net.outputs.append(apply("_backward_RNN_forward", *inputs, state_size=2, num_layers=1, mode="lstm"))


@pytest.mark.parametrize(
    ("break_it", "found"),
    [
        (_cycle, "'fc' depends on itself through node 'relu'"),
        (_output_out_of_range, "reads output 7 of node 'bn', which has 3"),
        (_head_out_of_range, "head 0 reads output 1 of node 'relu', which has 1"),
        (_missing_input, r"'fc' \(FullyConnected\) has 2 inputs but takes 3"),
        (_stale_parameters, "num_hidden=4.* but its text says .*num_hidden=5"),
        (_malformed_parameters, "many"),
        (_version_of_an_operator, "reads version 3 of node 'bn', which is not a variable"),
        (_version_past_the_counter, "reads version 9 of variable 'bn_moving_mean', which counts 1"),
        (_written_twice, "version 1 of 'bn_moving_mean' is written by nodes 'bn' and 'again'"),
        (_writes_a_result, "'bn' writes its input 3, which is node 'fc' and not a variable"),
        (_dangling_control_dependency, "'relu' has a control dependency that is not a node"),
        (_variable_with_inputs, "variable 'data' has inputs"),
        (_superseding_nothing, "supersedes a node but has no control dependency"),
    ],
    ids=lambda value: value.__name__.strip("_") if callable(value) else "",
)
def test_a_seeded_fault_is_found(break_it, found: str):
    net = _network()
    break_it(net)
    with pytest.raises(GraphError, match=found):
        check_graph(net.outputs)


def test_a_fault_inside_a_subgraph_is_found():
    data = sym.Variable("data")
    outputs, _ = sym.contrib.foreach(lambda x, s: (x + s, s + 1), data, sym.Variable("state"))
    loop = outputs.outputs[0].node
    add = next(n.node for n in loop.attrs.subgraphs[0].outputs if n.node.op is not None)
    del add.inputs[-1]
    with pytest.raises(GraphError, match="inputs but takes"):
        check_graph(outputs.outputs)


def test_a_pass_that_breaks_a_graph_is_named():
    @register_pass("_test_breaks", change_graph=True)
    def breaks(graph: Graph) -> Graph:
        relu = graph.outputs[0].node.copy()
        relu.inputs = []
        return graph.derive([NodeEntry(relu)])

    graph = Graph(_network().outputs)
    with checking_passes(False):
        apply_pass(graph, "_test_breaks")
    with pytest.raises(GraphError, match="After pass _test_breaks: .*'relu'"):
        apply_pass(graph, "_test_breaks")
