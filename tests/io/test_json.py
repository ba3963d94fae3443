"""SaveJSON and LoadJSON: MXNet's bytes, round trips, and the refusal of everything malformed."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symjax_nnvm.errors import JSONFormatError
from symjax_nnvm.io.symbol_json.graph_json import check_nodes, load_json, save_json
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, NodeAttrs, NodeEntry, apply, create_variable_node
from symjax_nnvm.ir.pass_registry import apply_pass, checking_passes
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.symbol import symbol as symbol_module
from symjax_nnvm.symbol.symbol import Symbol
from symjax_nnvm.symbol.variable import Group, Variable
from tests.support.pass_toys import GOLDEN_NAMES, PREFIX, toy

GOLDENS = sorted((Path(__file__).parent.parent / "goldens" / "json").glob("*.json"))
"""Written by MXNet 1.9.1 (`Symbol.tojson`, and `NNGraphApplyPasses` with SaveJSON for graph attributes)."""


def golden_text(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    for mxnet_name, toy_name in GOLDEN_NAMES.items():
        text = text.replace(f'"op": "{mxnet_name}"', f'"op": "{PREFIX}{toy_name}"')
    return text


def document() -> dict[str, Any]:
    """A good file: x, w → add."""
    net = toy("add", toy("relu", Variable("x"), node="act"), Variable("w"), node="plus")
    return json.loads(net.tojson())


# -- the text --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_text_is_mxnets_byte_for_byte(path):
    text = golden_text(path)
    assert save_json(load_json(text)) == text


def test_there_are_goldens():
    assert len(GOLDENS) >= 14


def test_tojson_carries_the_mxnet_version_and_the_pass_does_not():
    x = Variable("x")
    assert '"attrs": {"mxnet_version": ["int", 10901]}' in x.tojson()
    assert "attrs" not in json.loads(save_json(Graph(x.outputs)))
    assert apply_pass(Graph(x.outputs), "SaveJSON").outputs == []


def test_hidden_outputs_count_and_versions_are_kept():
    net = toy("norm", Variable("x"), node="bn")
    saved = json.loads(net.tojson())
    assert saved["node_row_ptr"] == [0, 1, 2, 3, 4, 5, 8]
    assert saved["nodes"][5]["inputs"] == [[0, 0, 0], [1, 0, 0], [2, 0, 0], [3, 0, 1], [4, 0, 1]]


def test_an_empty_graph():
    text = save_json(Graph())
    assert json.loads(text) == {"nodes": [], "arg_nodes": [], "node_row_ptr": [0], "heads": []}
    assert load_json(text).outputs == []


def test_attributes_that_are_not_text_are_refused():
    node = Node(NodeAttrs(None, "x", {"a": 1, "b": "2"}))  # type: ignore[dict-item]
    with pytest.raises(JSONFormatError, match=r"Attributes must be text; in node 'x'; got \{'a': 1\}"):
        save_json(Graph([NodeEntry(node)]))


@pytest.mark.parametrize("value", [1.5, None, True, {"a": "b"}, [1, "a"], object()])
def test_graph_attributes_that_json_cannot_hold(value):
    with pytest.raises(JSONFormatError, match="Graph attribute 'key' cannot be written as JSON"):
        save_json(Graph(attrs={"key": value}))


# -- round trips -----------------------------------------------------------------------------------------------------

_names = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
_attrs = st.dictionaries(_names.map(lambda s: f"__{s}k__"), _names, max_size=3)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Random graphs: shared nodes, several outputs, mutated variables, control dependencies, duplicate heads."""
    entries = [NodeEntry(create_variable_node(draw(_names), draw(_attrs))) for _ in range(3)]
    pick = lambda: draw(st.sampled_from(entries))  # noqa: E731
    for _ in range(draw(st.integers(0, 12))):
        kind = draw(st.sampled_from(["relu", "add", "split", "norm"]))
        if kind == "norm":
            states = [Symbol([NodeEntry(create_variable_node(draw(_names)))]) for _ in range(4)]
            node = toy("norm", Symbol([pick()]), *states, node=draw(_names)).outputs[0].node
            entries += [NodeEntry(node, i) for i in range(3)]
            continue
        inputs = [pick() for _ in range(2 if kind == "add" else 1)]
        params = {"num_outputs": draw(st.integers(1, 12))} if kind == "split" else {}
        deps = draw(st.lists(st.sampled_from(entries), max_size=2))
        node = apply(PREFIX + kind, *inputs, name=draw(_names), control_deps=[e.node for e in deps], **params).node
        node.attrs.dict |= draw(_attrs)
        entries += [NodeEntry(node, i) for i in range(node.num_outputs())]
    return Graph(draw(st.lists(st.sampled_from(entries), max_size=14)))


