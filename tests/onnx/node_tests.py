"""ONNX' own tests of its operators, read, run and compared; `node_tests.txt` lists those that do not simply agree.

After a change to what is read, or with another version of the package onnx:

    python -m tests.onnx.node_tests      # writes the list anew, and prints how many tests came out how

A test is run as it stands. Where its node needs constants (axes, sizes, weights) that the test hands in as inputs, it
is run again with all inputs but the first as constants, as exporters write them.
"""

import functools
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import jax
import numpy as np
import onnx

import lowering
import symjax_nnvm as nn
from symjax_nnvm.errors import OnnxError
from tests.support.traced import evaluated

LIST = Path(__file__).with_suffix(".txt")

RIGHT, CONSTANTS, DRAWN, ROUNDED, WRONG = "right", "right of constants", "drawn", "rounded", "wrong"

OUTCOMES: dict[str, str] = {
    RIGHT: "shapes, dtypes and values are ONNX', to its own tolerances",
    CONSTANTS: "the same, where inputs that must be known when the file is read are constants",
    ROUNDED: "the same, to two units of the last place of half precision, whose tolerance is less than one, or a level",
    DRAWN: "shapes and dtypes are ONNX', and values random",
    "no form": "no operator here computes it",
    "run time": "it needs a number that run time decides, also where inputs are constants",
    "dtype": "MXNet has not the dtype: numbers of 8, 4 and 2 bits with a point, complex numbers, text",
    "empty": "an array without elements, which MXNet has not",
    "shape from values": "the shape of its result depends on values",
    "list": "its inputs or outputs are lists, or optional",
    "quantised": "its levels are of 16 bits, or have a scale for each block",
    "domain": "its operator is a preview, not one of ONNX' own",
    "opset": "its opset is older than 7, or it has none of ONNX' own operators",
    "parameter": "MXNet's operator has no such parameter; the message names it",
}
"""What becomes of a test: those before "no form" run, the others are refused for that reason."""

_REFUSED: tuple[tuple[str, str], ...] = (
    ("opset", r"^Opset "),
    ("domain", r"it is of the domain"),
    ("dtype", r"which MXNet lacks|MXNet has no dtype|hold no text"),
    ("empty", r"has a dimension of|no empty arrays|nothing is left|its result is empty|its parts .* do not add up"),
    ("list", r"not lists of arrays|is not a tensor|elem_type"),
    ("quantised", r"MXNet cannot quantise"),
    ("shape from values", r"depends on values"),
    ("no form", r"there is no form for it|cannot scatter along an axis|real and imaginary parts"),
    ("run time", r"when the file is read|run time decides|at run time"),
)
"""Reason → what its messages say, the first that fits; any other is "parameter"."""

_DRAWS = frozenset({"Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"})

_HALF = {"float16": 2**-10, "bfloat16": 2**-7}
"""A unit of the last place, as a part of the number."""
_LEVELS = frozenset({"int8", "uint8"})
"""What numbers are rounded to whose quotients XLA may compute as products."""


@functools.cache
def _collected() -> tuple[list[Any], list[Callable[[], object]]]:
    """(the tests of the installed package, what adds the large ones to them)."""
    from onnx.backend.test.case import base
    from onnx.backend.test.case.node import collect_testcases

    large: list[Callable[[], object]] = []

    def made(cls: type, *_: object) -> None:
        for name in vars(cls):
            if name.startswith("export"):
                add = functools.partial(_add, getattr(cls, name))
                large.append(add) if name.endswith("pool_3d_default") else add()

    with patch.object(base._Exporter, "__init__", made):
        return collect_testcases(None), large  # pyright: ignore[reportArgumentType]  # None: all operators


def _add(export: Callable[[], object]) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        np.random.seed(0)  # as ONNX does
        export()


def cases(*, large: bool = True) -> dict[str, Any]:
    """Every test of the installed package, by name without `test_`; or without the large ones, which take ONNX a second
    each: it computes their results number by number."""
    found, additions = _collected()
    while large and additions:
        additions.pop(0)()
    return {case.name.removeprefix("test_"): case for case in found}


def listed() -> tuple[str, dict[str, str]]:
    """(the version of onnx that the list is of, test → outcome of those that are not simply right)."""
    first, *lines = LIST.read_text(encoding="utf-8").splitlines()
    rows = (line.split("\t") for line in lines)
    return first.removeprefix("onnx "), {name: outcome for outcome, name in rows}


