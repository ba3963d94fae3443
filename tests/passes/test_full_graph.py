import pytest

from symjax_nnvm import Graph, apply_pass
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import PassError
from symjax_nnvm.ir.node import NodeEntry, apply, create_variable_node
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.passes.gradient.full_graph import LONGEST_SUM, aggregate_gradient, init_full_graph
from symjax_nnvm.symbol import Symbol

x, y = sym.Variable("x"), sym.Variable("y")


def full(symbol: Symbol, *wrt: str, **options) -> Graph:
    by_name = {node.name: node for node in symbol.list_input_nodes("read_only")}
    return init_full_graph(Graph(symbol.outputs), [NodeEntry(by_name[name]) for name in wrt], **options)


def test_outputs_come_first_and_gradients_follow_the_arguments() -> None:
    graph = full(sym.Group([sym.elemwise_mul(x, y, name="m"), sym.exp(x, name="e")]), "y", "x")
    assert [entry.node.name for entry in graph.outputs] == ["m", "e", "m_backward", "sum_grad"]
    assert graph.attrs["num_forward_outputs"] == 2
    assert [head.name for head in graph.attrs["head_grads"]] == ["_head_grad_0", "_head_grad_1"]


def test_head_gradients_are_read_through_an_identity_of_the_shape_of_the_output() -> None:
    graph = full(sym.elemwise_mul(x, y, name="m"), "x")
    (identity,) = [node for node in post_order(graph.outputs) if node.name == "_head_grad_0_id"]
    assert identity.op is not None
    assert identity.op.name == "_identity_with_attr_like_rhs"
    assert [entry.node.name for entry in identity.inputs] == ["_head_grad_0", "m"]


def test_without_arguments_there_are_no_gradients() -> None:
    graph = full(sym.exp(x, name="e"))
    assert [entry.node.name for entry in graph.outputs] == ["e"]
    assert graph.attrs["head_grads"] == []


def test_a_gradient_of_several_arguments_is_copied() -> None:
    graph = full(sym.elemwise_add(x, y), "x", "y")
    assert [entry.node.name for entry in graph.outputs[1:]] == ["_head_grad_0_id", "_head_grad_0_id_1_copy"]


def test_deviation_gradients_are_those_of_the_merged_outputs() -> None:
    graph = full(sym.exp(x, name="a") * sym.exp(x, name="b"), "x")
    assert [node.name for node in post_order(graph.outputs) if node.op and node.op.name == "exp"] == ["a"]


def test_mirrored_nodes_are_computed_again_for_the_gradient() -> None:
    graph = full(sym.exp(sym.tanh(x, name="t"), name="e"), "x", mirror=lambda node: node.name == "t")
    assert "t_mirror" in [node.name for node in post_order(graph.outputs)]


def test_arguments_that_no_gradient_reaches_get_zeros_of_their_shape() -> None:
    zeros = full(sym.BlockGrad(x), "x").outputs[1].node
    assert zeros.op is not None
    assert (zeros.op.name, zeros.inputs[0].node.name) == ("zeros_like", "x")


def test_the_pass_needs_to_know_the_arguments() -> None:
    with pytest.raises(PassError, match="Graph attr dependency grad_xs is required by pass InitFullGraph"):
        apply_pass(Graph(x.outputs), "InitFullGraph")


# -- aggregation -------------------------------------------------------------------------------------------------------


def gradients(count: int) -> list[NodeEntry]:
    return [NodeEntry(create_variable_node(f"g{i}")) for i in range(count)]


def test_no_gradient_is_zeros_and_one_is_itself() -> None:
    assert aggregate_gradient([]).node.name == "zeros_without_dtype"
    (gradient,) = gradients(1)
    assert aggregate_gradient([gradient]) is gradient


def test_zeros_are_left_out_of_a_sum_but_for_the_last() -> None:
    zeros = [apply("_zeros", name=f"z{i}") for i in range(2)]
    gradient = gradients(1)
    assert aggregate_gradient([*zeros, *gradient]) is gradient[0]
    assert aggregate_gradient(zeros) is zeros[0]


def test_a_few_gradients_are_added_at_once() -> None:
    total = aggregate_gradient(gradients(LONGEST_SUM)).node
    assert total.op is not None
    assert (total.op.name, total.name, total.attrs.dict) == ("add_n", "sum_grad", {"num_args": str(LONGEST_SUM)})


def test_many_gradients_are_added_one_by_one() -> None:
    total = aggregate_gradient(gradients(LONGEST_SUM + 1))
    names = [node.name for node in post_order([total]) if node.op]
    assert names == [*(f"sum_grad_{i}" for i in range(1, LONGEST_SUM + 1)), "sum_grad_final"]


def test_deviation_one_gradient_among_many_several_times_closes_no_cycle() -> None:
    total = x
    for i in range(4):
        total = total + sym.tanh(x * (i + 1)) + x
    assert full(total, "x").indexed_graph().num_nodes > 0
