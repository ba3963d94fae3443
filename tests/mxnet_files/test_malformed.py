"""Hostile symbol files, each kind by name: what is refused, in which words, and that nothing is allocated before."""

import json
import tracemalloc
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import symjax_nnvm as nn
from symjax_nnvm import graph as nnvm_graph
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, JSONFormatError
from symjax_nnvm.io.symbol_json import json_text as json_text
from symjax_nnvm.ir.params import schema_of
from symjax_nnvm.ops.nn.fully_connected import FullyConnectedParams
from tests.fuzz.contract import contract

READERS = (sym.load_json, nnvm_graph.load_json)


def graph_of(
    op: str = "relu", attrs: Mapping[str, str] | None = None, *, count: int = 1, shapes: Any = (), version: int = 10901
) -> dict[str, Any]:
    """One operator `n` on variables `x0`, `x1`, …, whose shapes are declared."""
    variables = [
        {"op": "null", "name": f"x{i}", "inputs": [], "attrs": {"__shape__": shapes[i]} if i < len(shapes) else {}}
        for i in range(count)
    ]
    node = {"op": op, "name": "n", "inputs": [[i, 0, 0] for i in range(count)], "attrs": dict(attrs or {})}
    return {
        "nodes": [*variables, node],
        "arg_nodes": list(range(count)),
        "heads": [[count, 0, 0]],
        "attrs": {"mxnet_version": ["int", version]},
    }


def refuses(text: str | dict[str, Any], message: str, readers: Any = READERS) -> None:
    """Every reader refuses the text, quickly and without much memory, in one message of bounded length."""
    text = text if isinstance(text, str) else json.dumps(text)
    for read in readers:
        with contract(len(text)), pytest.raises(JSONFormatError, match=message) as caught:
            read(text)
        assert len(str(caught.value)) < 10_000


# -- JSON as such ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, '{"nodes":' + "[" * 100_000 + "]" * 100_000 + "}"])
def test_100000_brackets_are_no_recursion_error(text: str):
    refuses(text, "nested too deep")


def test_subgraphs_nested_10000_deep():
    start = '{"nodes":[{"op":"_foreach","name":"a","inputs":[],"subgraphs":['
    end = ']}],"arg_nodes":[],"heads":[]}'
    refuses(start * 10_000 + end * 10_000, "nested too deep")
    refuses(start * 70 + '{"nodes":[],"arg_nodes":[],"heads":[]}' + end * 70, "nested more than 64 levels deep")


def test_integers_of_a_million_digits():
    refuses(f'{{"nodes":[],"arg_nodes":[{"1" * 1_000_000}],"heads":[]}}', "limit .4300 digits.")


def test_large_integers_are_shortened_in_messages():
    refuses({"nodes": [], "arg_nodes": [10**4000], "heads": []}, r"node numbers < 0; got 10+\.\.\.0+\.$")
    refuses(graph_of() | {"heads": [[1, 10**4000, 0]]}, "Head 0 of field 'heads' is an output that does not exist.*…")
    refuses(graph_of() | {"heads": [[1, 0, 1 << 33]]}, "versions < 4294967296")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "1.5", "true", "null", '"1"'])
def test_numbers_that_are_no_integers(number: str):
    refuses(
        f'{{"nodes":[],"arg_nodes":[{number}],"heads":[]}}', "'arg_nodes' of the graph; expected an array of integers"
    )
    refuses(
        f'{{"nodes":[],"arg_nodes":[],"heads":[],"attrs":{{"a":["int",{number}]}}}}', "'a' of type int; expected an int"
    )


def test_fields_that_occur_twice():
    refuses('{"nodes":[],"nodes":[],"arg_nodes":[],"heads":[]}', "field 'nodes' occurs twice in one object")
    node = '{"op":"null","name":"x","inputs":[],"attrs":{"a":"1","a":"2"}}'
    refuses(f'{{"nodes":[{node}],"arg_nodes":[],"heads":[]}}', "field 'a' occurs twice")


