"""Mirror plans: which nodes each rule chooses, and what the gradient graph reads of their copies."""

import numpy as np
import pytest

from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import GradientError
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.ir.rules.entry_gradients import shaped_zeros
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.passes.gradient import mx_gradient
from symjax_nnvm.passes.mirror import MirrorPlan, mirror_plan
from symjax_nnvm.passes.mirror.mirror_blocks import block_numbers
from symjax_nnvm.passes.mirror.recompute import Recomputed
from symjax_nnvm.symbol.gradient_call import ones_for_heads


def unit(data: sym.Symbol, name: str) -> sym.Symbol:
    conv = sym.Convolution(data, num_filter=2, kernel=(3, 3), pad=(1, 1), name=f"{name}_conv")
    return sym.relu(sym.BatchNorm(conv, name=f"{name}_bn"), name=f"{name}_relu")


def chosen(net: sym.Symbol, mirror) -> set[str]:
    plan = mirror_plan(net.outputs, mirror)
    return {node.name for node in plan.recomputed} if plan else set()


def gradient_nodes(net: sym.Symbol, plan: MirrorPlan | None) -> list[Node]:
    xs = [NodeEntry(node) for node in net.list_input_nodes("read_only")]
    heads = [head.outputs[0] if isinstance(head, sym.Symbol) else head for head in ones_for_heads(net.outputs)]
    grads = mx_gradient(Graph(net.outputs), net.outputs, xs, heads, attr_hint_fun=shaped_zeros, mirror_plan=plan)
    return post_order([*net.outputs, *grads.outputs])


def test_the_default_honours_the_attribute_and_nothing_else():
    x = sym.Variable("x")
    with sym.AttrScope(force_mirroring="True"):
        net = sym.Dropout(sym.tanh(x, name="a"), name="drop")
    net = sym.relu(net, name="b")
    assert chosen(net, None) == chosen(net, "attributes") == {"a"}
    assert chosen(net, "off") == set()


def test_a_false_attribute_forces_nothing_and_a_word_is_an_error():
    x = sym.Variable("x")
    assert chosen(sym.tanh(x, attr={"force_mirroring": "0"}), None) == set()
    with pytest.raises(GradientError, match="__force_mirroring__.*'a'.*'often'"):
        chosen(sym.tanh(x, name="a", attr={"force_mirroring": "often"}), None)


def test_both_of_mxnet_s_rules_choose_what_mxnet_chooses():
    """Expected: the `_mirror` nodes in `debug_str()` of MXNet 1.9.1's executor for this graph."""
    net = unit(sym.Variable("x"), "u")
    with sym.AttrScope(force_mirroring="True"):
        net = sym.tanh(sym.Dropout(net, name="drop"), name="forced")
    net = sym.FullyConnected(sym.concat(net, sym.sigmoid(net, name="sig"), name="cat"), num_hidden=3, name="fc")
    net = sym.SoftmaxOutput(sym.tanh(net, name="t"), name="softmax")
    assert chosen(net, None) == {"forced"}
    assert chosen(net, "do_mirror") == {"forced", "sig", "t", "u_bn", "u_relu"}


def test_the_attribute_forces_a_convolution_under_do_mirror_too():
    with sym.AttrScope(force_mirroring="1"):
        net = unit(sym.Variable("x"), "u")
    assert chosen(net, "do_mirror") == {"u_conv", "u_bn", "u_relu"}


def test_a_function_chooses_nodes_but_never_loss_heads_loops_or_variables():
    x = sym.Variable("x")
    steps, _ = sym.contrib.foreach(lambda row, s: (row + s, row), x, sym.Variable("s"), name="loop")
    assert chosen(sym.MakeLoss(sym.tanh(steps, name="a"), name="loss"), lambda node: True) == {"a"}


def test_an_unknown_rule_lists_the_known_ones():
    with pytest.raises(GradientError, match="do_mirror.*blocks.*'sometimes'"):
        mirror_plan(sym.Variable("x").outputs, "sometimes")  # pyright: ignore[reportArgumentType]


def test_chosen_nodes_that_read_one_another_are_one_group():
    net = unit(unit(sym.Variable("x"), "u"), "v")
    plan = mirror_plan(net.outputs, "do_mirror")
    assert plan is not None
    groups = {node.name: group for node, group in plan.group.items()}
    assert groups["u_bn"] == groups["u_relu"] != groups["v_bn"] == groups["v_relu"]


