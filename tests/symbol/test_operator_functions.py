"""Operator functions: how calls become inputs, parameters, attributes and names."""

# Some calls are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import pickle
import threading
from dataclasses import dataclass

import numpy as np
import pytest

from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import ComposeError, ParamError, SymbolTypeError, SymbolValueError
from symjax_nnvm.ir.params import param
from symjax_nnvm.ir.register import register_op
from symjax_nnvm.symbol import namespaces
from symjax_nnvm.symbol.operator_functions import operator_function
from symjax_nnvm.symbol.scope import AttrScope, NameManager, Prefix
from symjax_nnvm.symbol.symbol import Symbol
from symjax_nnvm.symbol.variable import Variable
from tests.support.core_toys import call, node_of, var

PREFIX = "_test_function_"


@dataclass(frozen=True, kw_only=True)
class DenseParams:
    num_hidden: int = param(ge=1, doc="length of the output's last axis")
    no_bias: bool = False
    axis: int | None = param(None, alias="dim")


@dataclass(frozen=True, kw_only=True)
class ConcatParams:
    num_args: int
    dim: int = 1


_DENSE = register_op(
    PREFIX + "Dense",
    params=DenseParams,
    inputs=("data", "weight", "bias"),
    inputs_used=lambda p: ("data", "weight", "bias")[: 3 - p.no_bias],
    aliases=(PREFIX + "Alias",),
    doc="Rows times weights.",
)
_CONCAT = register_op(PREFIX + "concat", params=ConcatParams, variadic="num_args")
_PAIRS = register_op(
    PREFIX + "pairs",
    params=ConcatParams,
    inputs=(),
    inputs_used=lambda p: [f"{name}_{i}" for i in range(p.num_args) for name in ("left", "right")],
)

dense = operator_function(_DENSE, "Dense")
concat = operator_function(_CONCAT, "concat")


@pytest.fixture(autouse=True)
def fresh_names():
    with NameManager():
        yield


def test_name_is_made_from_the_functions_name_in_lower_case():
    assert dense(var("x"), num_hidden=3).list_arguments() == ["x", "dense0_weight", "dense0_bias"]
    assert dense(var("x"), num_hidden=3).name == "dense1"
    assert operator_function(_DENSE, "Alias")(var("x"), num_hidden=3).name == "alias0"


def test_given_name_does_not_use_up_a_number():
    assert dense(var("x"), num_hidden=3, name="fc").name == "fc"
    assert dense(var("x"), num_hidden=3).name == "dense0"


def test_prefix_reaches_operator_functions():
    with Prefix("p_"):
        assert dense(var("x"), num_hidden=3, name="fc").list_arguments() == ["x", "p_fc_weight", "p_fc_bias"]


def test_parameters_are_stored_as_text_and_parsed():
    net = dense(var("x"), num_hidden=np.int64(3), no_bias=True)
    assert net.list_attrs() == {"num_hidden": "3", "no_bias": "True"}
    assert node_of(net).attrs.parsed == DenseParams(num_hidden=3, no_bias=True)
    assert net.list_arguments() == ["x", "dense0_weight"]


def test_inputs_by_position_and_keyword_mix():
    assert dense(var("x"), bias=var("b"), num_hidden=3).list_arguments() == ["x", "dense0_weight", "b"]
    assert dense(None, var("w"), num_hidden=3).list_arguments() == ["dense1_data", "w", "dense1_bias"]
    assert dense(var("x"), var("w"), var("b"), 4).list_attrs() == {"num_hidden": "4"}


def test_second_spelling_of_a_parameter_is_stored_under_the_first():
    assert dense(var("x"), num_hidden=3, dim=1).list_attrs() == {"num_hidden": "3", "axis": "1"}


def test_count_of_a_variadic_operator_is_taken_from_the_call():
    net = concat(var("a"), var("b"), dim=0)
    assert (net.list_arguments(), net.attr("num_args")) == (["a", "b"], "2")
    assert concat(arg0=var("a"), arg1=var("b")).list_arguments() == ["a", "b"]


def test_larger_count_leaves_the_rest_to_new_variables():
    assert concat(var("a"), num_args=3).list_arguments() == ["a", "concat0_arg1", "concat0_arg2"]


def test_inputs_without_fixed_names_are_not_counted_when_parameters_name_them():
    pairs = operator_function(_PAIRS, "pairs")
    assert pairs(var("a"), var("b"), num_args=1, name="n").list_arguments() == ["a", "b"]
    names = ["a", "n_right_0", "n_left_1", "n_right_1"]
    assert pairs(var("a"), num_args=2, name="n").list_arguments() == names
    assert pairs(left_0=var("a"), num_args=2, name="n").list_arguments() == names
    with pytest.raises(ParamError, match="Required parameter num_args"):
        pairs(var("a"), var("b"))


def test_variadic_inputs_are_positional_or_named_not_both():
    with pytest.raises(
        SymbolTypeError, match="Operators with variable length input can only accept inputSymbols either"
    ):
        concat(var("a"), arg1=var("b"))
    with pytest.raises(SymbolTypeError, match="Positional arguments must be Symbol instances, but got 3"):
        concat(var("a"), 3)


