"""Parameters that name axes are bounded by the largest rank, in every operator."""

import json
import re
import time

import pytest

from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import JSONFormatError, NNVMError
from symjax_nnvm.ir.op import Op, list_unique_ops
from symjax_nnvm.ir.types import MAX_RANK

NAMES_AN_AXIS = re.compile(r"(axis|axes|dim)\d?|.*_(axis|axes)|(lhs|rhs)_(begin|end)")

PARAMETERS = [
    (op.name, field.name)
    for op in list_unique_ops()
    if not op.name.startswith("_test_")
    for field in (op.params.fields.values() if op.params is not None else ())
    if NAMES_AN_AXIS.fullmatch(field.name) and "int" in field.type
]


def test_the_table_holds_every_operator_with_axes():
    operators = {op for op, _ in PARAMETERS}
    assert operators >= {"repeat", "transpose", "Concat", "SwapAxis", "diag", "reshape_like", "sum", "topk", "Dropout"}
    assert len(PARAMETERS) > 70


@pytest.mark.parametrize(("op", "name"), PARAMETERS)
def test_axes_are_bounded(op, name):
    schema = Op.get(op).params
    assert schema is not None
    field = schema.fields[name]
    assert field.bounds["ge"] >= -MAX_RANK
    assert field.bounds["le"] <= MAX_RANK
    assert field.admits(field.parse("1"))
    for text in ("-1000000000", "1000000000"):
        assert not field.admits(field.parse(text))


def test_a_loaded_file_cannot_name_a_far_axis():
    graph = {
        "nodes": [
            {"op": "null", "name": "x", "inputs": []},
            {"op": "repeat", "name": "r", "attrs": {"repeats": "2", "axis": "-1000000000"}, "inputs": [[0, 0, 0]]},
        ],
        "arg_nodes": [0],
        "node_row_ptr": [0, 1, 2],
        "heads": [[1, 0, 0]],
    }
    with pytest.raises(JSONFormatError, match=r"axis.*expected int or None ≥ -64 ≤ 64; got -1000000000"):
        sym.load_json(json.dumps(graph)).gradient(["x"])
    graph["nodes"][1]["attrs"]["axis"] = "-64"
    began = time.perf_counter()
    loaded = sym.load_json(json.dumps(graph))
    loaded.gradient(["x"])
    with pytest.raises(NNVMError):
        loaded.infer_shape(x=(2, 3))
    assert time.perf_counter() - began < 1
