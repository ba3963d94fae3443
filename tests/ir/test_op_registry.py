"""The operator registry: names, aliases, arity, attributes with priorities, groups, threads."""

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from symjax_nnvm.errors import AttributeConflictError, GraphError, NNVMError, OpNotRegisteredError
from symjax_nnvm.ir import op as op_module
from symjax_nnvm.ir.node import NodeAttrs
from symjax_nnvm.ir.op import (
    DEFAULT_PLEVEL,
    GROUP_PLEVEL,
    ArgumentInfo,
    Op,
    OpGroup,
    get_op,
    list_all_names,
    list_ops,
    list_unique_ops,
    register,
)
from tests.support.core_toys import fresh_name

THREADS = 8


def fresh_op() -> Op:
    return register(fresh_name("op"))


# -- names -----------------------------------------------------------------------------------------------------------


def test_new_operator_has_nnvm_defaults():
    op = fresh_op()
    attrs = NodeAttrs(op)
    assert (op.description, op.arguments, op.support_level, op.attr_parser) == ("", [], 10, None)
    assert (op.num_inputs(attrs), op.num_outputs(attrs)) == (1, 1)


def test_registering_a_known_name_or_alias_returns_the_same_operator():
    op = fresh_op()
    alias = fresh_name("alias")
    op.add_alias(alias)
    assert register(op.name) is op
    assert register(alias) is op
    assert Op.get(alias) is op
    assert get_op(op.name) is op
    assert Op.exists(alias)


def test_unknown_operator_is_an_error_of_both_families():
    with pytest.raises(OpNotRegisteredError, match="^Operator no_such_op is not registered$") as caught:
        Op.get("no_such_op")
    assert isinstance(caught.value, KeyError)
    assert isinstance(caught.value, NNVMError)
    assert not Op.exists("no_such_op")


def test_alias_of_the_same_operator_may_be_repeated():
    op, alias = fresh_op(), fresh_name("alias")
    assert op.add_alias(alias).add_alias(alias).aliases == [alias]
    assert op.add_alias(op.name).aliases == [alias]


def test_alias_taken_by_another_operator_is_an_error():
    first, second = fresh_op(), fresh_op()
    message = f"Trying to register alias {first.name} for key {second.name} but {first.name} is already taken"
    with pytest.raises(AttributeConflictError, match=f"^{message}$"):
        second.add_alias(first.name)
    assert second.aliases == []


def test_listing_names_includes_aliases_sorted_and_unique_operators_do_not():
    op, alias = fresh_op(), fresh_name("alias")
    op.add_alias(alias)
    names = list_all_names()
    assert names == sorted(names)
    assert {op.name, alias} <= set(names)
    assert list_ops() == names
    unique = list_unique_ops()
    assert [o.index for o in unique] == list(range(len(unique)))
    assert alias not in {o.name for o in unique}


def test_operator_pickles_by_name():
    op = fresh_op()
    assert pickle.loads(pickle.dumps(op)) is op


# -- arity and documentation -----------------------------------------------------------------------------------------


def test_arity_function_wins_over_a_number_set_before_or_after():
    op = fresh_op().set_num_inputs(lambda attrs: int(attrs.dict["n"])).set_num_inputs(7)
    op.set_num_outputs(3).set_num_outputs(lambda attrs: 2)
    attrs = NodeAttrs(op, "", {"n": "5"})
    assert (op.num_inputs(attrs), op.num_outputs(attrs)) == (5, 2)
    assert (op.fixed_num_inputs, op.fixed_num_outputs) == (None, None)


def test_any_number_of_inputs_is_none():
    op = fresh_op().set_num_inputs(None)
    assert op.num_inputs(NodeAttrs(op)) is None


def test_describe_replaces_and_arguments_append():
    op = fresh_op().describe("old").describe("new").set_support_level(3)
    op.add_argument("data", "Tensor", "input").add_arguments([ArgumentInfo("axis", "int")])
    assert (op.description, op.support_level) == ("new", 3)
    assert [argument.name for argument in op.arguments] == ["data", "axis"]


def test_parser_set_later_replaces_the_earlier():
    first, second = (lambda attrs: None), (lambda attrs: None)
    assert fresh_op().set_attr_parser(first).set_attr_parser(second).attr_parser is second


# -- attributes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plevel", [0, -1])
def test_priority_must_be_positive(plevel: int):
    with pytest.raises(AttributeConflictError, match="plevel in set_attr must be greater than 0"):
        fresh_op().set_attr(fresh_name("key"), 1, plevel=plevel)


@pytest.mark.parametrize("first", [1, 10, 11])
@pytest.mark.parametrize("second", [1, 10, 11])
def test_priority_decides_which_value_stays(first: int, second: int):
    op, key = fresh_op(), fresh_name("key")
    op.set_attr(key, "first", plevel=first)
    if first == second:
        message = f"Attribute {key} of operator {op.name} is already registered with same plevel={first}"
        with pytest.raises(AttributeConflictError, match=f"^{message}$"):
            op.set_attr(key, "second", plevel=second)
    else:
        op.set_attr(key, "second", plevel=second)
    assert Op.get_attr(key)[op] == ("second" if second > first else "first")