def outcome(case: Any) -> tuple[str, str]:
    """(outcome, what is wrong or who refused) of a test."""
    try:
        return _run(case, case.model, RIGHT)
    except OnnxError as error:
        told = error
    if len(case.model.graph.input) > 1:
        try:
            return _run(case, _of_constants(case), CONSTANTS)
        except OnnxError as error:
            told = error
    lines = str(told).splitlines()
    text = lines[1].strip() if len(lines) > 1 else lines[0]
    return next((reason for reason, words in _REFUSED if re.search(words, text)), "parameter"), text


def _of_constants(case: Any) -> onnx.ModelProto:
    """The model of a test with all inputs but the first as constants."""
    made = onnx.ModelProto()
    made.CopyFrom(case.model)
    made.ir_version = max(made.ir_version, 4)  # before it constants are inputs as well
    first, *others = made.graph.input
    values = _arrays(case.data_sets[0][0])
    named = {info.name: array for info, array in zip(made.graph.input, values, strict=False) if info is not first}
    arrays = {name: np.asarray(each) for name, each in named.items() if isinstance(each, np.ndarray | np.generic)}
    kept = [info for info in others if info.name not in arrays]
    made.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in arrays.items())
    inputs = [onnx.ValueInfoProto.FromString(info.SerializeToString()) for info in (first, *kept)]
    del made.graph.input[:]
    made.graph.input.extend(inputs)
    return made


def _arrays(values: Iterable[Any]) -> list[Any]:
    """Arrays of a test, which are tensors of a file in some."""
    return [onnx.numpy_helper.to_array(each) if isinstance(each, onnx.TensorProto) else each for each in values]


def _run(case: Any, model: onnx.ModelProto, outcome: str) -> tuple[str, str]:
    """Raises OnnxError for a model that is not read."""
    net, args, aux = nn.from_onnx(model)
    names = [info.name for info in case.model.graph.input]
    inputs = set(net.list_arguments()) - set(args)
    data_sets = case.data_sets if model is case.model else case.data_sets[:1]
    run = lowering.to_jax(net)
    found: list[str] = []
    for given, expected in data_sets:
        arrays = {name: value for name, value in zip(names, _arrays(given), strict=False) if name in inputs}
        with jax.enable_x64(True):
            made, _ = evaluated(run, {**args, **arrays}, aux, jax.random.key(0))
        for i, (ours, theirs) in enumerate(zip(made, _arrays(expected), strict=True)):
            found.append(_compare(case, np.asarray(ours), np.asarray(theirs)))
            if found[-1] not in (RIGHT, DRAWN, ROUNDED):
                return WRONG, f"output {i}: {found[-1]}"
    return (next((each for each in (DRAWN, ROUNDED) if each in found), outcome)), ""


def _compare(case: Any, ours: np.ndarray, theirs: np.ndarray) -> str:
    """How an output agrees; else in what it does not."""
    if (ours.shape, ours.dtype) != (theirs.shape, theirs.dtype):
        return f"{ours.dtype} {ours.shape}, expected {theirs.dtype} {theirs.shape}"
    wide = [np.asarray(each, np.float64) for each in (ours, theirs)]
    if np.allclose(*wide, rtol=case.rtol, atol=case.atol, equal_nan=True):
        return RIGHT
    if any(node.op_type in _DRAWS or _drops(node) for node in case.model.graph.node):
        return DRAWN
    if np.allclose(*wide, rtol=2 * _HALF.get(theirs.dtype.name, 0), atol=case.atol, equal_nan=True):
        return ROUNDED
    if theirs.dtype.name in _LEVELS and np.abs(wide[0] - wide[1]).max() <= 1:
        return ROUNDED
    return f"differs by up to {np.nanmax(np.abs(wide[0] - wide[1]), initial=0):.3g}"


def _drops(node: onnx.NodeProto) -> bool:
    """Whether it is a Dropout that may be told to train."""
    return node.op_type == "Dropout" and len(node.input) > 2


def all_outcomes(tests: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """The outcome of every test, by its name, and what is said of it."""
    return {name: outcome(test) for name, test in tests.items()}


def table(outcomes: Mapping[str, tuple[str, str]]) -> str:
    """How many tests came out how."""
    counts = Counter(each for each, _ in outcomes.values())
    order = [*OUTCOMES, *sorted(counts.keys() - OUTCOMES.keys())]
    return "\n".join(f"{counts[each]:5}  {each}" for each in order if counts[each])


if __name__ == "__main__":
    found = all_outcomes(cases())
    rows = sorted((row[0], name) for name, row in found.items() if row[0] != RIGHT)
    LIST.write_text(f"onnx {onnx.__version__}\n" + "".join(f"{a}\t{b}\n" for a, b in rows), encoding="utf-8")
    print(table(found))
    for name, (each, text) in found.items():
        if each not in OUTCOMES or each == "parameter":
            print(f"{name}: {each}: {text}")