@pytest.mark.slow("computes much")
@given(graphs())
def test_saving_what_was_loaded_gives_the_same_text(graph):
    text = save_json(graph)
    loaded = load_json(text)
    assert save_json(loaded) == text
    assert [(n.name, n.op, n.attrs.dict) for n in post_order(loaded.outputs)] == [
        (n.name, n.op, n.attrs.dict) for n in post_order(graph.outputs)
    ]
    json.loads(text, strict=False)


@pytest.mark.slow("computes much")
@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=3),
        lambda c: (
            st.lists(c)
            | st.dictionaries(st.sampled_from(["nodes", "arg_nodes", "heads", "op", "name", "inputs", "attrs"]), c)
        ),
        max_leaves=12,
    )
)
def test_any_json_value_loads_or_is_refused(value):
    with contextlib.suppress(JSONFormatError):
        load_json(json.dumps(value))


@pytest.mark.slow("computes much")
@given(graphs(), st.data())
def test_a_damaged_file_loads_or_is_refused(graph, data):
    text = save_json(graph)
    at = data.draw(st.integers(0, len(text) - 1))
    damaged = text[:at] + data.draw(st.sampled_from(["", "0", "9", "-", '"', "[", "]", "{", "x"])) + text[at + 1 :]
    with contextlib.suppress(JSONFormatError):
        load_json(damaged)


def test_parameters_are_parsed_and_attributes_kept():
    net = symbol_module.load_json(toy("dense", Variable("x"), node="fc", num_hidden=4, __mark__="m").tojson())
    attrs = net.outputs[0].node.attrs
    assert attrs.parsed.num_hidden == 4
    assert attrs.dict == {"num_hidden": "4", "__mark__": "m"}


def test_composing_after_loading_continues_the_versions():
    states = [Variable(name) for name in ("mean", "var")]
    net = toy("norm", Variable("x"), Variable("g"), Variable("b"), *states, node="bn1")
    loaded = load_json(net.tojson())
    variables = {node.name: Symbol([NodeEntry(node)]) for node in post_order(loaded.outputs) if node.is_variable}
    again = toy(
        "norm", Symbol(loaded.outputs), Variable("g2"), Variable("b2"), variables["mean"], variables["var"], node="bn2"
    )
    assert [entry.version for entry in again.outputs[0].node.inputs] == [0, 0, 0, 2, 2]


def test_subgraphs_survive():
    inner = toy("relu", Variable("i"), node="inner")
    middle = toy("loop", inner, Variable("m"), node="middle", num_args=2)
    outer = toy("loop", middle, Variable("o"), node="outer", num_args=2)
    loaded = load_json(outer.tojson())
    assert save_json(loaded) == outer.tojson()
    (subgraph,) = loaded.outputs[0].node.attrs.subgraphs
    assert Symbol(subgraph.outputs).list_outputs() == ["middle_output"]
    assert Symbol(subgraph.outputs[0].node.attrs.subgraphs[0].outputs).list_inputs() == ["i"]


@pytest.mark.slow("computes much")
def test_a_chain_of_20000_nodes():
    head = NodeEntry(create_variable_node("x"))
    for i in range(20_000):
        head = apply(PREFIX + "relu", head, name=f"r{i}")
    text = save_json(Graph([head]))
    assert save_json(load_json(text)) == text


# -- what MXNet's files of all ages contain ----------------------------------------------------------------------------


def test_short_entries_old_fields_and_forward_references_are_read():
    relu, add = f"{PREFIX}dense", f"{PREFIX}add"
    old = {
        "nodes": [
            {"op": add, "name": "a", "inputs": [[1, 0], [2, 0]], "backward_source_id": -1},
            {
                "op": relu,
                "name": "r",
                "param": {"num_hidden": "3", "__k__": "param"},
                "attr": {"__k__": "attr"},
                "inputs": [[2, 0], [3, 0], [4, 0, 0]],
            },
            *({"op": "null", "name": name, "param": {}, "inputs": []} for name in "xwb"),
        ],
        "arg_nodes": [2, 3, 4],
        "heads": [[0, 0]],
    }
    loaded = load_json(json.dumps(old))
    assert [node.name for node in post_order(loaded.outputs)] == ["x", "w", "b", "r", "a"]
    assert loaded.outputs[0].node.inputs[0].node.attrs.dict == {"num_hidden": "3", "__k__": "attr"}


