"""PlanMemory: sharing, in-place operators, codes, errors, and safety on random graphs."""

import random
from typing import Any

import pytest

from symjax_nnvm.errors import PassError
from symjax_nnvm.ir.attributes import FIgnoreInputs
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.indexed_graph import IndexedGraph
from symjax_nnvm.ir.op import register
from symjax_nnvm.ir.pass_registry import apply_pass
from symjax_nnvm.ir.types import DTypeList, ShapeList, shape_size
from symjax_nnvm.passes.plan_memory import plan_memory
from symjax_nnvm.symbol.symbol import Symbol
from symjax_nnvm.symbol.variable import Group
from tests.support.core_toys import PREFIX, call, fresh_name, op, random_entries, var


def plan(*heads: Symbol, shapes: Any = (2, 3), dtypes: Any = "float32", **options: Any) -> dict[str, Any]:
    """The four results, without the `storage_` prefix. One shape or dtype stands for all entries."""
    graph = Graph(Group(heads).outputs)
    entries = graph.indexed_graph().num_node_entries
    result = plan_memory(
        graph,
        shapes=[shapes] * entries if isinstance(shapes, tuple) or shapes is None else shapes,
        dtypes=[dtypes] * entries if isinstance(dtypes, str) else dtypes,
        **options,
    )
    return {key.removeprefix("storage_"): value for key, value in result.attrs.items()}


def chain(length: int) -> list[Symbol]:
    found = [call("exp", var("x"))]
    while len(found) < length:
        found.append(call("exp", found[-1]))
    return found


def test_chain_of_equal_shapes_runs_in_place():
    assert plan(chain(3)[-1]) == {
        "id": [-1, 0, 0, 0],
        "inplace_index": [-1, -1, 0, 0],
        "allocated_bytes": 24,
        "num_not_allocated": 0,
    }


def test_outputs_keep_blocks_of_their_own():
    found = plan(*chain(3))
    assert found["id"] == [-1, 0, 1, 2]
    assert found["allocated_bytes"] == 72


def test_hidden_outputs_that_nobody_uses_are_marked_and_freed():
    norm = call("norm", call("exp", var("x")), node="bn")
    found = plan(norm)
    entries = Graph(norm.outputs).indexed_graph().entry_rptr[-2:]
    assert found["id"][entries[0] : entries[1]] == [3, 2, 1]
    assert found["inplace_index"][entries[0] : entries[1]] == [-1, -2, -2]


def test_pass_reads_and_consumes_graph_attributes():
    graph = Graph(chain(2)[-1].outputs)
    graph.attrs |= {"shape": ShapeList([(2, 3)] * 3), "dtype": DTypeList(["float32"] * 3), "storage": [-1, -1, -2]}
    graph.attrs |= {"match_range": 0, "keep": 1}
    found = apply_pass(graph, "PlanMemory").attrs
    assert found["storage_id"] == [-1, 0, -2]
    assert "storage" not in found
    assert "match_range" not in found
    assert found["keep"] == 1
    assert "storage" in graph.attrs


@pytest.mark.parametrize(
    ("have", "missing", "provider"), [("shape", "dtype", "InferType"), ("dtype", "shape", "InferShape")]
)
def test_missing_shape_or_dtype_is_named_with_its_provider(have: str, missing: str, provider: str):
    graph = Graph(chain(1)[0].outputs, {have: []})
    with pytest.raises(PassError, match=f"Graph attr dependency {missing} is required by pass PlanMemory.*{provider}"):
        apply_pass(graph, "PlanMemory")


def test_element_takes_four_bytes_whatever_its_dtype():
    assert plan(chain(1)[0], dtypes="float64")["allocated_bytes"] == 24
    assert plan(chain(1)[0], dtypes="int8")["allocated_bytes"] == 24


def test_inplace_needs_as_many_elements():
    assert plan(chain(2)[-1], shapes=[(6,), (6,), (3, 2)])["inplace_index"] == [-1, -1, 0]
    assert plan(chain(2)[-1], shapes=[(6,), (6,), (5,)])["inplace_index"] == [-1, -1, -1]


def test_inplace_takes_dtypes_of_equal_width():
    assert plan(chain(2)[-1], dtypes=["float32", "float32", "int32"])["inplace_index"] == [-1, -1, 0]
    assert plan(chain(2)[-1], dtypes=["float32", "float32", "float16"])["inplace_index"] == [-1, -1, -1]
    assert plan(chain(2)[-1], dtypes=["float16", "float16", "bfloat16"])["inplace_index"] == [-1, -1, 0]


