"""Compose: filling an operator's inputs, and replacing variables in a symbol."""

import re

import pytest

from symjax_nnvm.errors import ComposeError, SymbolTypeError
from symjax_nnvm.ir.node import Node, VariableParam
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.symbol.symbol import Symbol
from symjax_nnvm.symbol.variable import Group
from tests.support.core_toys import PREFIX, call, functor, node_of, op, var


def state(*symbols: Symbol) -> list:
    """Everything about the nodes of the symbols that composing could change."""
    return [
        (n, n.name, dict(n.attrs.dict), list(n.inputs), list(n.control_deps), list(n.attrs.subgraphs), counter(n))
        for n in post_order(Group(symbols).outputs)
    ]


def counter(node: Node) -> int | None:
    return node.attrs.parsed.version if isinstance(node.attrs.parsed, VariableParam) else None


def mismatch(key: str, *candidates: str) -> str:
    """A pattern of NNVM's KeywordArgumentMismatch."""
    listed = "".join(f"\t[{i}]{candidate}\n" for i, candidate in enumerate(candidates))
    return (
        f"^Symbol.ComposeKeyword argument name {key} not found.*" + re.escape(f"\nCandidate arguments:\n{listed}") + "$"
    )


def refuses(message: str, symbol: Symbol, *args: Symbol, **kwargs: Symbol) -> None:
    """Composing fails with the message and leaves everything as it was."""
    before, outputs = state(symbol, *args, *kwargs.values()), list(symbol.outputs)
    with pytest.raises(ComposeError, match=message):
        symbol.compose(*args, name="renamed", **kwargs)
    assert state(symbol, *args, *kwargs.values()) == before
    assert symbol.outputs == outputs


# -- atomic ----------------------------------------------------------------------------------------------------------


def test_missing_inputs_become_variables_with_the_operators_attributes():
    fc = call("dense", var("x"), node="fc", attrs={"num_hidden": "3", "__mine__": "1"})
    assert fc.list_arguments() == ["x", "fc_weight", "fc_bias"]
    weight = node_of(fc).inputs[1].node
    assert weight.attrs.dict == {"num_hidden": "3", "__mine__": "1"}
    assert weight.attrs.dict is not node_of(fc).attrs.dict
    assert counter(weight) == 0


def test_without_a_name_variables_are_named_after_the_inputs_alone():
    fc = functor("dense", num_hidden="3")
    node_of(fc).attrs.name = "stored"
    fc.compose(var("x"))
    assert fc.list_arguments() == ["x", "weight", "bias"]
    assert fc.name == "stored"


def test_inputs_by_keyword_in_any_order():
    x, b = var("x"), var("b")
    fc = call("dense", bias=b, data=x, node="fc", attrs={"num_hidden": "3"})
    assert fc.list_arguments() == ["x", "fc_weight", "b"]


def test_positional_inputs_come_first_and_keywords_fill_the_rest():
    assert call("add", var("x"), rhs=var("y")).list_arguments() == ["x", "y"]


def test_one_output_of_a_multi_output_symbol_is_an_input():
    split = call("split", var("x"), node="s")
    assert node_of(call("exp", split[1])).inputs == [split.outputs[1]]


def test_versions_are_given_when_composing():
    v = var("v")
    writes = [call("assign", v, var("a")) for _ in range(2)]
    assert [node_of(w).inputs[0].version for w in writes] == [1, 2]
    assert node_of(call("exp", v)).inputs[0].version == 2


def test_multi_output_operator_is_composed_as_a_whole():
    split = functor("split")
    split.compose(var("x"), name="s")
    assert split.list_outputs() == ["s_output0", "s_output1"]


def test_operator_without_inputs_stays_atomic():
    zeros = call("zeros", node="z")
    zeros.compose(name="again")
    assert zeros.name == "again"


def test_any_number_of_inputs_takes_positionals_only():
    assert call("many", var("a"), var("b"), var("c")).list_inputs() == ["a", "b", "c"]
    assert node_of(call("many")).inputs == []
    refuses("Variable length function do not accept kwargs", functor("many"), var("a"), data=var("b"))


def test_too_many_inputs_is_an_error():
    refuses("Incorrect number of arguments, requires 1, provided 2", functor("exp"), var("a"), var("b"))


def test_unknown_keyword_lists_the_open_inputs():
    refuses(mismatch("data", "rhs"), functor("add"), var("x"), data=var("y"))


