"""Patterns: what they match and refuse, and what rewriting by them keeps."""

from __future__ import annotations

import time

import pytest

from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import GraphError, OpNotRegisteredError
from symjax_nnvm.ir.card import TDrawing
from symjax_nnvm.ir.check_graph import check_graph
from symjax_nnvm.ir.match import Build, Match, Pattern, Uses, anything, op, rules
from symjax_nnvm.ir.node import Node, NodeAttrs, NodeEntry, apply
from symjax_nnvm.ir.rewrite import rewrite
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.symbol import Symbol

X = anything("x")


def _rewritten(symbol: Symbol, *pairs: tuple[Pattern, Build]) -> Symbol:
    before = symbol.tojson()
    after = Symbol(rewrite(symbol.outputs, rules(symbol.outputs, pairs)).outputs)
    assert symbol.tojson() == before  # the given graph is never edited
    check_graph(after.outputs)
    return after


def _names(symbol: Symbol) -> list[str]:
    return [node.name for node in post_order(symbol.outputs)]


def _input(match: Match) -> NodeEntry:
    return match["x"]


def _becomes(name: str) -> Build:
    return lambda match: apply(name, match["x"], name=match.root.name)


def _fused(match: Match) -> NodeEntry:
    weight = apply("broadcast_mul", match["weight"], match["gamma"])
    assert match.params("conv").no_bias
    conv = match.node("conv")
    made = Node(NodeAttrs(conv.op, match.root.name, conv.attrs.dict), [match["x"], weight])
    made.attrs.parse()
    return NodeEntry(made)


FOLD = (
    op(
        "BatchNorm",
        op("Convolution", X, anything("weight"), params={"no_bias": True}, name="conv", alone=True),
        anything("gamma"),
        ...,
        params={"use_global_stats": True, "eps": lambda eps: eps < 1e-2},
        output=0,
    ),
    _fused,
)
NO_DROPOUT = (op("Dropout", X, output=0), _input)


def _conv_norm(*, no_bias: bool = True, eps: float = 1e-3, between: bool = False) -> tuple[Symbol, Symbol]:
    conv = sym.Convolution(sym.Variable("data"), num_filter=2, kernel=(1, 1), no_bias=no_bias, name="conv")
    read = sym.Dropout(conv, name="drop") if between else conv
    return conv, sym.BatchNorm(read, use_global_stats=True, eps=eps, name="norm")


def test_a_nested_pattern_is_folded():
    _, norm = _conv_norm()
    after = _rewritten(sym.relu(norm, name="end"), FOLD)
    fused = after.outputs[0].node.inputs[0].node
    assert fused.op is not None
    assert (fused.op.name, fused.name) == ("Convolution", "norm")
    assert fused.attrs.parsed.num_filter == 2
    assert fused.inputs[1].node.op is not None
    assert fused.inputs[1].node.op.name == "broadcast_mul"
    assert "norm_moving_mean" not in _names(after)


@pytest.mark.parametrize("change", [{"no_bias": False}, {"eps": 0.5}])
def test_parameters_are_looked_at(change: dict[str, object]):
    _, norm = _conv_norm(**change)  # pyright: ignore[reportArgumentType]
    assert _rewritten(norm, FOLD).outputs == norm.outputs


def test_a_predicate_on_all_parameters():
    tops = (op("topk", X, params=lambda p: p.k == 2, output=0), _input)
    x = sym.Variable("x")
    assert _names(_rewritten(sym.relu(sym.topk(x, k=2), name="end"), tops)) == ["x", "end"]
    assert len(_names(_rewritten(sym.relu(sym.topk(x, k=3), name="end"), tops))) == 3


def test_a_node_that_others_read_stays():
    conv, norm = _conv_norm()
    both = sym.Group([norm, sym.relu(conv)])
    assert _rewritten(both, FOLD).outputs == both.outputs


def test_an_output_of_the_graph_is_a_reader():
    conv, norm = _conv_norm()
    both = sym.Group([conv, norm])
    assert _rewritten(both, FOLD).outputs == both.outputs


def test_who_waits_for_a_node_is_a_reader():
    conv, norm = _conv_norm()
    waiting = apply("exp", *sym.Variable("y").outputs, control_deps=[conv.outputs[0].node])
    outputs = [*norm.outputs, waiting]
    assert not rewrite(outputs, rules(outputs, [FOLD])).changed