def test_values_of_one_attribute_have_one_type():
    op, other, key = fresh_op(), fresh_op(), fresh_name("key")
    op.set_attr(key, 1)
    message = f"Attribute {key} of operator {other.name} is registered as inconsistent types previously int current str"
    with pytest.raises(AttributeConflictError, match=message):
        other.set_attr(key, "one")
    with pytest.raises(AttributeConflictError, match="previously int current function"):
        op.set_attr(key, lambda attrs: 1, plevel=11)
    assert Op.get_attr(key)[op] == 1
    assert not Op.get_attr(key).contains(other)


def test_functions_of_every_kind_are_one_type():
    key = fresh_name("key")
    fresh_op().set_attr(key, lambda attrs: 1)
    fresh_op().set_attr(key, len)
    assert len(Op.get_attr(key)) == 2


def test_attribute_table_is_live_and_one_per_key():
    key = fresh_name("key")
    table = Op.get_attr(key)
    op = fresh_op()
    assert (table.count(op), table.contains(op), op in table) == (0, False, False)
    op.set_attr(key, 4)
    assert Op.get_attr(key) is table
    assert (table.count(op), table.contains(op), op in table, table[op]) == (1, True, True, 4)


def test_missing_attribute_is_an_error_or_the_default():
    op, key = fresh_op(), fresh_name("key")
    table = Op.get_attr(key)
    with pytest.raises(GraphError, match=f"^Attribute {key} has not been registered for Operator {op.name}$"):
        table[op]
    assert table.get(op) is None
    assert table.get(op, 3) == 3


def test_variable_has_no_attributes():
    table = Op.get_attr(fresh_name("key"))
    with pytest.raises(GraphError, match="which has no operator"):
        table[None]
    assert (table.get(None, 5), table.count(None), table.contains(None)) == (5, 0, False)


def test_false_and_none_are_values_like_any_other():
    op, key = fresh_op(), fresh_name("key")
    op.set_attr(key, False)
    assert Op.get_attr(key).get(op, True) is False


# -- groups ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("joins_first", [True, False])
def test_group_sets_its_attributes_on_members_of_either_order(joins_first: bool):
    group, key, op = fresh_name("group"), fresh_name("key"), fresh_op()
    if joins_first:
        op.include(group)
    OpGroup.get(group).set_attr(key, "shared")
    if not joins_first:
        op.include(group)
    assert Op.get_attr(key)[op] == "shared"


@pytest.mark.parametrize("group_first", [True, False])
def test_operators_own_attribute_beats_its_groups(group_first: bool):
    assert GROUP_PLEVEL < DEFAULT_PLEVEL
    group, key, op = fresh_name("group"), fresh_name("key"), fresh_op()
    OpGroup.get(group).set_attr(key, "group")
    if group_first:
        op.include(group)
    op.set_attr(key, "own")
    if not group_first:
        op.include(group)
    assert Op.get_attr(key)[op] == "own"


def test_group_attribute_set_twice_fails_once_there_is_a_member():
    group, key = OpGroup.get(fresh_name("group")), fresh_name("key")
    fresh_op().include(group.name)
    group.set_attr(key, 1)
    with pytest.raises(AttributeConflictError, match="already registered with same plevel=1"):
        group.set_attr(key, 2)


def test_including_a_group_again_fails_only_where_the_group_value_is_held():
    group, key = fresh_name("group"), fresh_name("key")
    OpGroup.get(group).set_attr(key, 1)
    holder, overrider = fresh_op().include(group), fresh_op().set_attr(key, 2)
    with pytest.raises(AttributeConflictError, match="same plevel=1"):
        holder.include(group)
    overrider.include(group).include(group)
    assert Op.get_attr(key)[overrider] == 2


# -- threads ---------------------------------------------------------------------------------------------------------


def in_threads(work) -> list:
    barrier = threading.Barrier(THREADS)

    def start(i: int):
        barrier.wait()
        return work(i)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(start, range(THREADS)))


def test_threads_that_register_one_name_get_one_operator():
    name = fresh_name("raced")
    assert len(set(in_threads(lambda i: register(name)))) == 1


def test_registration_numbers_stay_dense_under_threads():
    stem = fresh_name("many")
    in_threads(lambda i: [register(f"{stem}_{i}_{k}") for k in range(50)])
    indices = [op.index for op in list_unique_ops()]
    assert indices == list(range(len(indices)))


def test_of_equal_priorities_set_by_threads_exactly_one_wins():
    op, key = fresh_op(), fresh_name("key")

    def attempt(i: int) -> bool:
        try:
            op.set_attr(key, i)
        except AttributeConflictError:
            return False
        return True

    assert sum(in_threads(attempt)) == 1


def test_alias_raced_by_threads_goes_to_one_operator():
    alias = fresh_name("alias")
    ops = [fresh_op() for _ in range(THREADS)]

    def attempt(i: int) -> bool:
        try:
            ops[i].add_alias(alias)
        except AttributeConflictError:
            return False
        return True

    assert sum(in_threads(attempt)) == 1


def test_deviation_registry_lock_makes_writers_wait():
    op, key = fresh_op(), fresh_name("key")
    writer = threading.Thread(target=op.set_attr, args=(key, 1))
    with op_module._lock:
        writer.start()
        writer.join(0.05)
        assert writer.is_alive()
        assert Op.get_attr(key).get(op) is None
        op.set_attr(fresh_name("key"), 1)  # the holder itself may go on: the lock is re-entrant
    writer.join()
    assert Op.get_attr(key)[op] == 1