def test_first_unknown_keyword_is_reported():
    refuses(mismatch("p", "lhs", "rhs"), functor("add"), lhs=var("x"), p=var("y"), q=var("z"))


def test_input_given_by_position_and_by_keyword_is_an_error():
    refuses(mismatch("lhs", "rhs"), functor("add"), var("x"), lhs=var("y"))


def test_operator_that_names_no_inputs_needs_all_of_them():
    refuses(f"Not enough argument to call operator {PREFIX}unnamed", functor("unnamed"), var("x"))
    refuses(f"Not enough argument to call operator {PREFIX}unnamed", functor("unnamed"), data=var("x"))
    assert call("unnamed", var("x"), var("y")).list_arguments() == ["x", "y"]


def test_group_is_no_single_input():
    pair = Group([var("a"), var("b")])
    refuses("^Argument 1 is a tuple, single value is required", functor("add"), var("x"), pair)
    refuses("^Keyword Argument rhs is a tuple, single value is required", functor("add"), lhs=var("x"), rhs=pair)


def test_written_input_must_be_a_variable():
    refuses("Mutation target can only be Variable", functor("assign"), call("exp", var("x")), var("a"))


def test_deviation_unknown_keyword_is_an_error_even_when_positionals_fill_the_inputs():
    refuses(mismatch("nonsense"), functor("exp"), var("x"), nonsense=var("y"))
    refuses(mismatch("data"), functor("zeros"), data=var("y"))


def test_deviation_plain_variable_takes_no_inputs():
    refuses("A variable takes no inputs; in node 'x'", var("x"), var("y"))
    refuses("A variable takes no inputs", var("x"), data=var("y"))
    refuses("A variable takes no inputs", var("x"), x=var("y"))


def test_composing_a_variable_with_a_name_renames_it():
    x = var("x")
    x.compose(name="y")
    assert (x.name, node_of(x).inputs) == ("y", [])


# -- attributes of input variables -----------------------------------------------------------------------------------


def test_operator_may_write_attributes_of_its_variables_given_and_automatic():
    mine = var("mine")
    norm = call("norm", var("x"), moving_var=mine, node="bn")
    assert norm.attr_dict() == {"bn_moving_mean": {"__init__": "zero"}, "mine": {"__init__": "one"}}
    assert mine.attr("__init__") == "one"


def test_attribute_that_the_user_set_stays():
    mine = var("mine")
    mine.set_attrs({"__init__": "normal"})
    call("norm", var("x"), moving_var=mine)
    assert mine.attr("__init__") == "normal"


# -- subgraphs -------------------------------------------------------------------------------------------------------


def test_graph_input_moves_to_the_subgraphs():
    body = Group([call("exp", var("in")), var("more")])
    loop = call("loop", body, var("x"), node="l")
    assert loop.list_arguments() == ["x", "l_state"]
    (kept,) = node_of(loop).attrs.subgraphs
    assert kept is not body
    assert kept.outputs == body.outputs  # shallow: the same nodes


def test_graph_input_by_keyword():
    body = call("exp", var("in"))
    loop = call("loop", state=var("s"), body=body, node="l")
    assert loop.list_arguments() == ["l_data", "s"]
    assert node_of(loop).attrs.subgraphs[0].outputs == body.outputs


def test_missing_graph_input_is_an_error():
    refuses(f"A subgraph is missing; in operator '{PREFIX}loop'.*input 'body'", functor("loop"), data=var("x"))


def test_group_among_the_other_inputs_is_reported_by_its_position_in_the_call():
    pair = Group([var("a"), var("b")])
    refuses("^Argument 1 is a tuple", functor("loop"), var("body"), pair)


def test_copies_share_subgraphs():
    loop = call("loop", call("exp", var("in")), var("x"))
    assert node_of(loop.copy()).attrs.subgraphs[0] is node_of(loop).attrs.subgraphs[0]


# -- general ---------------------------------------------------------------------------------------------------------


def test_variable_is_replaced_by_name():
    net = call("exp", call("exp", var("x"), node="inner"), node="outer")
    net.compose(x=call("exp", var("y"), node="new"))
    assert net.get_internals().list_outputs() == ["y", "new_output", "inner_output", "outer_output"]


def test_two_variables_may_be_swapped():
    x, y = var("x"), var("y")
    net = call("add", x, y)
    net.compose(x=y, y=x)
    assert net.list_arguments() == ["y", "x"]