def test_inplace_pair_with_an_unknown_dtype_is_an_error():
    with pytest.raises(PassError, match=f"unknown type_flag=-1.*{PREFIX}exp.*Run InferType"):
        plan(chain(2)[-1], dtypes=["float32", "float32", None])


def test_input_in_use_elsewhere_is_not_overwritten():
    a = call("exp", var("x"))
    assert plan(call("exp", a), a)["id"] == [-1, 0, 1]


def test_identity_shares_even_an_input_in_use_elsewhere():
    a = call("exp", var("x"))
    found = plan(call("copy", a), a)
    assert found["id"] == [-1, 0, 0]
    assert found["inplace_index"] == [-1, -1, 0]


def test_identity_of_another_dtype_does_not_share_an_input_in_use():
    a = call("exp", var("x"))
    assert plan(call("copy", a), a, dtypes=["float32", "float32", "int32"])["id"] == [-1, 0, 1]


def test_second_pair_is_taken_when_the_first_input_is_in_use():
    a, b = call("exp", var("x")), call("exp", var("y"))
    assert plan(call("add", a, b), a)["inplace_index"] == [-1, -1, -1, -1, 1]


def test_ignored_input_is_free_before_the_operator_runs():
    big = call("exp", var("x"))
    found = plan(call("zeros_like", call("add", big, var("y"))), shapes=[(6,)] * 5)
    assert found["inplace_index"][-1] == -1  # all its inputs are ignored: nothing is overwritten in place


def test_ignored_input_is_not_overwritten_while_another_operator_still_reads_it():
    a = call("exp", var("x"))
    first = call("peek", a, var("y"))
    found = plan(call("add", first, a))
    block_of_a, block_of_first = found["id"][1], found["id"][3]
    assert block_of_a != block_of_first


def test_variables_and_unknown_shapes_have_no_block():
    found = plan(*chain(2), shapes=[(2,), None, (2, None)])
    assert found["id"] == [-1, -1, -1]
    assert found["num_not_allocated"] == 2
    assert found["allocated_bytes"] == 0


def test_preset_storage_is_left_alone():
    found = plan(*chain(3), storage=[-1, -2, -3, -1])
    assert found["id"] == [-1, -2, -3, 0]
    assert found["num_not_allocated"] == 0


def test_preset_block_numbers_are_refused():
    with pytest.raises(PassError, match=r"Wrong code in graph attribute storage; expected -1, -2 or -3; got \[-1, 7\]"):
        plan(chain(1)[0], storage=[-1, 7])


def test_blocks_are_not_shared_across_devices():
    b = call("split", call("exp", var("x")))[0]
    assert plan(b, device=[0, 0, 0])["allocated_bytes"] == 72
    c = call("split", b)[0]
    same = plan(c, device=[0, 0, 0, 0])["allocated_bytes"]
    assert plan(c, device=[0, 0, 0, 1])["allocated_bytes"] > same


def test_free_block_is_reused_within_the_match_range():
    def total(small: int, large: int, **options: Any) -> int:
        a = call("split", var("x"))
        c = call("split", call("split", a[0])[0])[0]
        return plan(c, shapes=[(1,)] + [(small,)] * 4 + [(large,)] * 2, **options)["allocated_bytes"]

    assert total(4, 64) < total(4, 65)  # within 16: grown; beyond: new
    assert total(4, 4, match_range=0) == 4 * 4 * 6


def test_search_of_the_match_range_keeps_the_smallest_plan():
    _, made = random_entries(5, ["exp", "add", "split"], 40)
    graph = Graph([made[-1]])
    rng = random.Random(5)
    entries = graph.indexed_graph().num_node_entries
    sizes = {"shapes": [(rng.randint(1, 400),) for _ in range(entries)], "dtypes": ["float32"] * entries}
    totals = [plan_memory(graph, **sizes, match_range=m).attrs["storage_allocated_bytes"] for m in (1, 2, 4, 8, 16)]
    assert plan_memory(graph, **sizes, search_match_range=True).attrs["storage_allocated_bytes"] == min(totals)


def test_negative_match_range_is_an_error():
    with pytest.raises(PassError, match="Wrong match range; expected a number ≥ 0; got -1"):
        plan(chain(1)[0], match_range=-1)


