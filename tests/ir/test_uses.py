"""Uses: they follow a rewriting; and what SimplifyInference, which stands on them, leaves alone."""

import time

import pytest

from symjax_nnvm import symbol as sym
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.rewrite import rewrite
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.ir.uses import Uses
from symjax_nnvm.passes.simplify_inference import simplify_inference


def ops(entries: list[NodeEntry]) -> list[str]:
    return [node.op.name for node in post_order(entries) if node.op is not None]


def test_counts_agree_with_the_graph_that_results():
    conv = sym.Convolution(sym.Variable("data"), num_filter=2, kernel=(1, 1), name="conv")
    norms = [sym.BatchNorm(sym.Dropout(conv), use_global_stats=True, name=f"n{i}") for i in range(2)]
    net = sym.Group([*norms, sym.relu(sym.exp(norms[0]))])
    uses = Uses(net.outputs)

    def drop(node: Node, draft: Node) -> Node | NodeEntry | None:
        made = None
        if node.op is not None and node.op.name in ("Dropout", "exp"):
            made = draft.inputs[0] if node.op.name == "Dropout" else apply("tanh", apply("sin", *draft.inputs))
        uses.replace(node, draft, made or draft)
        return made

    outputs = rewrite(net.outputs, drop).outputs
    counted = Uses(outputs)
    for node in post_order(outputs):
        assert uses.count(node) == counted.count(node)
        assert all(uses.only(node, i) == counted.only(node, i) for i in range(node.num_outputs()))


def test_an_operator_of_which_another_output_is_read_stays():
    norm = sym.BatchNorm(sym.Variable("data"), name="norm")
    assert ops(simplify_inference(Graph([*norm.outputs, norm.outputs[0]._replace(index=1)])).outputs) == ["BatchNorm"]
    assert "BatchNorm" not in ops(simplify_inference(Graph(norm.outputs)).outputs)


def test_what_takes_its_place_waits_for_what_it_waited_for():
    x, first = sym.Variable("x").outputs[0], apply("exp", *sym.Variable("y").outputs).node
    waiting = [apply("Dropout", x, control_deps=[first]), NodeEntry(first)]
    assert ops(simplify_inference(Graph(waiting)).outputs) == ["exp", "Dropout"]  # a variable cannot wait
    norm = sym.BatchNorm(sym.Variable("data"), name="norm").outputs[0].node
    norm.control_deps = [first]
    (made,) = simplify_inference(Graph([NodeEntry(norm)])).outputs
    assert made.node.op is not None
    assert made.node.op.name != "BatchNorm"
    assert list(made.node.control_deps) == [first]


def _seconds(length: int) -> float:
    entry = sym.Variable("x").outputs[0]
    drop, exp = (apply(name, entry).node for name in ("Dropout", "exp"))
    for i in range(length):
        entry = NodeEntry(Node((drop, exp)[i % 2].attrs, [entry]))
    start = time.process_time()
    outputs = simplify_inference(Graph([entry])).outputs
    seconds = time.process_time() - start
    assert len(post_order(outputs)) == length // 2 + 1
    return seconds


@pytest.mark.nightly("thousands of nodes")
def test_a_long_chain_takes_time_in_proportion():
    small, large = min(_seconds(10_000) for _ in range(3)), _seconds(80_000)
    assert large < small * 8 * 3
