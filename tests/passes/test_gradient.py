"""MXGradient: every option, on toy operators whose gradient rules are visible in the test."""

import pytest

from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import GradientError, PassError
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, NodeEntry, apply, create_variable_node
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.pass_registry import apply_pass
from symjax_nnvm.ir.register import register_op, same_shape
from symjax_nnvm.passes.gradient import check_grad_all_zero, default_aggregate, mx_gradient
from symjax_nnvm.passes.gradient.full_graph import init_full_graph
from symjax_nnvm.symbol import Symbol


def _register() -> None:
    def exp_gradient(node: Node, ograds: list[NodeEntry]):
        return [apply("_test_grad_exp_backward", ograds[0], NodeEntry(node, 0, 0), name=f"{node.name}_grad")]

    if Op.exists("_test_grad_exp"):
        return
    binary = ("lhs", "rhs")
    register_op("_test_grad_exp_backward", inputs=("ograd", "output"), infer_shape=same_shape)
    register_op("_test_grad_exp", infer_shape=same_shape, gradient=exp_gradient)
    register_op("_test_grad_add", inputs=binary, infer_shape=same_shape, gradient=lambda n, g: [g[0], g[0]])
    register_op("_test_grad_zeros", inputs=binary, gradient=lambda n, g: [apply("zeros_like", e) for e in n.inputs])
    register_op("_test_grad_cut", gradient=lambda n, g: [None])
    register_op("_test_grad_none", inputs=binary)
    register_op("_test_grad_short", inputs=binary, gradient=lambda n, g: [g[0]])
    register_op("_test_grad_shapeless", gradient=lambda n, g: [apply("_test_grad_none", g[0], g[0], name="u")])


_register()


def gradient(symbol: Symbol, xs: list[str], **options) -> tuple[Symbol, list[NodeEntry]]:
    """(gradient symbol, head gradient entries) with heads named og0, og1, …."""
    nodes = {node.name: node for node in symbol.list_input_nodes()}
    heads = [NodeEntry(create_variable_node(f"og{i}"), 0, 0) for i in range(len(symbol.outputs))]
    wrt = [NodeEntry(nodes[name], 0, 0) for name in xs]
    return Symbol(mx_gradient(Graph(symbol.outputs), symbol.outputs, wrt, heads, **options).outputs), heads


def names(symbol: Symbol) -> list[str]:
    return [entry.node.name for entry in symbol.outputs]


def test_add_hands_the_head_gradient_to_both_inputs():
    x, y = sym.Variable("x"), sym.Variable("y")
    grads, (head,) = gradient(sym.elemwise_add(x, y), ["x", "y"])
    assert grads.outputs == [head, head]


def test_copy_op_copies_every_further_use_of_one_gradient():
    x, y, z = (sym.Variable(name) for name in "xyz")
    total = sym._test_grad_add(sym._test_grad_add(x, y), z)
    grads, (head,) = gradient(total, ["x", "y", "z"], copy_op="_copy")
    assert names(grads) == ["og0", "og0_1_copy", "og0_2_copy"]
    assert [entry.node.inputs for entry in grads.outputs[1:]] == [[head], [head]]
    assert grads.outputs[1].node.op is Op.get("_copy")


def test_deviation_the_same_x_twice_with_copy_op_gives_a_copy():
    grads, _ = gradient(sym._test_grad_exp(sym.Variable("x"), name="e"), ["x", "x"], copy_op="_copy")
    assert names(grads) == ["e_grad", "e_grad_1_copy"]


def test_multiplication_has_one_backward_node_of_two_outputs():
    product = sym.elemwise_mul(sym.Variable("x"), sym.Variable("y"), name="m")
    grads, (head,) = gradient(product, ["x", "y"])
    assert [(entry.node.name, entry.index) for entry in grads.outputs] == [("m_backward", 0), ("m_backward", 1)]
    node = grads.outputs[0].node
    assert [entry.node.name for entry in node.inputs] == [head.node.name, "x", "y"]
    assert [dep.name for dep in node.control_deps] == ["m"]