def test_replacement_is_not_searched_again():
    net = call("exp", var("x"))
    net.compose(x=call("exp", var("x"), node="again"))
    assert net.list_arguments() == ["x"]
    assert node_of(net).inputs[0].node.name == "again"


def test_every_use_of_a_variable_is_replaced():
    x = var("x")
    net = call("add", call("exp", x), x)
    net.compose(x=var("y"))
    assert net.list_arguments() == ["y"]


def test_head_that_is_a_variable_is_replaced():
    net = Group([var("x"), call("exp", var("z"))])
    net.compose(x=var("y"))
    assert net.list_outputs()[0] == "y"


def test_variable_in_a_control_dependency_is_known_but_stays():
    net, x = call("exp", var("a")), var("x")
    net.add_control_deps(x)
    net.compose(x=var("y"))
    assert node_of(net).control_deps == [node_of(x)]


def test_name_goes_to_the_first_outputs_node():
    first, second = call("exp", var("x"), node="e"), call("exp", var("x"), node="f")
    Group([first, second]).compose(name="renamed")
    assert (first.name, second.name) == ("renamed", "f")


def test_name_does_not_rename_the_replacement():
    y = var("y")
    Group([var("x"), call("exp", var("z"))]).compose(x=y, name="renamed")
    assert y.name == "y"


def test_changed_operators_get_new_versions():
    v, a = var("v"), var("a")
    net = call("assign", v, a)
    net.compose(a=var("b"))
    assert node_of(net).inputs[0].version == 2
    net.compose(v=(fresh := var("fresh")))
    assert node_of(net).inputs[0].version == 1
    assert counter(node_of(fresh)) == 1


def test_general_composition_takes_keywords_only():
    refuses("^General composition only support kwargs for now$", call("exp", var("x")), var("y"))


def test_general_composition_lists_all_variables_for_an_unknown_keyword():
    refuses(mismatch("z", "x", "y"), call("add", var("x"), var("y")), x=var("new"), z=var("w"))


def test_general_composition_refuses_groups_and_operators_that_would_be_written():
    pair = Group([var("a"), var("b")])
    refuses("^Keyword Argument x is a tuple, single value is required", call("exp", var("x")), x=pair)
    written = call("add", call("assign", var("v"), var("a"), node="w"), var("b"))
    refuses("Mutation target can only be Variable.*node 'w'", written, b=var("c"), v=call("exp", var("y")))


def test_deviation_general_compose_counts_distinct_keys():
    """Upstream counts variables, so that two variables of one name make composing a silent no-op."""
    net = call("add", var("x"), var("x"))
    net.compose(x=var("y"))
    assert net.list_arguments() == ["y"]


def test_deviation_unknown_key_is_an_error_even_when_the_counts_agree():
    refuses(mismatch("bogus", "x", "x"), call("add", var("x"), var("x")), x=var("y"), bogus=var("z"))


def test_empty_group_cannot_be_composed():
    with pytest.raises(ComposeError, match="An empty group cannot be composed"):
        Symbol().compose(x=var("x"))


# -- calling ---------------------------------------------------------------------------------------------------------


def test_call_composes_a_copy_and_shares_the_arguments_nodes():
    net, y = call("exp", var("x"), node="e"), var("y")
    result = net(x=y, name="f")
    assert (net.list_arguments(), net.name) == (["x"], "e")
    assert (result.list_arguments(), result.name) == (["y"], "f")
    assert node_of(result).inputs[0].node is node_of(y)


def test_call_takes_positionals_or_keywords_not_both():
    with pytest.raises(SymbolTypeError, match="either as positional or keyword arguments, not both"):
        functor("add")(var("x"), rhs=var("y"))


@pytest.mark.parametrize("call_with", [lambda s: s(3), lambda s: s(data="x")])
def test_call_takes_symbols_only(call_with):
    with pytest.raises(SymbolTypeError, match="Compose expect `Symbol` as arguments"):
        call_with(functor("exp"))


def test_call_does_not_consult_the_name_manager():
    assert functor("exp")(var("x")).list_outputs() == ["output"]


def test_atomic_needs_one_node_without_inputs_and_control_dependencies():
    guarded = functor("exp")
    guarded.add_control_deps(var("d"))
    refuses("General composition only support kwargs", guarded, var("x"))
    assert node_of(guarded).op is op("exp")