def test_gradients_of_nodes_that_are_kept_read_the_copies():
    net = unit(unit(sym.Variable("x"), "u"), "v")
    nodes = gradient_nodes(net, mirror_plan(net.outputs, "do_mirror"))
    backward = [node for node in nodes if node.name.startswith("v_conv") and "backward" in node.name]
    read = {entry.node.name for node in backward for entry in node.inputs}
    assert "u_relu_mirror" in read
    assert "u_relu" not in read


def test_copies_wait_for_the_gradient_and_only_originals_write_states():
    net = unit(sym.Variable("x"), "u")
    copies = [n for n in gradient_nodes(net, mirror_plan(net.outputs, "do_mirror")) if isinstance(n.info, Recomputed)]
    assert {n.name for n in copies} == {"u_bn_mirror", "u_relu_mirror"}
    assert all(n.info.after.node in n.control_deps for n in copies)
    moving = next(n for n in copies if n.name == "u_bn_mirror").inputs[3]
    assert moving.version == net.outputs[0].node.inputs[0].node.inputs[3].version - 1


def test_a_kept_node_s_gradient_reads_its_own_output_and_not_a_second_copy():
    x = sym.Variable("x")
    net = sym.tanh(sym.relu(x, name="a"), name="b")  # tanh's gradient reads tanh's output
    nodes = gradient_nodes(net, mirror_plan(net.outputs, lambda node: node.name == "a"))
    assert sum(node.op is not None and node.op.name == "tanh" for node in nodes) == 1


def test_a_recurrent_layer_that_is_kept_stays_in_the_forward_part():
    x = sym.relu(sym.Variable("x"), name="a")
    net = sym.RNN(x, sym.Variable("p"), sym.Variable("s"), state_size=3, num_layers=1, mode="rnn_tanh", name="rnn")
    nodes = gradient_nodes(net, mirror_plan(net.outputs, lambda node: node.name == "a"))
    keeping = next(node for node in nodes if node.op is not None and node.op.name == "_backward_RNN_forward")
    assert keeping.inputs[0].node.name == "a"
    assert [dep.name for dep in keeping.control_deps] == ["rnn"]


def blocks_of(net: sym.Symbol, **shapes: tuple[int, ...]) -> dict[str, int]:
    numbers = block_numbers(net.outputs, post_order(net.outputs), dict(shapes))
    return {node.name: number for node, number in numbers.items()}


def test_a_chain_is_cut_into_about_the_square_root_of_its_length():
    net = sym.Variable("x")
    for i in range(100):
        net = sym.tanh(net, name=f"n{i}")
    sizes = np.bincount(list(blocks_of(net).values()))
    assert 5 <= len(sizes) <= 20
    assert sizes.max() <= 20


def test_cuts_go_where_one_entry_crosses():
    net = sym.Variable("x")
    for i in range(12):
        branches = [sym.tanh(sym.relu(net, name=f"m{i}_r{k}"), name=f"m{i}_t{k}") for k in range(4)]
        net = sym.add_n(*branches, name=f"m{i}_sum")
    numbers = blocks_of(net)
    assert max(numbers.values()) >= 3
    for i in range(12):
        assert len({number for name, number in numbers.items() if name.startswith(f"m{i}_")}) == 1


def test_blocks_weigh_outputs_when_shapes_are_known():
    net = sym.Variable("x")
    for i in range(16):
        net = sym.relu(net, name=f"wide{i}")
    net = sym.sum(net, axis=1, name="narrow")
    for i in range(64):
        net = sym.relu(net, name=f"thin{i}")
    known, unknown = blocks_of(net, x=(2, 1000)), blocks_of(net)
    assert known["wide15"] > unknown["wide15"]
    assert known["thin63"] - known["narrow"] < unknown["thin63"] - unknown["narrow"]


def test_the_last_block_is_kept():
    net = sym.Variable("x")
    for i in range(30):
        net = sym.tanh(net, name=f"n{i}")
    names = chosen(net, "blocks")
    assert "n0" in names
    assert "n29" not in names


@pytest.mark.nightly("a very long chain")
@pytest.mark.slow("computes much")
def test_a_chain_of_thirty_thousand_nodes_is_planned_and_differentiated():
    net = sym.Variable("x")
    for _ in range(30_000):
        net = sym.tanh(net, name="n")
    plan = mirror_plan(net.outputs, "blocks")
    assert plan is not None
    assert sum(isinstance(node.info, Recomputed) for node in gradient_nodes(net, plan)) == len(plan.recomputed)
    assert mirror_plan(net.outputs, "do_mirror") is not None