def test_control_characters_are_read():
    assert load_json(Variable("x").tojson().replace('"x"', '"x\x01"')).outputs[0].node.name == "x\x01"


def test_node_row_ptr_is_ignored():
    good = document()
    good["node_row_ptr"] = [99]
    load_json(json.dumps(good))


def test_reading_without_parsing_leaves_checks_for_later():
    bad = document()
    bad["nodes"][1]["inputs"] = []
    graph = load_json(json.dumps(bad), parse=False)
    assert graph.outputs[0].node.attrs.parsed is None
    with pytest.raises(
        JSONFormatError, match=r"The number of inputs is wrong.*node 'act'; expected 1 in field 'inputs'; got 0"
    ):
        check_nodes(post_order(graph.outputs), graph.outputs)
    with_attr = Graph(attrs={"json": json.dumps(bad), "load_json_no_parse": True})
    with checking_passes(False):  # what is not parsed yet is not sound yet
        assert len(apply_pass(with_attr, "LoadJSON").outputs) == 1


# -- refusals --------------------------------------------------------------------------------------------------------


def _node(i: int, **fields: object):
    return lambda d: d["nodes"][i].update(fields)


BAD: dict[str, tuple[Any, str]] = {
    "unknown graph field": (lambda d: d.update(zz=1), "Unknown field zz, candidates are: nodes.*in the graph"),
    "missing graph field": (lambda d: d.pop("heads"), 'Missing field "heads" in the graph'),
    "nodes no array": (lambda d: d.update(nodes={}), "field 'nodes' of the graph; expected an array"),
    "node no object": (lambda d: d["nodes"].append(3), "node 4; expected an object; got 3"),
    "unknown node field": (_node(1, nane="a"), "Unknown field nane, candidates are: op.*node 1 'act'"),
    "missing node field": (lambda d: d["nodes"][1].pop("inputs"), "Missing field \"inputs\" in node 1 'act'"),
    "name no string": (_node(1, name=3), "field 'name' of node 1; expected a string; got 3"),
    "op no string": (_node(1, op=None), "field 'op' of node 1 'act'; expected a string; got None"),
    "unknown operators": (
        lambda d: (_node(1, op="nope")(d), _node(3, op="nada")(d)),
        "Failed loading Op act of type nope: Operator nope is not registered.*unknown operators nada",
    ),
    "attribute no string": (_node(0, attrs={"a": 1}), "field 'attrs' of node 0 'x'; expected a string for 'a'; got 1"),
    "attributes no object": (_node(0, attr=[]), "field 'attr' of node 0 'x'; expected an object of strings"),
    "bad parameter": (
        _node(1, op=PREFIX + "dense", attrs={"num_hidden": "x"}),
        "Failed loading Op act of type _test_pass_dense: .*num_hidden",
    ),
    "entry too short": (_node(1, inputs=[[0]]), r"field 'inputs' of node 1 'act'; expected entries.*got \[0\]"),
    "entry too long": (_node(1, inputs=[[0, 0, 0, 0]]), "field 'inputs' of node 1 'act'"),
    "entry with float": (_node(1, inputs=[[0, 0.0, 0]]), "field 'inputs' of node 1 'act'.*integers"),
    "entry with NaN": (_node(1, inputs=[[float("nan"), 0, 0]]), "field 'inputs' of node 1 'act'.*nan"),
    "entry with bool": (_node(1, inputs=[[0, False, 0]]), "field 'inputs' of node 1 'act'"),
    "node number too large": (_node(1, inputs=[[4, 0, 0]]), "'inputs' of node 1 'act'.*nodes < 4"),
    "negative node number": (_node(1, inputs=[[-1, 0, 0]]), "'inputs' of node 1 'act'"),
    "version too large": (_node(1, inputs=[[0, 0, 1 << 40]]), "versions < 4294967296"),
    "output that is not there": (_node(1, inputs=[[0, 1, 0]]), "Input 0 of field 'inputs'.*node 'act'.*got 1"),
    "head that is not there": (lambda d: d.update(heads=[[3, 1, 0]]), "Head 0 of field 'heads'.*of node 'plus'; got 1"),
    "head of no node": (lambda d: d.update(heads=[[9, 0, 0]]), "field 'heads' of the graph"),
    "too few inputs": (_node(1, inputs=[]), "The number of inputs is wrong.*node 'act'"),
    "variable with inputs": (_node(0, inputs=[[2, 0, 0]]), "A variable takes no inputs; in node 'x'"),
    "cycle": (_node(1, inputs=[[3, 0, 0]]), "field 'inputs' of node 1 'act'; expected no cycle"),
    "cycle of one": (_node(1, inputs=[[1, 0, 0]]), "expected no cycle"),
    "cycle of control dependencies": (_node(1, control_deps=[3]), "expected no cycle"),
    "control dependency of no node": (_node(1, control_deps=[4]), "'control_deps' of node 1 'act'"),
    "arg_nodes with an operator": (
        lambda d: d.update(arg_nodes=[1]),
        "field 'arg_nodes'.*got '1, which is an operator'",
    ),
    "arg_nodes out of range": (lambda d: d.update(arg_nodes=[-1]), "field 'arg_nodes' of the graph.*got -1"),
    "mutated operator": (
        _node(3, op=PREFIX + "norm", inputs=[[0, 0], [0, 0], [0, 0], [1, 0], [2, 0]]),
        "Mutation target can only be Variable.*node 'plus', input 3; got the output of node 'act'",
    ),
    "too many outputs": (_node(1, op=PREFIX + "split", attrs={"num_outputs": "99999999"}), "too many outputs.*'act'"),
    "graph attribute of unknown type": (lambda d: d.update(attrs={"a": ["foo", 1]}), "Typename foo has not been"),
    "graph attribute without type": (lambda d: d.update(attrs={"a": 1}), r"field 'attrs' of the graph.*for 'a'"),
    "graph attribute of another type": (lambda d: d.update(attrs={"a": ["int", "1"]}), "'a' of type int; expected"),
    "subgraphs no array": (_node(1, subgraphs={}), "field 'subgraphs' of node 1 'act'"),
    "subgraph broken": (
        _node(1, subgraphs=[{"nodes": [{"op": "null", "name": "s"}], "arg_nodes": [], "heads": []}]),
        "Missing field \"inputs\" in node 0 's' of subgraph 0 of node 1 'act'",
    ),
}


