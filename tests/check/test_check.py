"""check: everything that stands in the way, at once, from symbols, texts and files."""

# Some calls are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symjax_nnvm as nn
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import JSONFormatError
from symjax_nnvm.symbol.symbol import Symbol
from tests.surgery.networks import arrays_for, classifier

X = sym.Variable("data")
SHAPES = {"data": (2, 3, 6, 6)}


def edited(symbol: Symbol, change: Callable[[dict[str, Any]], None]) -> str:
    """The symbol's JSON with every node object passed through `change`."""
    document = json.loads(symbol.tojson())
    for node in document["nodes"]:
        change(node)
    return json.dumps(document)


def of_kind(report: nn.CheckReport, kind: str) -> list[nn.Problem]:
    return [problem for problem in report.problems if problem.kind == kind]


def test_nothing_in_the_way():
    report = nn.check(sym.FullyConnected(X, num_hidden=2, name="fc"), shapes={"data": (2, 3)})
    assert report.ok
    assert [problem.kind for problem in report.problems] == ["cost"]
    assert str(report).startswith("No problem in 4 nodes; 1 note.\n\nnote     cost\n")


def test_shapes_left_out_are_said_to_be_unchecked():
    report = nn.check(sym.relu(X))
    assert report.problems == ()
    assert not report.shapes_checked
    assert "Shapes were not checked" in str(report)


# -- files that hold what is not known -------------------------------------------------------------------------------


def test_unknown_operators_are_grouped_with_the_reason():
    net = X
    for i in range(9):
        net = sym.relu(net, name=f"q{i}")

    def rename(node: dict[str, Any]) -> None:
        if node["op"] == "relu":
            node["op"] = "_contrib_dgl_subgraph" if node["name"] != "q8" else "WarpCTC"

    report = nn.check(edited(net, rename), shapes={"data": (2, 3)})
    left_out, unknown = of_kind(report, "unknown operator")
    assert (left_out.op, len(left_out.nodes)) == ("_contrib_dgl_subgraph", 8)
    assert "samples graphs in sparse storage" in left_out.reason
    assert (unknown.op, unknown.nodes) == ("WarpCTC", ("q8",))
    assert "_contrib_dgl_subgraph ×8: q0, q1, q2, q3, q4, q5 and 2 more" in str(report)
    assert not report.ok


def test_a_misspelt_operator_gets_close_names():
    text = edited(sym.relu(X), lambda node: node.update(op="rleu") if node["op"] == "relu" else None)
    (problem,) = of_kind(nn.check(text), "unknown operator")
    assert "relu" in str(problem.fix)


def test_every_bad_parameter_of_a_node_is_reported():
    def spoil(node: dict[str, Any]) -> None:
        if node["name"] == "conv1":
            node["attrs"] = {"kernl": "(3, 3)", "num_filter": "four", "stride": "(1, 1)", "__mood__": "fine"}

    report = nn.check(edited(classifier(), spoil), shapes=SHAPES)
    assert [(p.kind, p.reason) for p in report.problems if p.severity == "error"] == [
        ("unknown parameter", "kernl='(3, 3)'"),
        ("bad parameter", "num_filter='four', expected int ≥ 1"),
        ("bad parameter", "kernel is required but missing"),
    ]
    assert all(p.nodes == ("conv1",) and p.op == "Convolution" for p in report.problems if p.severity == "error")
    assert str(of_kind(report, "unknown parameter")[0].fix).startswith("kernel?")


def test_combinations_of_values_that_make_no_sense():
    def spoil(node: dict[str, Any]) -> None:
        if node["name"] == "softmax":
            node["attrs"] = {"use_length": "True"}

    (problem,) = nn.check(edited(sym.log_softmax(X, name="softmax"), spoil)).problems
    assert problem.kind == "bad parameter"
    assert "Only softmax takes lengths" in problem.reason


def test_all_that_is_wrong_comes_in_one_report():
    def spoil(node: dict[str, Any]) -> None:
        match node["name"]:
            case "conv1":
                node["attrs"]["layout"] = "upside down"
            case "relu1":
                node["op"] = "_npi_relu_of_tomorrow"
            case "fc2":
                node["inputs"].pop()

    report = nn.check(edited(classifier(), spoil), shapes=SHAPES)
    assert {p.kind for p in report.problems if p.severity == "error"} == {
        "bad parameter",
        "unknown operator",
        "broken node",
    }
    with pytest.raises(nn.JSONFormatError):
        sym.load_json(edited(classifier(), spoil))


