"""NameManager, Prefix, AttrScope: what a `with` block adds to the symbols made inside it."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from symjax_nnvm.errors import SymbolValueError
from symjax_nnvm.symbol.scope import AttrScope, NameManager, Prefix
from symjax_nnvm.symbol.symbol import Symbol, create_operator
from symjax_nnvm.symbol.variable import Variable
from tests.support.core_toys import op


def make(name: str | None = None, hint: str = "toy") -> Symbol:
    return create_operator(op("dense"), (Variable("x"),), {}, {"num_hidden": "3"}, name, hint)


def in_new_thread(work: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


# -- names -----------------------------------------------------------------------------------------------------------


def test_given_name_is_kept_and_missing_ones_are_counted_per_hint():
    manager = NameManager()
    assert [manager.get(None, "fc"), manager.get("mine", "fc"), manager.get("", "fc"), manager.get(None, "bn")] == [
        *("fc0", "mine", "fc1", "bn0")
    ]


def test_automatic_name_is_made_before_the_variables_are():
    with NameManager():
        net = make()
        assert net.name == "toy0"
        assert net.list_arguments() == ["x", "toy0_weight", "toy0_bias"]


def test_fresh_manager_restarts_the_counters_and_the_outer_one_goes_on():
    with NameManager():
        assert make().name == "toy0"
        with NameManager():
            assert make().name == "toy0"
        assert make().name == "toy1"


def test_prefix_goes_before_given_and_automatic_names_but_not_variables():
    with Prefix("p_"):
        assert make("fc").list_arguments() == ["x", "p_fc_weight", "p_fc_bias"]
        assert make().name == "p_toy0"


def test_inner_prefix_replaces_the_outer():
    with Prefix("a_"), Prefix("b_"):
        assert make("fc").name == "b_fc"


def test_manager_in_use_is_current():
    with Prefix("p_") as prefix:
        assert NameManager.current is prefix
    assert NameManager.current is not prefix


def test_manager_leaves_the_scope_after_an_error():
    before = NameManager.current
    with pytest.raises(RuntimeError), NameManager():
        raise RuntimeError
    assert NameManager.current is before


def test_threads_have_their_own_managers_and_scopes():
    with Prefix("outer_"), AttrScope(__stage__="1"):
        make("used")
        assert in_new_thread(lambda: NameManager.current.get(None, "toy")) == "toy0"
        assert in_new_thread(lambda: AttrScope.current.get(None)) == {}
        assert in_new_thread(lambda: type(Prefix.current)) is NameManager


# -- attributes ------------------------------------------------------------------------------------------------------


def test_scope_sets_attributes_of_variables_and_explicit_ones_win():
    with AttrScope(__group__="4", __data__="scope"):
        x = Variable("x", attr={"__data__": "own"})
    assert x.list_attrs() == {"__group__": "4", "__data__": "own"}


def test_inner_scope_wins_and_the_outer_shines_through():
    with AttrScope(__a__="1", __b__="1"), AttrScope(__b__="2") as inner:
        assert AttrScope.current is inner
        assert Variable("x").list_attrs() == {"__a__": "1", "__b__": "2"}
    assert Variable("y").list_attrs() == {}


def test_scope_get_without_attributes_is_an_empty_dictionary():
    assert AttrScope().get(None) == {}
    assert AttrScope(__a__="1").get({"__b__": "2"}) == {"__a__": "1", "__b__": "2"}
    assert AttrScope().is_empty
    assert not AttrScope(__a__="1").is_empty


def test_what_get_returns_may_be_changed():
    scope = AttrScope(__a__="1")
    scope.get(None)["__a__"] = "2"
    assert scope.get(None) == {"__a__": "1"}


def test_scope_values_are_strings():
    with pytest.raises(SymbolValueError, match="Attributes need to be string, but __a__ is 1"):
        AttrScope(__a__=1)  # type: ignore[arg-type]


def test_deviation_reused_attr_scope_does_not_keep_outer_attributes():
    scope = AttrScope(__own__="1")
    with AttrScope(__outer__="1"), scope:
        assert Variable("x").list_attrs() == {"__own__": "1", "__outer__": "1"}
    with scope:
        assert Variable("y").list_attrs() == {"__own__": "1"}
        with scope:
            assert Variable("z").list_attrs() == {"__own__": "1"}


def test_scope_entered_in_two_threads_at_once_keeps_them_apart():
    scope, barrier = AttrScope(__own__="1"), threading.Barrier(2)

    def work(i: int) -> dict[str, str]:
        with AttrScope(**{f"__outer{i}__": "1"}), scope:
            barrier.wait()
            found = Variable("x").list_attrs()
            barrier.wait()
        return found

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(work, range(2))) == [{f"__outer{i}__": "1", "__own__": "1"} for i in range(2)]


def test_scope_is_left_after_an_error():
    with pytest.raises(RuntimeError), AttrScope(__a__="1"):
        raise RuntimeError
    assert AttrScope.current.is_empty