@pytest.mark.parametrize(("damage", "message"), BAD.values(), ids=BAD.keys())
def test_malformed_files_are_refused_by_node_and_field(damage, message):
    bad = document()
    damage(bad)
    with pytest.raises(JSONFormatError, match=message):
        load_json(json.dumps(bad))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Malformed graph JSON: Expecting value"),
        ("[]", "the graph; expected an object"),
        ("[" * 200_000, "nested too deep"),
        ('{"nodes": [], "nodes": [], "arg_nodes": [], "heads": []}', "field 'nodes' occurs twice"),
        ('{"nodes": [], "arg_nodes": [], "heads": []} x', "Extra data"),
        (
            '{"nodes": [{"op": "null", "name": "\\ud800", "inputs": []}], "arg_nodes": [], "heads": []}',
            "half of a surrogate pair",
        ),
        (f'{{"nodes": [], "arg_nodes": [{"9" * 5000}], "heads": []}}', "Malformed graph JSON"),
    ],
)
def test_malformed_text_is_refused(text, message):
    with pytest.raises(JSONFormatError, match=message):
        load_json(text)


def test_text_must_be_text():
    with pytest.raises(JSONFormatError, match="Graph JSON must be text; got bytes"):
        load_json(b"{}")  # type: ignore[arg-type]


def test_deeply_nested_subgraphs_are_refused():
    graph: dict[str, Any] = {"nodes": [], "arg_nodes": [], "heads": []}
    for _ in range(70):
        node = {"op": PREFIX + "loop", "name": "n", "attrs": {"num_args": "1"}, "inputs": [], "subgraphs": [graph]}
        graph = {"nodes": [node], "arg_nodes": [], "heads": [[0, 0, 0]]}
    with pytest.raises(JSONFormatError, match="nested more than 64 levels"):
        load_json(json.dumps(graph))


def test_what_is_loaded_deepest_can_be_saved_and_one_more_cannot():
    symbol = toy("loop", Variable("x"), node="n", num_args=1)
    for _ in range(63):
        symbol = toy("loop", symbol, node="n", num_args=1)
    text = save_json(Graph(symbol.outputs))
    assert save_json(load_json(text)) == text
    deeper = toy("loop", Group([symbol]), node="n", num_args=1)
    with pytest.raises(JSONFormatError, match="nested more than 64 levels"):
        save_json(Graph(deeper.outputs))


def test_deeply_nested_values_in_a_field_are_refused():
    for depth in range(500, 1000, 25):
        with pytest.raises(JSONFormatError):
            load_json(f'{{"nodes": {"[" * depth}"\\u00e9"{"]" * depth}, "arg_nodes": [], "heads": []}}')
