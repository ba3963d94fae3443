"""Symbol: construction, listing, attributes, printing, the container protocol."""

import copy
import operator
from typing import Any

import numpy as np
import pytest

from symjax_nnvm.errors import (
    ComposeError,
    NotImplementedForSymbol,
    ParamError,
    SymbolIndexError,
    SymbolTypeError,
    SymbolValueError,
)
from symjax_nnvm.ir.node import NodeAttrs, NodeEntry
from symjax_nnvm.symbol.symbol import Symbol
from symjax_nnvm.symbol.variable import Group, Variable
from tests.support.core_toys import PREFIX, call, functor, node_of, op, var


def dense(name: str = "fc") -> Symbol:
    return call("dense", var("x"), node=name, attrs={"num_hidden": "3"})


def norm() -> Symbol:
    return call("norm", var("x"), node="bn")


# -- construction ----------------------------------------------------------------------------------------------------


def test_variable_is_one_entry():
    x = Symbol.create_variable("x")
    assert x.outputs == [NodeEntry(node_of(x), 0, 0)]
    assert (x.name, x.list_attrs()) == ("x", {})


def test_functor_parses_its_attributes_and_shows_visible_outputs():
    fc = functor("dense", num_hidden="3")
    assert node_of(fc).attrs.parsed.num_hidden == 3
    assert (fc.name, node_of(fc).inputs, len(functor("norm")), len(functor("split"))) == ("", [], 1, 2)


def test_functor_from_a_name_or_an_operator():
    assert node_of(Symbol.create_functor(PREFIX + "exp")).op is node_of(Symbol.create_functor(op("exp"))).op


def test_functor_from_bad_attributes_fails_before_it_has_a_name():
    with pytest.raises(
        ParamError, match=r"Invalid Parameter format for num_hidden.*dense\(name='', num_hidden='three'\)"
    ):
        functor("dense", num_hidden="three")


def test_functor_from_prepared_attributes_copies_them_and_does_not_parse():
    attrs = NodeAttrs(op("dense"), "fc", {"num_hidden": "not parsed"})
    a, b = Symbol.create_functor(attrs), Symbol.create_functor(attrs)
    assert node_of(a).attrs.parsed is None
    node_of(a).attrs.dict.clear()
    assert node_of(b).attrs.dict == attrs.dict == {"num_hidden": "not parsed"}


def test_group_flattens_and_keeps_order_and_duplicates():
    x, pair = var("x"), call("split", var("y"), node="s")
    assert Group([x, pair, Group([x])]).list_outputs() == ["x", "s_output0", "s_output1", "x"]
    assert Group(map(var, ["a", "b"])).list_outputs() == ["a", "b"]


@pytest.mark.parametrize("bad", [[], [1], [None], 1, None, iter([])])
def test_group_takes_symbols_only(bad: Any):
    with pytest.raises(SymbolTypeError, match="Expected a list of symbols as input"):
        Group(bad)


def test_group_of_a_bare_symbol_is_refused():
    with pytest.raises(NotImplementedForSymbol, match="Group takes a list of symbols"):
        Group(var("x"))  # type: ignore[arg-type]


def test_empty_group_is_possible_for_the_core():
    assert Symbol.create_group([]).outputs == []


# -- copies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("copying", [Symbol.copy, copy.copy, copy.deepcopy])
def test_copy_has_nodes_attributes_and_counters_of_its_own(copying):
    net = norm()
    net.add_control_deps(var("d"))
    twin = copying(net)
    assert twin.debug_str() == net.debug_str()
    assert not {id(n) for n, *_ in twin.get_internals().outputs} & {id(n) for n, *_ in net.get_internals().outputs}
    state = node_of(twin).inputs[3].node
    state.attrs.parsed.version = 9
    state.attrs.dict["a"] = "1"
    assert node_of(net).inputs[3].node.attrs.parsed.version == 1
    assert "a" not in node_of(net).inputs[3].node.attrs.dict


def test_copy_keeps_shared_nodes_shared():
    x = var("x")
    twin = call("add", x, x).copy()
    assert node_of(twin).inputs[0] == node_of(twin).inputs[1]


def test_shallow_copy_shares_nodes_but_not_the_list():
    net = dense()
    twin = net.shallow_copy()
    assert twin.outputs == net.outputs
    assert twin.outputs is not net.outputs