def test_outputs_that_do_not_exist_are_reported_within_bounds():
    def spoil(index: int) -> Callable[[dict[str, Any]], None]:
        return lambda node: node.update(inputs=[[0, index, 0]]) if node["op"] == "relu" else None

    (problem,) = nn.check(edited(sym.relu(X, name="r"), spoil(3))).problems
    assert problem.kind == "broken node"
    with pytest.raises(nn.JSONFormatError, match="an output that does not exist"):
        nn.check(edited(sym.relu(X, name="r"), spoil(10**9)))


def test_unknown_operators_of_several_outputs_and_in_subgraphs():
    def body(step, state):
        halves = sym.SliceChannel(step, num_outputs=2, name="halves")
        return halves[0] + halves[1], state

    net, _ = sym.contrib.foreach(body, X, sym.zeros(shape=(2,)))
    document = json.loads(net.tojson())
    (loop,) = [node for node in document["nodes"] if node["op"] == "_foreach"]
    for node in loop["subgraphs"][0]["nodes"]:
        if node["op"] == "SliceChannel":
            node["op"] = "Halve"
    (problem,) = of_kind(nn.check(json.dumps(document)), "unknown operator")
    assert problem.nodes == (f"{loop['name']}/halves",)


def test_old_files_are_read_tolerantly_too():
    old = {
        "nodes": [
            {"op": "null", "name": "data", "inputs": [], "param": {}, "backward_source_id": -1},
            {
                "op": "BatchNorm",
                "name": "bn",
                "inputs": [[0, 0]],
                "param": {"eps": "tiny"},
                "attr": {"gamma_lr_mult": "0"},
                "backward_source_id": -1,
            },
            {"op": "element_mask", "name": "mask", "inputs": [[1, 0]], "param": {}, "backward_source_id": -1},
        ],
        "arg_nodes": [0],
        "heads": [[2, 0]],
    }
    report = nn.check(json.dumps(old))
    assert {(p.kind, p.nodes) for p in report.problems} == {("bad parameter", ("bn",)), ("unknown operator", ("mask",))}


def test_nodes_that_nothing_reaches_count_too():
    document = json.loads(sym.relu(X).tojson())
    document["nodes"].append({"op": "Unheard", "name": "lost", "inputs": [[0, 0, 0]]})
    (problem,) = nn.check(json.dumps(document)).problems
    assert problem.nodes == ("lost",)


def test_custom_operators():
    document = json.loads(sym.relu(X, name="theirs").tojson())
    document["nodes"][1] |= {"op": "Custom", "attrs": {"op_type": "ghost"}}
    (problem,) = nn.check(json.dumps(document)).problems
    assert problem.kind == "custom operator"
    assert "register_custom('ghost'" in str(problem.fix)