@pytest.mark.parametrize("text", ["\\ud800", "\ud800", "é\\udfff"])
def test_halves_of_surrogate_pairs(text: str):
    refuses(f'{{"nodes":[{{"op":"null","name":"{text}","inputs":[]}}],"arg_nodes":[],"heads":[]}}', "surrogate pair")


def test_files_that_are_no_text(tmp_path: Path):
    (tmp_path / "x-symbol.json").write_bytes(b'{"nodes": "\xff"}')
    with pytest.raises(JSONFormatError, match=r"x-symbol\.json is not a symbol file: it is not UTF-8 at byte 11"):
        sym.load(tmp_path / "x-symbol.json")
    with pytest.raises(JSONFormatError, match="not UTF-8"):
        nn.load_checkpoint(tmp_path / "x", 0)


def test_files_of_several_gigabytes_are_not_read(tmp_path: Path):
    with (tmp_path / "x-symbol.json").open("wb") as file:
        file.truncate(3 << 30)  # sparse: nothing is written
    with pytest.raises(JSONFormatError, match="is too large for a symbol file: expected at most 1073741824 bytes"):
        sym.load(tmp_path / "x-symbol.json")


def test_ten_million_nodes_are_refused_before_they_are_decoded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(json_text, "MAX_VALUES", json_text.MAX_VALUES // 1000)
    node = '{"op":"null","name":"x","inputs":[]}'
    text = f'{{"nodes":[{",".join([node] * 10_000)}],"arg_nodes":[],"heads":[]}}'
    monkeypatch.setattr(json_text.json, "loads", lambda *args, **kwargs: pytest.fail("the text was decoded"))
    refuses(
        text, "Graph JSON is too large to be read; expected at most 33554 values, .* three million nodes; got about 5"
    )


def test_text_of_nothing_but_containers():
    refuses(f'{{"nodes":[{"{}," * 1_000_000}{{}}],"arg_nodes":[],"heads":[]}}', "mostly brackets; got 10000")


@pytest.mark.nightly("thousands of nodes")
def test_memory_of_a_large_file_is_less_than_ten_times_its_size():
    node = ', \n    {\n      "op": "relu", \n      "name": "relu%d", \n      "inputs": [[%d, 0, 0]]\n    }'
    nodes = "".join(node % (i, i) for i in range(10_000))
    first = '{"op": "null", "name": "x", "inputs": []}'
    text = f'{{"nodes": [{first}{nodes}], "arg_nodes": [0], "heads": [[10000, 0, 0]]}}'
    tracemalloc.start()
    try:
        symbol = sym.load_json(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert symbol.list_arguments() == ["x"]
    assert peak < 10 * len(text)


# -- graphs ----------------------------------------------------------------------------------------------------------

WRONG_GRAPHS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "cycle": (lambda g: g["nodes"][1].update(inputs=[[1, 0, 0]]), "'inputs' of node 1 'n'; expected no cycle"),
    "cycle of control dependencies": (lambda g: g["nodes"][0].update(control_deps=[1]), "'x0'; expected no cycle"),
    "node that is not there": (lambda g: g["nodes"][1].update(inputs=[[7, 0, 0]]), "nodes < 2; got .7, 0, 0."),
    "negative node": (lambda g: g["nodes"][1].update(inputs=[[-1, 0, 0]]), "nodes < 2; got .-1, 0, 0."),
    "output that is not there": (lambda g: g["nodes"][1].update(inputs=[[0, 1, 0]]), "output number < 1 of node 'x0'"),
    "head that is not there": (lambda g: g.update(heads=[[1, 3, 0]]), "Head 0 .* output number < 1 of node 'n'; got 3"),
    "too many inputs": (lambda g: g["nodes"][1].update(inputs=[[0, 0, 0]] * 2), "expected 1 in field 'inputs'; got 2"),
    "too few inputs": (lambda g: g["nodes"][1].update(inputs=[]), "expected 1 in field 'inputs'; got 0"),
    "inputs of a variable": (lambda g: g["nodes"][1].update(op="null"), "A variable takes no inputs; in node 'n'"),
    "argument that is an operator": (lambda g: g.update(arg_nodes=[1]), "numbers of variables; got '1, which is an op"),
    "long name": (lambda g: g["nodes"][0].update(name="x" * 5000), "'name' of node 0 .*at most 4096 characters"),
    "long operator": (lambda g: g["nodes"][1].update(op="x" * 5000), "'op' of node 1 .*at most 4096 characters"),
    "long attribute": (lambda g: g["nodes"][1].update(attrs={"x" * 5000: ""}), "keys of at most 4096 characters"),
    "unknown type": (lambda g: g.update(attrs={"a": ["x" * 5000, 1]}), "Typename 'xxx.*has not been registered"),
}  # fmt: skip


@pytest.mark.parametrize(("damage", "message"), WRONG_GRAPHS.values(), ids=WRONG_GRAPHS.keys())
def test_graphs_that_are_impossible(damage: Callable[[dict[str, Any]], object], message: str):
    graph = graph_of()
    damage(graph)
    refuses(graph, message)


def test_forward_references_are_read():
    graph = graph_of() | {"arg_nodes": [1], "heads": [[0, 0, 0]]}
    graph["nodes"].reverse()
    graph["nodes"][0]["inputs"] = [[1, 0, 0]]
    assert sym.load_json(json.dumps(graph)).list_arguments() == ["x0"]


@pytest.mark.slow("compiles")
def test_30000_unknown_operators_are_one_short_message():
    nodes = [{"op": f"nope{i}", "name": "x", "inputs": []} for i in range(30_000)]
    refuses({"nodes": nodes, "arg_nodes": [], "heads": []}, "nope0 is not registered.*nope10, 29989 more")


@pytest.mark.parametrize(
    ("op", "attrs", "message"),
    [
        ("Concat", {"num_args": "1000000000"}, "Value 1000000000 for Parameter num_args is out of range.*≤ 65536"),
        ("SliceChannel", {"num_outputs": "1000000000"}, "num_outputs is out of range"),
        ("amp_multicast", {"num_outputs": "1000000000"}, "num_outputs is out of range"),
        ("multi_sgd_update", {"num_weights": "1000000000", "lrs": "1", "wds": "1"}, "num_weights is out of range"),
        ("_split_v2", {"indices": "(1,)", "sections": "1000000"}, "sections is out of range; in operator"),
        ("RNN", {"num_layers": "1000000000", "state_size": "1", "mode": "lstm"}, "num_layers is out of range"),
        ("_arange", {"start": "0", "stop": "1e300", "step": "1e-300"}, "Range has more than 9223372036854775807"),
        ("Convolution", {"kernel": f"({'1,' * 30_000})", "num_filter": "1"}, "Parameter kernel=.*…; in operator 'Conv"),
        ("Convolution", {"kernel": f"({'1,' * 40_000})", "num_filter": "1"}, "Parameter too long; .* got 80002 char"),
        ("FullyConnected", {"num_hidden": "9" * 400}, "Invalid Parameter format for num_hidden expect int ≥ 1"),
        ("FullyConnected", {"num_hidden": "1" * 5000}, "Invalid Parameter format for num_hidden .*…"),
        ("FullyConnected", {"num_hidden": "x", "__a__": "y" * 1_000_000}, "Invalid Parameter format .*…\\.$"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)  # fmt: skip
@pytest.mark.parametrize("version", [10901, 1000, 800])
def test_large_parameters(op: str, attrs: dict[str, str], message: str, version: int):
    refuses(graph_of(op, attrs, version=version), message, [sym.load_json])


def test_many_nodes_of_many_outputs_share_one_bound():
    split = {"op": "SliceChannel", "name": "s", "attrs": {"num_outputs": "40000"}, "inputs": [[0, 0, 0]]}
    graph = graph_of()
    graph["nodes"] += [split, split]
    refuses(graph | {"heads": [[2, 0, 0], [3, 0, 0]]}, "too many outputs.*expected at most 65536, together with")


def test_a_node_of_many_outputs_is_inferred_in_linear_time():
    graph = graph_of("SliceChannel", {"num_outputs": "60000"}, shapes=["(2, 60000)"])
    with contract(0):
        _, outputs, _ = sym.load_json(json.dumps(graph)).infer_shape()
    assert outputs == [(2, 1)]


def test_old_files_do_not_add_inputs_by_the_thousand():
    refuses(
        graph_of("Concat", {"num_args": "60000"}, version=800),
        "The number of inputs is wrong.*60000 in field",
        [sym.load_json],
    )
    hidden = graph_of("add_n", {"num_args": "60000", "arg0_lr_mult": "1"}, version=1000)
    refuses(hidden, "The number of inputs is wrong.*60000 in field", [sym.load_json])
    many = {f"__{i}__": "" for i in range(20_000)}
    node = {"op": "BatchNorm", "name": "n", "inputs": [[0, 0, 0]], "attrs": many}
    old = {"nodes": [graph_of()["nodes"][0], node], "arg_nodes": [0], "heads": [[1, 0, 0]]}
    refuses(old, "Operators with too many attributes are missing inputs", [sym.load_json])


def test_parsed_parameters_of_hostile_length_are_not_kept():
    schema = schema_of(FullyConnectedParams)
    before = len(schema._cache)
    sym.load_json(json.dumps(graph_of("FullyConnected", {"num_hidden": "3", "__a__": "y" * 100_000}, count=3)))
    assert len(schema._cache) == before


# -- what is asked of a graph once it is loaded ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ("(1000000000000000000, 1000000000000000000)", "a shape of more than 576460752303423487 .*in node"),
        (f"({'9' * 4200},)", "a shape of more than 576460752303423487 elements"),
        (f"({'1,' * 1_000_000})", "Invalid attribute __shape__=.*has 1000000 elements, more than 64"),
        ("(1" * 1_000, "Invalid attribute __shape__=.*is not a tuple of integers"),
        ("((1,2),(3,4))", "is not a tuple of integers"),
        ("1.5", "is not a tuple of integers"),
    ],
    ids=lambda text: text[:30],
)  # fmt: skip
def test_declared_shapes_that_no_array_has(shape: str, message: str):
    symbol = sym.load_json(json.dumps(graph_of(shapes=[shape])))
    with contract(len(shape)), pytest.raises(InferenceError, match=message) as caught:
        symbol.infer_shape()
    assert len(str(caught.value)) < 10_000


@pytest.mark.parametrize(
    ("op", "shape", "attrs", "message"),
    [
        ("tile", "(2,)", {"reps": f"({'1,' * 5_000})"}, "a shape of 5000 dimensions, expected at most 64"),
        ("tile", "(2, 2)", {"reps": "(4294967296, 4294967296)"}, "a shape of more than 576460752303423487 elements"),
        ("Reshape", "(1,)", {"shape": f"({'1,' * 20_000})"}, "a shape of 20000 dimensions"),
        ("repeat", "(2,)", {"repeats": "9223372036854775807"}, "a shape of more than"),
    ],
)  # fmt: skip
def test_inference_stays_within_what_arrays_can_be(op: str, shape: str, attrs: dict[str, str], message: str):
    symbol = sym.load_json(json.dumps(graph_of(op, attrs, shapes=[shape])))
    with contract(100), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(InferenceError, match=message):
            symbol.infer_shape()


@pytest.mark.parametrize("quantity", ["shape", "dtype"])
@pytest.mark.parametrize("suffix", ["", "_inputs", "_attr_key", "_hints"])
@pytest.mark.parametrize(
    "value", [["int", 3], ["str", "abc"], ["list_int", [99]], ["list_str", ["(1", "b"]], ["dict_str_int", {"a": 1}]]
)  # fmt: skip
def test_graph_attributes_that_passes_read(quantity: str, suffix: str, value: Any):
    graph = nnvm_graph.load_json(json.dumps(graph_of() | {"attrs": {quantity + suffix: value}}))
    for name in ("InferShape", "MXInferShape") if quantity == "shape" else ("InferType", "MXInferType"):
        if suffix == "_attr_key" and value[0] == "str":
            graph.apply(name)  # the name of an attribute that no variable has
        else:
            with pytest.raises(InferenceError, match=f"Graph attribute {quantity}{suffix}; expected"):
                graph.apply(name)
