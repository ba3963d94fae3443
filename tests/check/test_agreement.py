"""check finds an error in a file exactly when loading it raises one, and raises nothing but errors of the library."""

import json
import random
from typing import Any

import pytest

import symjax_nnvm as nn
from symjax_nnvm import symbol as sym
from symjax_nnvm.ir.op import list_all_names
from tests.surgery.networks import classifier

X = sym.Variable("data")
REFUSED = {"unknown operator", "custom operator", "unknown parameter", "bad parameter", "broken node"}
KEYS = ["foo", "op_type", "num_args", "num_outputs", "lr_mult", "weight_lr_mult", "shape", "axis"]
VALUES = ["", "x", "-1", "0", "5", "(1,2)", "None", "1e9", "True", "[0, 1]", "100000"]


def _documents() -> list[dict[str, Any]]:
    loop, _ = sym.contrib.foreach(lambda step, s: (sym.Dropout(step * s), s + 1), X, sym.zeros(shape=(2,)))
    states: dict[str, Any] = {"moving_mean": sym.Variable("m"), "moving_var": sym.Variable("v")}
    shared = sym.Group([sym.BatchNorm(X, **states), sym.BatchNorm(X * 2, **states), *sym.split(X, num_outputs=3)])
    return [json.loads(net.tojson()) for net in (classifier(), loop, shared)]


def _nodes(graph: dict[str, Any]) -> list[dict[str, Any]]:
    inner = [node for outer in graph["nodes"] for part in outer.get("subgraphs", ()) for node in _nodes(part)]
    return graph["nodes"] + inner


def _edit(rng: random.Random, node: dict[str, Any], operators: list[str]) -> None:
    match rng.choice(["op", "parameter", "forget", "fewer", "more", "entry"]):
        case "op":
            node["op"] = rng.choice([rng.choice(operators), "null", "Unheard", "Custom"])
        case "parameter":
            attrs = node.setdefault("attrs", {})
            attrs[rng.choice([*attrs, *KEYS])] = rng.choice(VALUES)
        case "forget" if node.get("attrs"):
            node["attrs"].pop(rng.choice(list(node["attrs"])))
        case "fewer" if node["inputs"]:
            node["inputs"].pop(rng.randrange(len(node["inputs"])))
        case "more" if node["inputs"]:
            node["inputs"].append(rng.choice(node["inputs"]))
        case "entry" if node["inputs"]:
            rng.choice(node["inputs"])[rng.choice([1, 2])] = rng.choice([0, 1, 2, 3, 900])


def _number_variables(graph: dict[str, Any]) -> None:
    graph["arg_nodes"] = [i for i, node in enumerate(graph["nodes"]) if node["op"] == "null"]
    for node in graph["nodes"]:
        for part in node.get("subgraphs", ()):
            _number_variables(part)


@pytest.mark.slow("has many cases")
@pytest.mark.parametrize("seed", range(4))
def test_check_finds_an_error_exactly_where_loading_raises_one(seed):
    rng, documents = random.Random(seed), _documents()
    operators = [name for name in list_all_names() if not name.startswith("_test")]
    found = 0
    for _ in range(50):
        document = json.loads(json.dumps(rng.choice(documents)))
        document["attrs"]["mxnet_version"] = ["int", rng.choice([700, 800, 903, 904, 1000, 10901])]
        for _ in range(rng.randint(1, 3)):
            _edit(rng, rng.choice(_nodes(document)), operators)
        _number_variables(document)
        text = json.dumps(document)
        refused = any(problem.kind in REFUSED for problem in nn.check(text).problems)
        try:
            sym.load_json(text)
            assert not refused, text
        except nn.JSONFormatError:
            assert refused, text
        found += refused
    assert 10 < found < 50