def test_gradients_that_meet_are_summed_in_reverse_order_of_their_users():
    x = sym.Variable("x")
    e = sym._test_grad_exp(x, name="e")
    log = sym._test_grad_exp(x, name="l")
    grads, _ = gradient(sym._test_grad_add(sym._test_grad_add(e, log), x, name="r"), ["x"])
    (entry,) = grads.outputs
    assert entry.node.op is Op.get("elemwise_sum")
    assert entry.node.name == "grad_sum"
    assert entry.node.attrs.dict == {"num_args": "3"}
    assert [source.name for source, _, _ in entry.node.inputs] == ["og0", "l_grad", "e_grad"]


def test_default_aggregate_of_nothing_is_zeros():
    entry = default_aggregate([])
    assert (entry.node.op, entry.node.name) == (Op.get("zeros"), "zero_grad")


def test_custom_aggregate_sees_every_list():
    seen: list[int] = []

    def aggregate(grads: list[NodeEntry]) -> NodeEntry:
        seen.append(len(grads))
        return default_aggregate(grads)

    x = sym.Variable("x")
    gradient(sym._test_grad_add(x, x), ["x"], aggregate_fun=aggregate)
    assert seen == [1, 2]


def test_deviation_a_head_listed_twice_adds_its_gradients():
    e = sym._test_grad_exp(sym.Variable("x"), name="e")
    grads, heads = gradient(sym.Group([e, e]), ["x"])
    summed = grads.outputs[0].node.inputs[0].node
    assert summed.name == "grad_sum"
    assert summed.inputs == heads


def test_mirror_copies_the_chosen_nodes_and_their_gradient_nodes_read_the_copies():
    b = sym._test_grad_exp(sym._test_grad_exp(sym.Variable("x"), name="a"), name="b")
    asked: list[str] = []

    def mirror(node: Node) -> bool:
        asked.append(node.name)
        return node.name in ("a", "b")

    grads, _ = gradient(b, ["x"], mirror_fun=mirror)
    assert asked == ["x", "a", "b"]
    a_grad = grads.outputs[0].node
    b_grad = a_grad.inputs[0].node
    assert b_grad.inputs[1].node.name == "b_mirror"
    assert b_grad.inputs[1].node.inputs[0].node is a_grad.inputs[1].node
    assert a_grad.inputs[1].node.name == "a_mirror"
    assert a_grad.inputs[1].node.inputs[0].node.name == "x"
    assert b.debug_str().count("_mirror") == 0


def test_nodes_that_are_not_mirrored_keep_the_originals():
    b = sym._test_grad_exp(sym._test_grad_exp(sym.Variable("x"), name="a"), name="b")
    grads, _ = gradient(b, ["x"], mirror_fun=lambda node: node.name == "a")
    a_grad = grads.outputs[0].node
    assert a_grad.inputs[1].node.name == "a_mirror"
    assert a_grad.inputs[0].node.inputs[1].node is b.outputs[0].node


def test_deviation_attr_hint_is_called_with_the_entry_it_belongs_to():
    calls: list[tuple[str, int, int]] = []

    def hint(grad: NodeEntry, like: NodeEntry) -> NodeEntry:
        calls.append((like.node.name, like.index, like.version))
        return grad

    inner = sym._test_grad_shapeless(sym.Variable("x"), name="s")
    gradient(sym._test_grad_exp(inner, name="e"), ["x"], attr_hint_fun=hint)
    # e receives a variable, which says nothing of its shape; s receives e's gradient, whose operator infers shapes.
    assert calls == [("e", 0, 0), ("x", 0, 0)]