@pytest.mark.nightly("thousands of nodes")
def test_deep_chain_is_copied_and_printed_without_recursion():
    net = var("x")
    for _ in range(20_000):
        net = call("exp", net)
    assert len(net.copy().get_internals()) == 20_001
    assert net.debug_str().count("\n") > 20_000


# -- listing ---------------------------------------------------------------------------------------------------------


def test_arguments_and_auxiliary_states_share_one_order():
    net = call("add", norm(), var("y"))
    assert net.list_arguments() == ["x", "bn_gamma", "bn_beta", "y"]
    assert net.list_auxiliary_states() == ["bn_moving_mean", "bn_moving_var"]
    assert net.list_inputs() == ["x", "bn_gamma", "bn_beta", "bn_moving_mean", "bn_moving_var", "y"]


def test_listing_by_option_as_nnvm_spells_it():
    net = norm()
    assert net.list_input_names("read_only") == net.list_arguments()
    assert [s.name for s in net.list_input_variables("aux_state")] == net.list_auxiliary_states()
    assert net.list_input_names() == net.list_input_names("all") == net.list_inputs()
    with pytest.raises(SymbolValueError, match="option must be 'all', 'read_only' or 'aux_state', got 'none'"):
        net.list_input_names("none")  # type: ignore[arg-type]


def test_auxiliary_is_a_property_of_the_graph_not_of_the_variable():
    net = norm()
    mean = Symbol([NodeEntry(node_of(net).inputs[3].node)])
    assert mean.list_arguments() == ["bn_moving_mean"]
    assert mean.list_auxiliary_states() == []


def test_equal_names_are_listed_each_and_one_node_once():
    x = var("x")
    assert call("add", x, var("x")).list_inputs() == ["x", "x"]
    assert call("add", x, x).list_inputs() == ["x"]


def test_control_dependencies_are_listed_and_subgraphs_are_not():
    net = call("loop", call("exp", var("inside")), var("x"), var("s"))
    net.add_control_deps(var("d"))
    assert net.list_inputs() == ["x", "s", "d"]


def test_operator_without_inputs_yet_lists_none():
    assert functor("assign").list_auxiliary_states() == []


def test_output_names():
    assert dense().list_outputs() == ["fc_output"]
    assert call("split", var("x"), node="s").list_output_names() == ["s_output0", "s_output1"]
    assert norm().list_outputs() == ["bn_output"]
    assert call("exp", var("x")).list_outputs() == ["output"]
    assert var("x").list_outputs() == ["x"]


def test_internals_are_all_visible_outputs_in_post_order():
    assert call("split", norm(), node="s").get_internals().list_outputs() == [
        *("x", "bn_gamma", "bn_beta", "bn_moving_mean", "bn_moving_var", "bn_output"),
        *("s_output0", "s_output1"),
    ]


def test_internals_show_variables_at_their_current_version():
    assert [entry.version for entry in norm().get_internals().outputs] == [0, 0, 0, 1, 1, 0]


def test_children_are_the_inputs_of_distinct_heads():
    x = var("x")
    net = call("add", x, x, node="a")
    net.add_control_deps(var("d"))
    children = Group([net, net, call("exp", net)]).get_children()
    assert children is not None
    assert children.list_outputs() == ["x", "x", "a_output"]
    assert x.get_children() is None


def test_control_dependencies_are_appended_without_merging_duplicates():
    net, d = dense(), var("d")
    net.add_control_deps(Group([d, d]))
    net.add_control_deps(d)
    assert [node.name for node in node_of(net).control_deps] == ["d", "d", "d"]


def test_control_dependencies_of_a_group_are_refused():
    with pytest.raises(ComposeError, match="AddControlDeps only works for nongrouped symbol; got 2 outputs"):
        call("split", var("x")).add_control_deps(var("d"))


# -- attributes ------------------------------------------------------------------------------------------------------


def test_computed_attributes():
    split = call("split", var("x"), node="s")
    assert (split.get_attr("name"), split.get_attr("op_name")) == ("s", PREFIX + "split")
    assert (split.get_attr("_value_index"), split[1].get_attr("_value_index")) == ("0, 1", "1")
    assert var("x").get_attr("op_name") == "null"
    assert split.get_attr("absent") is None


def test_group_has_neither_attributes_nor_a_name():
    group = Group([var("x"), var("y")])
    assert (group.name, group.get_attr("name"), group.attr("a"), Symbol().name) == (None, None, None, None)


def test_attributes_belong_to_the_shared_node():
    split = call("split", var("x"), node="s")
    split.set_attrs({"a": "1"})
    split[0].set_attrs([("a", "2"), ("name", "t")])
    assert (split.attr("a"), split.name) == ("2", "t")