@pytest.mark.parametrize("bad", [3, "x", [1]])
def test_inputs_are_symbols(bad):
    with pytest.raises(SymbolTypeError, match="Argument data must be Symbol instances, but got"):
        dense(bad, num_hidden=3)
    with pytest.raises(SymbolTypeError, match="Argument weight must be Symbol instances, but got"):
        dense(var("x"), weight=bad, num_hidden=3)


def test_bad_calls_are_refused_before_a_name_is_used_up():
    with pytest.raises(ParamError, match="Required parameter num_hidden of int is not presented"):
        dense(var("x"))
    with pytest.raises(
        ParamError, match="Cannot find argument 'hidden', Possible Arguments: num_hidden, no_bias, axis"
    ):
        dense(var("x"), num_hidden=3, hidden=4)
    with pytest.raises(SymbolTypeError, match="got two values for input data"):
        dense(var("x"), data=var("y"), num_hidden=3)
    with pytest.raises(SymbolTypeError, match="takes 6 positional arguments"):
        dense(var("x"), var("w"), var("b"), 3, True, 1, 2)
    assert dense(var("x"), num_hidden=3).name == "dense0"


def test_unknown_input_is_a_compose_error():
    with pytest.raises(ComposeError, match="argument name kernel not found"):
        dense(var("x"), kernel=var("w"), num_hidden=3)


def test_group_is_refused_as_one_input():
    with pytest.raises(ComposeError, match="is a tuple, single value is required"):
        dense(call("split", var("x")), num_hidden=3)


def test_explicit_attributes_win_over_the_scope_and_reach_the_automatic_variables():
    with AttrScope(__group__="scope", lr_mult="2"):
        net = dense(var("x"), num_hidden=3, attr={"__group__": "own"})
    expected = {"num_hidden": "3", "__group__": "own", "__lr_mult__": "2"}
    assert net.list_attrs() == expected
    assert node_of(net).inputs[1].node.attrs.dict == expected


def test_attributes_on_operators_are_text_between_double_underscores():
    with pytest.raises(ParamError, match="An attribute of your own must be spelled __mine__"):
        dense(var("x"), num_hidden=3, attr={"mine": "1"})
    with pytest.raises(SymbolValueError, match="Attributes need to be string, but __mine__ is 1"):
        dense(var("x"), num_hidden=3, attr={"__mine__": 1})
    with pytest.raises(SymbolValueError, match="setting variable attributes with weight_lr_mult is deprecated"):
        dense(var("x"), num_hidden=3, attr={"weight_lr_mult": "1"})


def test_out_is_accepted_and_ignored():
    assert dense(var("x"), num_hidden=3, out=None).name == "dense0"


def test_function_documents_the_operator():
    function = operator_function(_DENSE, PREFIX + "Alias")
    assert function.__name__ == PREFIX + "Alias"
    assert function.__doc__ is not None
    assert f"Another name of `{PREFIX}Dense`." in function.__doc__
    assert "num_hidden: int ≥ 1, required. length of the output's last axis" in function.__doc__


def test_module_makes_functions_of_operators_registered_later():
    register_op(PREFIX + "later")
    assert isinstance(getattr(sym, PREFIX + "later")(Variable("x")), Symbol)
    assert PREFIX + "later" in dir(sym)
    with pytest.raises(AttributeError, match="no registered operator is named 'no_such_op'"):
        _ = sym.no_such_op


@pytest.mark.parametrize("group", [sym, sym.contrib])
def test_names_that_are_close_are_looked_for_when_the_message_is_read(group, monkeypatch):
    looked_for: list[str] = []
    monkeypatch.setattr(namespaces, "closest", lambda name, names: looked_for.append(name) or [])
    assert not hasattr(group, "no_such_function")
    assert not looked_for
    with pytest.raises(AttributeError) as caught:
        _ = group.no_such_function
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert looked_for == ["no_such_function"]


def test_threads_name_their_operators_apart():
    found: list[str | None] = []
    dense(var("x"), num_hidden=3)
    thread = threading.Thread(target=lambda: found.append(dense(var("x"), num_hidden=3).name))
    thread.start()
    thread.join()
    assert found == ["dense0"]


@pytest.mark.parametrize("call", [lambda x: sym.reshape(x, shape=sym.shape_array(x)), lambda x: sym.tile(x, reps=x)])
def test_a_parameter_cannot_be_what_the_graph_calculates(call):
    with pytest.raises(SymbolTypeError, match=r"takes a value, but got the symbol.*fixed when the graph is built"):
        call(var("x"))


def test_a_symbol_for_a_parameter_is_named_by_the_spelling_that_was_used():
    with pytest.raises(SymbolTypeError, match="Parameter dim of .*Dense takes a value"):
        dense(var("x"), num_hidden=3, dim=var("y"))


def test_operators_without_parameters_take_any_key_as_in_mxnet():
    net = sym.zeros_like(sym.Variable("x"), dtype="float16", name="zeros")
    assert net.attr_dict()["zeros"] == {"dtype": "float16"}
    assert net.infer_type(x="float32")[1] == [np.float32]
    with pytest.raises(ParamError, match="Cannot find argument 'foo'"):
        sym.Flatten(sym.FullyConnected(sym.Variable("x"), num_hidden=2, foo=1))
