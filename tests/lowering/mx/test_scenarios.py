"""Metrics, iterators, schedules, optimisers and recurrent cells do what they do in MXNet 1.9.1."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from lowering import mx
from tests.lowering.mx.scenarios import SCENARIOS

THEIRS: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "goldens" / "namespace.json").read_text(encoding="utf-8")
)


def differences(ours: Any, theirs: Any, place: str = "") -> list[str]:
    """Where two results differ; numbers by more than 1e-5."""
    if isinstance(theirs, dict):
        ours = dict(ours)
        keys = [f"{place}: {sorted(ours)} and not {sorted(theirs)}"] if ours.keys() != theirs.keys() else []
        return keys + [
            line for key in theirs if key in ours for line in differences(ours[key], theirs[key], f"{place}/{key}")
        ]
    if isinstance(theirs, list):
        if len(ours) != len(theirs):
            return [f"{place}: {ours} and not {theirs}"]
        pairs = enumerate(zip(ours, theirs, strict=True))
        return [line for i, (a, b) in pairs for line in differences(a, b, f"{place}/{i}")]
    if isinstance(theirs, float):
        close = math.isclose(ours, theirs, rel_tol=1e-5, abs_tol=1e-6) or (math.isnan(ours) and math.isnan(theirs))
        return [] if close else [f"{place}: {ours} and not {theirs}"]
    return [] if ours == theirs else [f"{place}: {ours!r} and not {theirs!r}"]


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("name", SCENARIOS)
def test_it_is_as_in_mxnet(name: str):
    assert differences(json.loads(json.dumps(SCENARIOS[name](mx))), THEIRS[name]) == []


def test_differences_are_found():
    assert differences({"a": [1.0, "x"]}, {"a": [1.0, "x"]}) == []
    assert differences({"a": [1.0, "y"]}, {"a": [1.1, "x"]}) == ["/a/0: 1.0 and not 1.1", "/a/1: 'y' and not 'x'"]
    assert len(differences({"a": [1]}, {"a": [1, 2], "b": 3})) == 2