def test_the_root_is_read_at_its_output_alone():
    _, norm = _conv_norm()
    mean = norm.outputs[0]._replace(index=1)
    outputs = [*norm.outputs, mean]
    assert not rewrite(outputs, rules(outputs, [FOLD])).changed
    assert rewrite(norm.outputs, rules(norm.outputs, [FOLD])).changed


def test_an_inner_output_is_the_one_that_is_asked_for():
    parts = sym.split(sym.Variable("x"), num_outputs=2, name="parts")
    second = (op("relu", op("split", X, output=1)), _becomes("exp"))
    after = _rewritten(sym.Group([sym.relu(parts[0], name="a"), sym.relu(parts[1], name="b")]), second)
    assert [entry.node.op.name for entry in after.outputs if entry.node.op] == ["relu", "exp"]


def test_one_rule_makes_what_another_matches():
    """A dropout stands between: once it is gone, nobody but the norm reads the convolution."""
    _, norm = _conv_norm(between=True)
    assert "conv" in _names(_rewritten(norm, FOLD))
    assert "conv" not in _names(_rewritten(norm, NO_DROPOUT, FOLD))


def test_uses_follow_the_rewriting():
    """The dropouts fall away, but two still read the convolution through them."""
    conv, _ = _conv_norm()
    norms = [sym.BatchNorm(sym.Dropout(conv), use_global_stats=True, name=f"n{i}") for i in range(2)]
    after = _rewritten(sym.Group(norms), NO_DROPOUT, FOLD)
    assert [entry.node.op.name for entry in after.outputs if entry.node.op] == ["BatchNorm", "BatchNorm"]


def test_what_falls_away_reads_no_more():
    """exp is read by abs alone once the other reader, which the second rule removes, is gone."""
    x = sym.Variable("x")
    shared = sym.exp(x, name="shared")
    dead = sym.tanh(sym.sin(shared))
    net = sym.Group([sym.elemwise_mul(dead, x, name="left"), sym.abs(shared, name="right")])
    left = (op("elemwise_mul", op("tanh"), X, name="left"), _input)
    right = (op("abs", op("exp", X, alone=True)), _becomes("relu"))
    assert _names(_rewritten(net, right)) == _names(net)
    assert _names(_rewritten(net, left, right)) == ["x", "right"]


def test_counts_agree_with_the_graph_that_results():
    conv, _ = _conv_norm()
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
        assert uses.of(node) == counted.of(node)
        assert all(uses.only(node, i) == counted.only(node, i) for i in range(node.num_outputs()))


def test_pairs_in_a_chain_cancel():
    x = sym.Variable("x")
    twice = (op("negative", op("negative", X)), _input)
    for length, left in ((2, 0), (3, 1), (6, 0), (7, 1)):
        chain = x
        for _ in range(length):
            chain = sym.negative(chain)
        assert len(_names(_rewritten(sym.relu(chain), twice))) == left + 2


def test_one_name_is_one_entry():
    square = (op("elemwise_mul", X, X), _becomes("square"))
    x, y = sym.Variable("x"), sym.Variable("y")
    assert _rewritten(sym.elemwise_mul(x, x), square).outputs[0].node.op is sym.square(x).outputs[0].node.op
    assert not rewrite((net := sym.elemwise_mul(x, y)).outputs, rules(net.outputs, [square])).changed


def test_the_pattern_may_itself_read_a_node_twice():
    inner = op("exp", X, alone=True)
    net = sym.elemwise_mul(e := sym.exp(sym.Variable("x")), e, name="end")
    assert _names(_rewritten(net, (op("elemwise_mul", inner, inner), _becomes("relu")))) == ["x", "end"]


def test_operators_by_predicate_and_by_several_names():
    x = sym.Variable("x")
    net = sym.relu(sym.exp(x, name="e"), name="end")
    drawn = TDrawing.get(net.outputs[0].node.op)
    assert drawn is not None
    assert _names(_rewritten(net, (op(lambda o: TDrawing.get(o) == drawn, X), _input))) == ["x", "e"]
    assert _names(_rewritten(net, (op(("tanh", "exp"), X), _input))) == ["x", "end"]