def test_set_parameters_are_parsed_again():
    fc = dense()
    fc.set_attrs({"num_hidden": "5"})
    assert node_of(fc).attrs.parsed.num_hidden == 5


def test_bad_parameters_leave_the_node_as_it_was():
    fc = dense()
    with pytest.raises(ParamError, match="num_hidden"):
        fc.set_attrs({"name": "renamed", "num_hidden": "many"})
    assert (fc.name, fc.list_attrs(), node_of(fc).attrs.parsed.num_hidden) == ("fc", {"num_hidden": "3"}, 3)


def test_attributes_of_a_group_cannot_be_set():
    with pytest.raises(ComposeError, match="Symbol.SetAttrs only works for non-grouped symbol"):
        Group([var("x"), var("y")]).set_attrs({"a": "1"})


def test_setting_attributes_keeps_a_variables_counter():
    net = norm()
    mean = Symbol([NodeEntry(node_of(net).inputs[3].node)])
    mean.set_attrs({"a": "1"})
    assert node_of(mean).attrs.parsed.version == 1


def test_shallow_and_recursive_attributes():
    net = dense()
    assert net.list_attrs() == {"num_hidden": "3"}
    assert net.list_attrs("recursive") == {f"{n}$num_hidden": "3" for n in ("fc_weight", "fc_bias", "fc")}
    assert Group([var("x"), net]).list_attrs() == {}
    assert Symbol().list_attrs() == {}


def test_recursive_attributes_keep_duplicates_as_triples_and_merge_as_a_dictionary():
    net = call("add", Variable("x", attr={"a": "1"}), Variable("x", attr={"a": "2"}))
    assert net.list_attrs_recursive() == [("x", "a", "1"), ("x", "a", "2")]
    assert net.list_attrs("recursive") == net.list_attr(recursive=True) == {"x$a": "2"}


def test_attribute_dictionary_names_only_nodes_that_have_any():
    assert call("exp", Variable("x$y", attr={"a": "1"}), node="e").attr_dict() == {"x$y": {"a": "1"}}


# -- container -------------------------------------------------------------------------------------------------------


def test_length_iteration_and_index():
    split = call("split", var("x"), node="s")
    assert len(split) == 2
    assert [output.list_outputs() for output in split] == [["s_output0"], ["s_output1"]]
    assert split[1].outputs == [split.outputs[1]]
    assert split[True].outputs == split[1].outputs


def test_single_output_symbol_is_its_own_first_output():
    x = var("x")
    assert x[0] is x


def test_index_by_output_name():
    split = call("split", var("x"), node="s")
    assert split["s_output1"].outputs == [split.outputs[1]]
    assert split.get_internals()["x"].list_outputs() == ["x"]
    with pytest.raises(SymbolValueError, match='Cannot find output that matches name "s"'):
        split["s"]
    with pytest.raises(SymbolValueError, match='There are multiple outputs with name "x"'):
        Group([var("x"), var("x")])["x"]


def test_slices_are_groups():
    group = Group([var(name) for name in "abcd"])
    assert group[1:3].list_outputs() == ["b", "c"]
    assert group[::2].list_outputs() == ["a", "c"]
    with pytest.raises(SymbolIndexError, match="selects none of the 4 outputs"):
        group[4:]


def test_bad_indices_are_named():
    x = var("x")
    with pytest.raises(SymbolIndexError, match="output 1 of a symbol of 1 outputs: <Symbol x>"):
        x[1]
    with pytest.raises(SymbolIndexError, match="Symbol only accept nonnegative index, got -1"):
        x[-1]
    for index in (1.0, np.int64(0), None):
        with pytest.raises(SymbolTypeError, match="Symbol only support integer index to fetch i-th output"):
            x[index]  # type: ignore[index]


def test_repr_names_the_node_or_the_group():
    assert repr(dense()) == "<Symbol fc>"
    assert repr(Group([var("x"), dense()])) == "<Symbol group [x, fc]>"


def test_symbols_are_neither_true_nor_hashable_nor_changed_in_place():
    x = var("x")
    with pytest.raises(NotImplementedForSymbol, match="A symbol has no truth value"):
        bool(x)
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)
    with pytest.raises(NotImplementedForSymbol, match="cannot be changed in place"):
        operator.iadd(x, 1)
    with pytest.raises(NotImplementedForSymbol, match="a symbol holds no values"):
        x.asnumpy()
