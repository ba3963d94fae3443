"""Variable: what is declared and how it is stored; hidden keys and their two spellings."""

from typing import Any

import numpy as np
import pytest

from symjax_nnvm.errors import SymbolTypeError, SymbolValueError
from symjax_nnvm.symbol.hidden_keys import HIDDEN_KEYS, hidden_key
from symjax_nnvm.symbol.variable import Variable
from tests.support.core_toys import node_of, var

# -- hidden keys -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", HIDDEN_KEYS)
def test_hidden_key_is_stored_with_underscores_and_read_both_ways(key: str):
    x = Variable("x", attr={key: "2"})
    assert node_of(x).attrs.dict == {f"__{key}__": "2"}
    assert x.attr(key) == x.attr(f"__{key}__") == "2"
    assert x.get_attr(key) is None
    assert x.list_attr() == x.attr_dict()["x"] == {f"__{key}__": "2", key: "2"}


def test_key_that_starts_with_a_hidden_one_is_hidden_on_operators_only():
    assert hidden_key("lr_mult_extra") == "__lr_mult_extra__"
    assert hidden_key("lr_mult_extra", exact=True) == "lr_mult_extra"
    assert hidden_key("other") == "other"


@pytest.mark.parametrize("exact", [True, False])
def test_key_that_ends_with_a_hidden_one_belongs_on_the_variable(exact: bool):
    message = (
        "setting variable attributes with weight_lr_mult is deprecated. please instead use\n"
        r"w = Variable\(lr_mult=...\)\nsym = YourSymbolName\(weight=w\)"
    )
    with pytest.raises(SymbolValueError, match=message):
        hidden_key("weight_lr_mult", exact=exact)


def test_attributes_set_mxnets_way_are_strings():
    x = var("x")
    x._set_attr(lr_mult="2", mine="a")
    assert x.list_attrs() == {"__lr_mult__": "2", "mine": "a"}
    with pytest.raises(SymbolValueError, match="Set Attr only accepts string values, got 1"):
        x._set_attr(mine=1)  # type: ignore[arg-type]
    assert x.attr("mine") == "a"


# -- Variable --------------------------------------------------------------------------------------------------------


def test_variable_declarations_are_stored_as_mxnet_stores_them():
    x = Variable(
        "x", shape=(2, 0), lr_mult=0.5, wd_mult=2, dtype="float16", init='["zero", {}]', stype="csr", __k__="v"
    )
    assert x.list_attrs() == {
        "__shape__": "(2, 0)",
        "__lr_mult__": "0.5",
        "__wd_mult__": "2",
        "__dtype__": "2",
        "__init__": '["zero", {}]',
        "__storage_type__": "2",
        "__k__": "v",
    }


@pytest.mark.parametrize(
    ("dtype", "code"),
    [("float32", 0), (np.float64, 1), (np.dtype("uint8"), 3), (4, 4), ("int64", 6), ("bool", 7), ("bfloat16", 12)],
)
def test_variable_dtype_is_stored_as_a_number(dtype: Any, code: int):
    assert Variable("x", dtype=dtype).attr("__dtype__") == str(code)


def test_variable_shape_of_one_dimension_is_written_as_a_tuple():
    assert Variable("x", shape=tuple(np.zeros(5).shape)).attr("__shape__") == "(5,)"
    assert Variable("x", shape=()).attr("__shape__") == "()"


def test_variable_shape_that_is_a_list_is_written_with_brackets():
    listed = Variable("x", shape=[2, 3])
    assert listed.attr("__shape__") == "[2, 3]"
    assert Variable("x", shape="(2, 3)").infer_shape()[1] == [(2, 3)]  # pyright: ignore[reportArgumentType]
    assert Variable("x", shape=np.int64(3)).infer_shape()[1] == [(3,)]  # pyright: ignore[reportArgumentType]
    with pytest.raises(SymbolTypeError, match="a tuple of sizes, or one size; got 2.5 of float"):
        Variable("x", shape=2.5)  # pyright: ignore[reportArgumentType]
    assert Variable("x", shape=[4]).attr("__shape__") == "[4]"
    assert listed.exp().infer_shape()[1] == [(2, 3)]


def test_initialiser_object_is_stored_by_its_dump():
    class Init:
        def dumps(self) -> str:
            return '["one", {}]'

    assert Variable("x", init=Init()).attr("__init__") == '["one", {}]'


def test_bad_variable_arguments_are_named():
    with pytest.raises(SymbolTypeError, match="Expect a string for variable `name`, got int"):
        Variable(3)  # type: ignore[arg-type]
    with pytest.raises(
        SymbolValueError, match="Attribute name=mine is not supported. Additional attributes must start"
    ):
        Variable("x", mine="1")
    with pytest.raises(SymbolValueError, match="Attributes need to be string, but a is 1"):
        Variable("x", attr={"a": 1})  # type: ignore[dict-item]
    with pytest.raises(SymbolTypeError, match="dtype of a variable: unknown dtype 'complex64'"):
        Variable("x", dtype="complex64")


def test_attribute_name_renames_the_variable():
    assert Variable("x", attr={"name": "y"}).name == "y"