def test_zero_gradients_pass_an_operator_without_gradient():
    x, y = sym.Variable("x"), sym.Variable("y")
    inner = sym._test_grad_none(x, y, name="f")
    grads, _ = gradient(sym._test_grad_zeros(inner, y), ["x"], zero_ops=[Op.get("zeros_like")])
    (entry,) = grads.outputs
    assert (entry.node.name, entry.node.op) == ("f_in0_backward", Op.get("zeros_like"))
    assert entry.node.inputs == inner.outputs[0].node.inputs[:1]
    assert entry.node.control_deps == [inner.outputs[0].node]


def test_an_operator_without_gradient_is_an_error_that_names_it():
    symbol = sym._test_grad_none(sym.Variable("x"), sym.Variable("y"), name="f")
    with pytest.raises(GradientError, match=r"Operator _test_grad_none is non-differentiable because.*node 'f'"):
        gradient(symbol, ["x"])


def test_none_passes_no_gradient_and_becomes_zeros_where_needed():
    cut = sym._test_grad_cut(sym._test_grad_none(sym.Variable("x"), sym.Variable("y")))
    grads, _ = gradient(cut, ["x"])
    assert grads.outputs[0].node.name == "zero_grad"


def test_check_grad_all_zero():
    zero = apply("zeros_like", NodeEntry(create_variable_node("v")))
    one = apply("ones_like", NodeEntry(create_variable_node("v")))
    zero_ops = [Op.get("zeros_like")]
    assert check_grad_all_zero([zero, zero], zero_ops)
    assert not check_grad_all_zero([zero, one], zero_ops)
    assert not check_grad_all_zero([], zero_ops)
    assert not check_grad_all_zero([zero], [])


def test_too_few_gradients_is_an_error():
    symbol = sym._test_grad_short(sym.Variable("x"), sym.Variable("y"), name="s")
    with pytest.raises(GradientError, match=r"not returning enough gradient.*node 's'.*expected 2.*got 1"):
        gradient(symbol, ["x"])


def test_an_unreachable_variable_is_an_error_that_counts_from_one():
    e = sym._test_grad_exp(sym.Variable("x"))
    stranger = NodeEntry(create_variable_node("stranger"), 0, 0)
    head = NodeEntry(create_variable_node("og"), 0, 0)
    with pytest.raises(GradientError, match=r"the 2-th variable because it is unreachable from the outputs.*stranger"):
        mx_gradient(Graph(e.outputs), e.outputs, [e.outputs[0].node.inputs[0], stranger], [head])


def test_wrong_number_of_head_gradients_is_an_error():
    e = sym._test_grad_exp(sym.Variable("x"))
    with pytest.raises(GradientError, match=r"The number of head gradients is wrong; expected 1.*got 0"):
        mx_gradient(Graph(e.outputs), e.outputs, [], [])


def test_a_missing_graph_attribute_is_named():
    with pytest.raises(PassError, match="Graph attr dependency grad_ys is required by pass MXGradient"):
        apply_pass(Graph([]), "MXGradient")


def test_the_result_has_outputs_only_and_the_input_graph_is_unchanged():
    e = sym._test_grad_exp(sym.Variable("x"), name="e")
    graph = Graph(e.outputs, {"mine": "kept"})
    head = NodeEntry(create_variable_node("og"), 0, 0)
    assert mx_gradient(graph, e.outputs, e.outputs[0].node.inputs, [head]).attrs == {}
    assert graph.attrs == {"mine": "kept"}
    assert graph.outputs == e.outputs


def test_symbol_gradient_uses_ones_like_heads_and_can_be_differentiated_again():
    first = sym.exp(sym.Variable("x"), name="e").gradient("x")
    assert first.list_arguments() == ["x"]
    assert "ones_like" in first.debug_str()
    assert first.gradient(["x"]).list_arguments() == ["x"]
    assert sym.load_json(first.tojson()).tojson() == first.tojson()


def test_symbol_gradient_of_nothing_flowing_is_zeros_of_the_right_shape():
    x, y = sym.Variable("x"), sym.Variable("y")
    assert (sym.BlockGrad(x) + y).gradient(["x", "y"]).infer_shape(x=(2, 3))[1] == [(2, 3), (2, 3)]


