"""Names, inputs and parameters of every operator against those of MXNet 1.9.1 (tests/goldens/schemas.json)."""

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import symjax_nnvm.symbol  # noqa: F401  (registers the operators)
from symjax_nnvm.ir.attributes import numpy_twin
from symjax_nnvm.ir.op import Op, list_unique_ops
from symjax_nnvm.ir.params import ParamField

MXNET: dict[str, dict[str, Any]] = json.loads((Path(__file__).parents[1] / "goldens" / "schemas.json").read_text())

_PYTHONS = "a function of MXNet's Python, whose names and order of parameters it has"
_NNVMS = "NNVM's name of it"

KNOWN: dict[str, str] = {
    **{f"{op}: other aliases": _PYTHONS for op in ("_arange", "_eye", "_full", "_linspace", "_ones", "_zeros")},
    **{f"{op}: another order": _PYTHONS for op in ("_arange", "_eye", "_full", "_ones", "_zeros")},
    **dict.fromkeys(
        ("_linspace: other parameters", "_linspace: another type of stop"),
        "MXNet describes it with the parameters of _arange, which it refuses",
    ),
    "Custom: other parameters": "the rest of its parameters are those of the operator that op_type names",
    **dict.fromkeys(
        [
            f"{op}: other parameters"
            for op in ("_linalg_potrf", "_linalg_potri", "_npi_cholesky", "_npi_norm", "smooth_l1")
        ],
        "MXNet reads a parameter that it does not list: tests/goldens/keys.json",
    ),
    "_contrib_SparseEmbedding: other parameters": "MXNet lists Embedding's and reads others: tests/goldens/keys.json",
    "_npi_concatenate: other parameters": "MXNet lists Concat's and reads others: tests/goldens/keys.json",
    **dict.fromkeys(
        ("_npi_eigh: another type of UPLO", "_npi_eigvalsh: another type of UPLO"), "MXNet has no word for its type"
    ),
    "add_n: other aliases": _NNVMS,
    "elemwise_add: other aliases": _NNVMS,
    **dict.fromkeys(
        ("BatchNorm_v1: other inputs", "IdentityAttachKLSparseReg: other inputs"),
        "MXNet does not list the auxiliary states",
    ),
}
"""What is different on purpose, and why."""

# MXNet's words for a type → ours.
TYPES: dict[str, tuple[str, ...]] = {
    "boolean": ("boolean",),
    "boolean or None": ("boolean or None",),
    "int": ("int",),
    "int or None": ("int or None",),
    "long": ("int",),
    "float": ("float",),
    "float or None": ("float or None",),
    "double": ("float",),
    "double or None": ("float or None",),
    "real_t": ("float",),
    "string": ("string",),
    "Shape(tuple)": ("tuple of int", "tuple of int or None"),
    "Shape or None": ("tuple of int or None",),
    "tuple of <float>": ("tuple of float",),
    "tuple of <Shape(tuple)>": ("tuple of tuple of int",),
    "tuple of <double>": ("tuple of float",),
    "tuple of <long>": ("tuple of int",),
    # What may be None and for which MXNet has no word: two numbers, a size, a shape.
    "": ("tuple of float or None", "int or None", "tuple of int or None"),
}

_DECLARED = re.compile(r"(?P<type>\{.*\}|[^,{]*)(?:, (?P<required>required)|, ?optional, default=(?P<default>.*))?")


def _declaration(text: str) -> tuple[str, bool, str | None]:
    """(type, whether it is required, default) of a parameter in MXNet's words."""
    match = _DECLARED.fullmatch(text)
    assert match is not None, text
    default = match["default"]
    return match["type"].removesuffix(" (non-negative)"), match["required"] is not None, default and default.strip("'")


def _choices(field: ParamField) -> set[str]:
    """The choices of a parameter, and None when it takes None."""
    annotations = (field.annotation, *get_args(field.annotation))
    chosen = {choice for a in annotations if get_origin(a) is Literal for choice in get_args(a)}
    return chosen | ({"None"} if type(None) in annotations else set())


def _same_type(declared: str, field: ParamField) -> bool:
    if declared.startswith("{"):
        return {choice.strip(" '") for choice in declared.strip("{}").split(",")} == _choices(field)
    return field.type in TYPES[declared]


def _same_default(text: str, field: ParamField) -> bool:
    try:
        default = field.parse(text)
    except ValueError:
        return False
    if isinstance(default, float) and field.default is not None:
        return math.isclose(default, field.default, rel_tol=1e-6)  # MXNet prints the float32 next to it
    return default == field.default


def _differences(op: Op, theirs: dict[str, Any]) -> Iterator[str]:
    """What is different, in words."""
    fields = {} if op.params is None else op.params.fields
    twin = numpy_twin(op)
    if set(theirs["aliases"]) != {*op.aliases, *([] if twin is None else [twin.name])}:
        yield "other aliases"
    is_variadic = any(name.endswith("...") for name in theirs["inputs"])
    if op.inputs != (() if is_variadic else tuple(theirs["inputs"])):
        yield "other inputs"
    ours = [name for name in fields if name != op.key_var_num_args]
    named = [name for name in theirs["params"] if name != op.key_var_num_args]
    if set(ours) != set(named):
        yield "other parameters"
    elif ours != named:
        yield "another order"
    for name in set(ours) & set(named):
        declared, is_required, default = _declaration(theirs["params"][name])
        field = fields[name]
        if not _same_type(declared, field):
            yield f"another type of {name}"
        elif is_required != field.required and (is_required or default is not None):
            yield f"{name} is required in one only"
        elif default is not None and not _same_default(default, field):
            yield f"another default of {name}"


def test_operators_have_mxnets_names_inputs_and_parameters():
    found = {
        f"{op.name}: {difference}"
        for op in list_unique_ops()
        if op.name in MXNET
        for difference in _differences(op, MXNET[op.name])
    }
    assert sorted(found) == sorted(KNOWN)


def test_no_alias_of_mxnet_is_another_operator_here():
    wrong = [
        f"{name} is {Op.get(name).name}, not {canonical}"
        for canonical, row in MXNET.items()
        for name in (canonical, *row["aliases"])
        if Op.exists(name) and Op.get(name) not in (op := Op.get(canonical), numpy_twin(op))
    ]
    assert wrong == []
