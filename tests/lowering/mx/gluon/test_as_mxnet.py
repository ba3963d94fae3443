"""Layers, losses, exports and trainings give what MXNet 1.9.1 gives (tests/goldens/gluon)."""

import json
import re
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from lowering import mx
from tests.goldens.gluon.cases import LAYERS, LOSSES, NETWORKS, TRAININGS, exported, run_layer, run_loss, trained

GOLDENS = Path(__file__).parents[3] / "goldens" / "gluon"
ID = re.compile(r"shift_\d{5,}")  # a constant's initialiser has its address in its name
DIFFERENT = {
    "selu": ("eager|input0", "hybrid|input0")  # MXNet's gradient is none of the function's where x is negative
}
"""Layer → the values that differ from MXNet's."""
TEXTS = json.loads((GOLDENS / "texts.json").read_text())


def golden(kind: str, name: str) -> dict[str, Any]:
    """MXNet's arrays of a case."""
    prefix = f"{kind}|{name}|"
    with np.load(GOLDENS / "values.npz") as stored:
        return {key.removeprefix(prefix): stored[key] for key in stored if key.startswith(prefix)}


def assert_all_close(values: dict[str, Any], kind: str, name: str, tolerance: float) -> None:
    """tolerance: of the largest value, or of 1."""
    expected = golden(kind, name)
    assert values.keys() == expected.keys() - set(DIFFERENT.get(name, ()))
    for key, value in values.items():
        assert value.shape == expected[key].shape, key
        largest = max(1.0, np.abs(expected[key]).max())
        np.testing.assert_allclose(value, expected[key], rtol=0, atol=tolerance * largest, err_msg=key)


@pytest.mark.slow("has many cases")
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str):
    values, texts = run_layer(mx, name)
    expected = golden("layer", name)
    for key in DIFFERENT.get(name, ()):
        assert np.abs(values.pop(key) - expected[key]).max() > 0.1
    assert texts["before"] == TEXTS[name]["before"]
    assert texts["after"] == TEXTS[name]["after"]
    assert texts["symbol"] == TEXTS[name]["symbol"]
    assert_all_close(values, "layer", name, 2e-5)


@pytest.mark.slow("has many cases")
@pytest.mark.parametrize("name", LOSSES)
def test_losses(name: str):
    assert_all_close(run_loss(mx, name), "loss", name, 1e-5)


@pytest.mark.slow("has many cases")
@pytest.mark.parametrize("name", NETWORKS)
def test_exports(name: str, tmp_path: Path):
    outputs = exported(mx, name, str(tmp_path / name))
    assert_all_close({str(i): value for i, value in enumerate(outputs)}, "network", name, 1e-5)
    ours, theirs = ((folder / f"{name}-symbol.json").read_text() for folder in (tmp_path, GOLDENS))
    assert ID.sub("shift_id", ours) == ID.sub("shift_id", theirs)
    assert (tmp_path / f"{name}-0000.params").read_bytes() == (GOLDENS / f"{name}-0000.params").read_bytes()


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("name", TRAININGS)
def test_ten_steps(name: str, hybridize: bool):
    double = TRAININGS[name][-1] == "float64"
    with jax.enable_x64(double):
        values = trained(mx, name, hybridize)
    assert_all_close(values, "training", name, 1e-6 if double else 5e-5)  # MXNet's rates are float32