def test_symbol_gradient_errors_name_the_choice():
    x = sym.exp(sym.Variable("x"))
    with pytest.raises(GradientError, match=r"with respect to 'z'; expected one of \['x'\]"):
        x.gradient("z")
    with pytest.raises(GradientError, match=r"The number of head gradients is wrong; expected 1"):
        x.gradient("x", head_grads=[sym.Variable("a"), sym.Variable("b")])
    both = sym.Variable("twice") + sym.Variable("twice")
    with pytest.raises(GradientError, match="2 variables of that name"):
        both.gradient("twice")


@pytest.mark.slow("compiles")
def test_a_chain_of_20000_nodes_is_differentiated_without_recursion():
    x = sym.Variable("x")
    y = x
    for _ in range(20_000):
        y = sym._test_grad_exp(y)
    grads, _ = gradient(y, ["x"])
    assert Graph(grads.outputs).indexed_graph().num_nodes == 2 * 20_000 + 2


# -- operators that write states, and have no backward part ------------------------------------------------------------

_BASE = sym.FullyConnected(sym.Variable("data"), num_hidden=2, no_bias=True, name="base")
_MEAN, _VAR = sym.Variable("mean"), sym.Variable("var")


def _norm(below: Symbol, name: str = "bn", kind: str = "BatchNorm", **given) -> Symbol:
    return getattr(sym, kind)(below, name=name, **given)


def _under_a_head(body: Symbol) -> Symbol:
    return sym.MakeLoss(sym.FullyConnected(body, num_hidden=1, no_bias=True, name="head"))


_TWO = _norm(_norm(_BASE, "bn0"), "bn1")
_SHARED = _norm(_BASE, "bn0", moving_mean=_MEAN, moving_var=_VAR)
_SHARED = _norm(_SHARED, "bn1", moving_mean=_MEAN, moving_var=_VAR)


@pytest.mark.parametrize(
    ("body", "wrt", "stay"),
    [
        *((_norm(_BASE, kind=kind), ["head_weight"], ["bn"]) for kind in ("BatchNorm", "BatchNorm_v1")),
        (_norm(_BASE, kind="_contrib_SyncBatchNorm", key="k"), ["head_weight"], ["bn"]),
        (_norm(_BASE, kind="_contrib_BatchNormWithReLU"), ["head_weight"], ["bn"]),
        (sym.IdentityAttachKLSparseReg(_BASE, name="kl"), ["head_weight"], ["kl"]),
        (sym.IdentityAttachKLSparseReg(_BASE, name="kl"), ["base_weight"], []),
        *((_norm(_BASE), [name], []) for name in ("base_weight", "data", "bn_gamma", "bn_beta")),
        (_norm(_BASE), [], ["bn"]),
        (_norm(sym.BlockGrad(_BASE)), ["base_weight"], ["bn"]),
        (sym.BlockGrad(_norm(_BASE)), ["base_weight"], []),
        (sym.round(_norm(_BASE)), ["base_weight"], []),
        (sym.one_hot(sym.argmax(_norm(_BASE), axis=1), depth=2), ["bn_beta"], []),
        (_TWO, ["bn1_gamma"], ["bn0"]),
        (_TWO, ["bn0_gamma"], []),
        (_SHARED, ["bn1_beta"], ["bn0"]),
    ],
)
def test_states_follow_the_backward_pass_where_mxnet_has_a_node_for_it(body, wrt: list[str], stay: list[str]):
    """MXNet 1.9.1 leaves moving averages as they are in exactly these cases, on a CPU."""
    net = _under_a_head(body)
    nodes = {node.name: node for node in net.list_input_nodes()}
    graph = init_full_graph(Graph(net.outputs), [NodeEntry(nodes[name]) for name in wrt])
    assert sorted(node.name for node in graph.attrs["unreached"]) == stay
