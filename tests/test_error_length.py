"""Whatever a file holds, an error's message stays short enough to be read, and ends with what to do."""

# Calls are wrong on purpose.
# pyright: reportArgumentType=false

import inspect
import json
import pickle

import pytest

from symjax_nnvm import errors
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import MAX_MESSAGE, MAX_PART, NNVMError, explain

LONG = "x" * 122_000

FAMILY = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, NNVMError)]


@pytest.mark.parametrize("family", FAMILY)
def test_every_error_of_the_family_is_bounded(family):
    error = family(f"beginning {LONG} end")
    assert len(str(error)) <= MAX_MESSAGE
    assert str(error).startswith("beginning")
    assert str(error).endswith("end")
    assert "characters left out" in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert str(family("short")) == "short"


def test_every_part_of_an_explanation_is_cut():
    message = explain(LONG, op=LONG, node=LONG, input=LONG, param=LONG, expected=LONG, got=LONG, fix=LONG)
    assert len(message) < 8 * (MAX_PART + 50)


def test_a_long_op_type_of_custom():
    graph = {
        "nodes": [
            {"op": "null", "name": "x", "inputs": []},
            {"op": "Custom", "name": "c", "attrs": {"op_type": "t" * 122_000}, "inputs": [[0, 0, 0]]},
        ],
        "arg_nodes": [0],
        "node_row_ptr": [0, 1, 2],
        "heads": [[1, 0, 0]],
    }
    with pytest.raises(NNVMError) as loaded:
        sym.load_json(json.dumps(graph))
    with pytest.raises(NNVMError) as built:
        sym.Custom(sym.Variable("x"), op_type="t" * 122_000)
    for caught in (loaded, built):
        assert len(str(caught.value)) < 10_000
        assert "No operator is registered for op_type" in str(caught.value)


@pytest.mark.parametrize(
    "build",
    [
        lambda: sym.FullyConnected(sym.Variable("x"), num_hidden=LONG[:60_000]),
        lambda: sym.FullyConnected(sym.Variable("x"), **{LONG: 1, "num_hidden": 2}),
        lambda: sym.Activation(sym.Variable("x"), act_type=LONG[:60_000]),
        lambda: sym.load_json(LONG),
        lambda: sym.load_json(json.dumps({"nodes": LONG})),
        lambda: sym.Variable("x", shape=(2, 3)).infer_shape(**{LONG: (1,)}),
        lambda: sym.Variable("x").get_internals()[LONG],
    ],
)
def test_what_callers_give(build):
    with pytest.raises(NNVMError) as caught:
        build()
    assert len(str(caught.value)) <= MAX_MESSAGE
