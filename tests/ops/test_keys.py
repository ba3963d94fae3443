"""Keys of operators in symbol files against those that MXNet 1.9.1's parsers take (tests/goldens/keys.json)."""

import json
from pathlib import Path
from typing import Any

import pytest

from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import JSONFormatError
from symjax_nnvm.ir.op import Op
from tests.support.walk import operator_rung

KEYS: dict[str, dict[str, str] | str] = json.loads((Path(__file__).parents[1] / "goldens" / "keys.json").read_text())
BOGUS = "zz_bogus"
HIDDEN = ("_linalg_potrf", "_linalg_potri", "_npi_cholesky", "smooth_l1")
"""Operators with a parameter that MXNet's own description does not name."""

# Second spellings, which MXNet's Python functions take: as a parameter of those, or by another name.
OURS_ALONE = {"_full": {"val"}, "Reshape": {"target"}}


def _any_key(op: Op) -> bool:
    return op.params is None or op.params.any_key


def _refused(op: str, keys: set[str]) -> set[str]:
    """The keys that a file may not have on a node of the operator: its parser says that it does not know them."""
    return {key for key in keys if f"Cannot find argument '{key}'" in _error_of(op, key)}


def _error_of(op: str, key: str) -> str:
    node = {"op": op, "name": "op", "attrs": {key: "1"}, "inputs": []}
    graph = {"nodes": [node], "arg_nodes": [], "heads": [[0, 0, 0]], "attrs": {"mxnet_version": ["int", 10901]}}
    try:
        sym.load_json(json.dumps(graph))
    except JSONFormatError as error:
        return str(error)
    return ""


@operator_rung(lambda op: op.name in KEYS and op.name != "Custom", quick=True)
def files_may_have_exactly_the_keys_that_mxnet_reads(op: Op):
    theirs = KEYS[op.name]
    if theirs == "any":
        assert _any_key(op)
        assert _refused(op.name, {BOGUS}) == set()
        return
    assert isinstance(theirs, dict)
    schema: Any = op.params
    assert not _any_key(op)
    assert _refused(op.name, {*theirs, BOGUS}) == {BOGUS}
    assert {*schema.fields, *schema.aliases} - set(theirs) == OURS_ALONE.get(op.name, set())


@pytest.mark.parametrize("op", HIDDEN)
def test_hidden_keys_have_mxnets_types_and_defaults(op: str):
    theirs = KEYS[op]
    assert isinstance(theirs, dict)
    (hidden,) = (key for key in theirs if theirs[key] == "boolean, optional, default=1")
    field = Op.get(op).params.fields[hidden]  # pyright: ignore[reportOptionalMemberAccess]
    assert (field.type, field.required, field.default) == ("boolean", False, True)


def test_keys_that_mean_nothing_survive_loading_and_saving():
    text = sym.LinearRegressionOutput(sym.Variable("x"), sym.Variable("label"), name="out").tojson()
    attrs = '"name": "out", \n      "attrs": {"zz_bogus": "1"}, '
    text = text.replace('"name": "out", ', attrs)
    assert attrs in text
    loaded = sym.load_json(text)
    assert loaded.tojson() == text
    assert loaded.gradient(["x"]).list_arguments() == ["x", "label"]