def test_wrong_lengths_are_errors():
    with pytest.raises(PassError, match="Wrong length of graph attribute shape; expected 2; got 1"):
        plan(chain(1)[0], shapes=[(2,)])
    with pytest.raises(PassError, match="Wrong length of graph attribute device; expected 2; got 3"):
        plan(chain(1)[0], device=[0, 0, 0])


def test_node_range_plans_only_these_nodes():
    assert plan(*chain(3), node_range=(2, 3))["id"] == [-1, -1, 0, -1]


def test_given_reference_counts_are_used():
    assert plan(chain(2)[-1], ref_count=[1, 2, 1])["inplace_index"] == [-1, -1, -1]


def test_inplace_flags_must_match_the_pairs():
    name = fresh_name("flags")
    register(name).set_attr("FInplaceOption", lambda a: [(0, 0)]).set_attr("FInplaceIdentity", lambda a: [True, False])
    symbol = Symbol.create_functor(name)
    symbol.compose(var("x"), name="bad")
    with pytest.raises(
        PassError,
        match=f"FInplaceOption and FInplaceIdentity returned vectors of different size for operator {name}.*node 'bad'",
    ):
        plan(symbol)


def overlaps(index: IndexedGraph, storage: list[int], inplace: list[int], dtypes: list[str]) -> list[tuple[int, int]]:
    """Pairs of entries with different values that are alive at once in one block."""
    last_use = [-1] * index.num_node_entries
    for nid, node in enumerate(index.nodes):
        ignores = FIgnoreInputs.get(node.source.op)
        ignored = set(() if ignores is None else ignores(node.source.attrs))
        for i, entry in enumerate(node.inputs):
            if i not in ignored:
                last_use[index.entry_id(entry)] = nid
    for head in index.outputs:
        last_use[index.entry_id(head)] = index.num_nodes
    value = list(range(index.num_node_entries))  # entries that hold the same value by identity
    live: dict[int, list[int]] = {}
    clashes = []
    for nid, node in enumerate(index.nodes):
        for out in range(index.entry_rptr[nid], index.entry_rptr[nid + 1]):
            sid = storage[out]
            if sid < 0:
                continue
            taken = index.entry_id(node.inputs[inplace[out]]) if inplace[out] >= 0 else None
            same_dtype = taken is not None and dtypes[taken] == dtypes[out]
            if taken is not None and same_dtype and node.source.op in IDENTITIES:
                value[out] = value[taken]
            for other in live.get(sid, []):
                still_read = last_use[other] > nid or (last_use[other] == nid and other != taken)
                sibling = other >= index.entry_rptr[nid]
                if (still_read or sibling) and value[other] != value[out]:
                    clashes.append((other, out))
            live.setdefault(sid, []).append(out)
    return clashes


IDENTITIES = {op("copy"), op("shape_like")}


@pytest.mark.parametrize("seed", range(150))
def test_no_two_live_entries_share_a_block(seed: int):
    rng = random.Random(seed)
    names = ["exp", "add", "copy", "split", "zeros_like", "shape_like", "peek", "norm"]
    variables, made = random_entries(seed, [n for n in names if n != "norm"], rng.randint(1, 40))
    graph = Graph(rng.choices(made + variables, k=rng.randint(1, 4)))
    index = graph.indexed_graph()
    shapes = [rng.choice([(2, 3), (6,), (1,), (24,), (100,), (0,), (), None]) for _ in range(index.num_node_entries)]
    dtypes = [rng.choice(["float32", "float32", "int32", "float64"]) for _ in shapes]
    for match_range in (0, 1, 16):
        found = plan_memory(graph, shapes=shapes, dtypes=dtypes, match_range=match_range).attrs
        assert overlaps(index, found["storage_id"], found["storage_inplace_index"], dtypes) == []
        blocks: dict[int, int] = {}
        for sid, shape in zip(found["storage_id"], shapes, strict=True):
            if sid >= 0:
                assert shape is not None
                blocks[sid] = max(blocks.get(sid, 0), 4 * shape_size(shape))
        assert found["storage_allocated_bytes"] >= sum(blocks.values())


def test_graph_and_its_nodes_are_not_edited():
    graph = Graph(chain(3)[-1].outputs)
    result = plan_memory(graph, shapes=[(2,)] * 4, dtypes=["float32"] * 4)
    assert graph.attrs == {}
    assert result.outputs == graph.outputs
    assert result.indexed_graph() is graph.indexed_graph()