def test_paths_and_malformed_files(tmp_path):
    path = tmp_path / "net-symbol.json"
    classifier().save(path)
    assert nn.check(path, shapes=SHAPES) == nn.check(str(path), shapes=SHAPES) == nn.check(classifier(), shapes=SHAPES)
    path.write_text("{]")
    with pytest.raises(nn.JSONFormatError):
        nn.check(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(nn.JSONFormatError, match="not UTF-8 at byte 0"):
        nn.check(path)
    with pytest.raises(FileNotFoundError):
        nn.check(tmp_path / "absent.json")
    with pytest.raises(JSONFormatError, match="neither JSON text nor the path"):
        nn.check("[]\0")


# -- arrays ----------------------------------------------------------------------------------------------------------


def test_inputs_without_arrays_are_told_apart():
    args, aux = arrays_for(classifier(), **SHAPES)
    params = {f"arg:{n}": a for n, a in args.items() if n not in ("data", "softmax_label", "fc1_bias")}
    report = nn.check(classifier(), params={**params, **{f"aux:{n}": a for n, a in aux.items()}}, shapes=SHAPES)
    assert of_kind(report, "input")[0].nodes == ("data",)
    assert of_kind(report, "label")[0].nodes == ("softmax_label",)
    assert of_kind(report, "missing parameter")[0].nodes == ("fc1_bias",)
    assert not report.ok
    assert nn.check(classifier(), params=({**args}, aux)).ok


def test_arrays_of_another_shape_and_unused_ones():
    args, aux = arrays_for(classifier(), **SHAPES)
    wrong = {**args, "conv1_weight": np.zeros((4, 3, 5, 5), "float32"), "fc3_weight": np.zeros(3, "float32")}
    report = nn.check(classifier(), params=(wrong, aux), shapes=SHAPES)
    (problem,) = of_kind(report, "wrong shape")
    assert problem.nodes == ("conv1_weight",)
    assert problem.reason == "The array has shape (4, 3, 5, 5), expected (4, 3, 3, 3)"
    assert of_kind(report, "unused array")[0].nodes == ("fc3_weight",)


def test_array_files(tmp_path):
    args, aux = arrays_for(classifier(), **SHAPES)
    nn.save_checkpoint(tmp_path / "net", 3, classifier(), args, aux)
    assert nn.check(tmp_path / "net-symbol.json", params=tmp_path / "net-0003.params").ok


# -- shapes and dtypes -----------------------------------------------------------------------------------------------


def test_contradictions_name_the_node():
    net = sym.FullyConnected(X, sym.Variable("w", shape=(5, 3)), num_hidden=4, name="fc")
    (problem,) = nn.check(net).problems
    assert (problem.kind, problem.nodes) == ("contradiction", ("fc",))
    assert "expected (4, 3); got (5, 3)" in problem.reason


def test_undecided_shapes_name_the_variables():
    report = nn.check(sym.FullyConnected(X, num_hidden=2, name="fc") + sym.Variable("other"), shapes={"other": (2, 2)})
    (problem,) = of_kind(report, "undecided shape")
    assert problem.nodes == ("data", "fc_weight")
    assert report.ok


def test_names_that_are_not_there_are_the_callers_mistake():
    with pytest.raises(ValueError, match="no variable 'dta'. Did you mean 'data'"):
        nn.check(classifier(), shapes={"dta": (1, 3, 6, 6)})


def test_shapes_that_depend_on_values():
    net = sym.contrib.boolean_mask(X, sym.Variable("mask"), name="chosen")
    (problem,) = nn.check(net, shapes={"data": (4, 2), "mask": (4,)}).problems
    assert (problem.kind, problem.severity, problem.nodes) == ("data-dependent shape", "warning", ("chosen",))


def test_64_bits():
    (problem,) = nn.check(sym.Cast(X, dtype="float64", name="wide") * 2).problems
    assert (problem.kind, problem.nodes) == ("64 bits", ("wide",))
    (problem,) = nn.check(sym.relu(X), dtypes={"data": "int64"}).problems
    assert problem.nodes == ("data",)


def test_dtypes_that_contradict_each_other():
    net = sym.elemwise_add(X, sym.Variable("y"), name="sum")
    (problem,) = nn.check(net, dtypes={"data": "int32", "y": "float32"}).problems
    assert (problem.kind, problem.nodes) == ("contradiction", ("sum",))


# -- what runs, but differently --------------------------------------------------------------------------------------


def test_random_operators():
    net = sym.Dropout(X, name="drop") + sym.random.normal(shape=(2, 3), name="noise") + sym.Dropout(X, p=0, name="none")
    noise, drop = of_kind(nn.check(net), "random numbers")
    assert (noise.severity, noise.nodes) == ("warning", ("noise",))
    assert (drop.severity, drop.nodes) == ("note", ("drop",))


def test_differences_depend_on_parameters():
    plain = sym.Pooling(X, kernel=(3, 3), pool_type="avg", name="pool")
    full = sym.Pooling(X, kernel=(3, 3), pool_type="avg", pooling_convention="full", name="pool")
    assert nn.check(plain).problems == ()
    (problem,) = nn.check(full).problems
    assert (problem.kind, problem.severity) == ("difference", "note")
    assert "oneDNN" in problem.reason


def test_control_flow_and_what_is_inside():
    net, _ = sym.contrib.foreach(lambda step, s: (sym.Dropout(step, name="inside"), s), X, sym.zeros(shape=(2,)))
    report = nn.check(net)
    (loop,) = of_kind(report, "control flow")
    (drop,) = of_kind(report, "random numbers")
    assert drop.nodes == (f"{loop.nodes[0]}/inside",)


def test_newer_files():
    document = json.loads(sym.sum(X).tojson())
    document["attrs"] = {"mxnet_version": ["int", 20000], "is_np_shape": ["int", 1]}
    report = nn.check(json.dumps(document))
    assert [p.kind for p in report.problems] == ["newer file"]
    assert "MXNet 2.0.0" in str(report)


def test_names_that_repeat():
    (problem,) = nn.check(sym.Variable("x") + sym.Variable("x")).problems
    assert (problem.kind, problem.nodes) == ("repeated name", ("x",))


def test_operators_without_a_lowering_rule():
    from symjax_nnvm.ir.register import register_op, same_shape

    register_op("_test_without_rule", infer_shape=same_shape)
    (problem,) = nn.check(sym._test_without_rule(X, name="mine")).problems
    assert (problem.kind, problem.nodes) == ("no lowering rule", ("mine",))


# -- the report and its cost -----------------------------------------------------------------------------------------


def test_report_is_plain_data():
    report = nn.check(classifier(), shapes=SHAPES)
    data = json.loads(json.dumps(report.to_json()))
    assert data["ok"] is True
    assert data["peak_bytes"] > 0
    assert data["flops"] > 0
    assert next(problem["reason"] for problem in data["problems"] if problem["kind"] == "cost").startswith("One")
    assert [problem for problem in data["problems"] if problem["kind"] != "cost"] == [
        {
            "kind": "random numbers",
            "severity": "note",
            "nodes": ["drop"],
            "op": "Dropout",
            "reason": "Draws different random numbers from MXNet, in training only: JAX's, from an explicit key",
            "fix": None,
        }
    ]
    with pytest.raises(AttributeError):
        report.num_nodes = 3  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("net", "shapes"),
    [
        (sym.LRN(X, nsize=100_001, name="long"), {"data": (1, 100, 40, 40)}),
        (sym.contrib.ROIAlign(X, sym.Variable("r"), (7, 7), 1.0, sample_ratio=10_000, name="long"),
         {"data": (1, 1, 4, 4), "r": (1, 5)}),
        (sym.Correlation(X, sym.Variable("r"), kernel_size=2999, max_displacement=3000, pad_size=4500, stride2=100,
                         name="long"), {"data": (1, 1, 4, 4), "r": (1, 1, 4, 4)}),
    ],
)  # fmt: skip
def test_parameters_that_make_a_node_run_long_whatever_its_arrays_are_told(net: Symbol, shapes: dict[str, Any]):
    warnings = [p for p in nn.check(net, shapes=shapes).problems if (p.kind, p.severity) == ("cost", "warning")]
    assert [p.nodes for p in warnings] == [("long",)]
    assert "far more than its arrays have elements" in warnings[0].reason


def test_large_arrays_are_no_waste():
    net = sym.Convolution(sym.FullyConnected(X, num_hidden=64 * 64, flatten=False), kernel=(3, 3), num_filter=512)
    assert nn.estimate(net, {"data": (8, 512, 64, 64)}).wasteful == ()


def test_the_given_symbol_is_not_touched():
    net = classifier()
    before = net.tojson()
    nn.check(net, shapes=SHAPES)
    assert net.tojson() == before


@pytest.mark.nightly("thousands of nodes")
def test_ten_times_the_nodes_take_about_ten_times_as_long():
    """Ten thousand take 0.5 s of a fast core."""
    seconds = []
    for layers in (250, 2_500):
        net = X
        for i in range(layers):
            net = sym.relu(sym.FullyConnected(net, num_hidden=3, name=f"fc{i}"), name=f"relu{i}")
        text = net.tojson()
        seconds.append(min(_seconds(text, 4 * layers + 1) for _ in range(3)))
    assert seconds[1] < 25 * seconds[0]


def _seconds(text: str, count: int) -> float:
    start = time.process_time()
    assert nn.check(text, shapes={"data": (2, 3)}).num_nodes == count
    return time.process_time() - start