def test_the_number_of_inputs_is_part_of_the_pattern():
    net = sym.add_n(*[sym.Variable(name) for name in "abc"])
    assert not rewrite(net.outputs, rules(net.outputs, [(op("add_n", X, X), _input)])).changed
    assert not rewrite(net.outputs, rules(net.outputs, [(op("add_n", X), _input)])).changed
    assert rewrite(net.outputs, rules(net.outputs, [(op("add_n", X, ...), _input)])).changed
    assert rewrite(net.outputs, rules(net.outputs, [(op("add_n", name="x"), _becomes("relu"))])).changed


def test_where_looks_at_an_entry():
    plain = anything("x", where=lambda entry: entry.node.is_variable)
    x = sym.Variable("x")
    assert rewrite((net := sym.relu(x)).outputs, rules(net.outputs, [(op("relu", plain), _input)])).changed
    net = sym.relu(sym.exp(x))
    assert not rewrite(net.outputs, rules(net.outputs, [(op("relu", plain), _input)])).changed


def test_a_pattern_that_declines_leaves_the_next_one_its_turn():
    net = sym.relu(sym.Variable("x"), name="end")
    decline = (op("relu", X), lambda match: None)
    assert _names(_rewritten(net, decline, (op("relu", X), _input))) == ["x"]


def test_versions_are_kept():
    state = sym.Variable("state")
    norm = sym.BatchNorm(sym.Variable("x"), moving_mean=state, name="norm")
    read = sym.relu(sym.identity(state), name="read")
    assert read.outputs[0].node.inputs[0].node.inputs[0].version == 1
    after = _rewritten(sym.Group([norm, read]), (op("relu", op("identity", X)), _becomes("tanh")))
    assert after.outputs[1].node.inputs[0] == (state.outputs[0].node, 0, 1)


def test_control_dependencies_are_kept():
    x, first = sym.Variable("x").outputs[0], apply("exp", *sym.Variable("y").outputs).node
    inner = apply("tanh", x, control_deps=[first])
    outer = [apply("relu", inner), NodeEntry(first)]
    made = rewrite(outer, rules(outer, [(op("relu", op("tanh", X, alone=True)), _becomes("sin"))])).outputs
    assert list(made[0].node.control_deps) == [first]
    assert not rewrite(outer, rules(outer, [(op("relu", op("tanh", X)), _input)])).changed  # x cannot wait


def test_it_matches_over_copies_too():
    _, norm = _conv_norm(between=True)
    copies = rewrite(norm.outputs, rules(norm.outputs, [NO_DROPOUT, FOLD]), fresh=True).outputs
    assert not set(post_order(copies)) & set(post_order(norm.outputs))
    assert "conv" not in _names(Symbol(copies))


def test_what_cannot_be_a_rule_is_refused():
    x = sym.Variable("x")
    with pytest.raises(GraphError, match=r"Give op\(\.\.\.\)"):
        rules(x.outputs, [(X, _input)])
    with pytest.raises(GraphError, match=r"no parameter \['kernal'\]"):
        op("Convolution", params={"kernal": (1, 1)})
    with pytest.raises(OpNotRegisteredError):
        op("Convolutoin")
    with pytest.raises(GraphError, match="patterns"):
        op("relu", ..., X)
    parts = sym.split(x, num_outputs=2)
    with pytest.raises(GraphError, match="output=0"):
        rewrite(parts.outputs, rules(parts.outputs, [(op("split", X), _input)]))


def _chain_seconds(length: int) -> float:
    entry = sym.Variable("x").outputs[0]
    relu, exp = (Node(apply(name, entry).node.attrs) for name in ("relu", "exp"))
    for i in range(length):
        entry = NodeEntry(Node((relu, exp)[i % 2].attrs, [entry]))
    start = time.process_time()
    pair = op("relu", op("exp", X, alone=True), name="end")
    made = rewrite([entry], rules([entry], [(pair, lambda match: Node(match.root.attrs, [match["x"]]))])).outputs
    seconds = time.process_time() - start
    assert len(post_order(made)) == length // 2 + 2  # the first relu reads the variable, the last exp nobody fuses
    return seconds


def test_a_long_chain_takes_time_in_proportion():
    small, large = min(_chain_seconds(10_000) for _ in range(3)), _chain_seconds(80_000)
    assert large < small * 8 * 3


@pytest.mark.slow
def test_a_chain_of_a_million_nodes():
    _chain_seconds(1_000_000)
