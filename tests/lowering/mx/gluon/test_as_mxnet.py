"""Layers, losses, exports and trainings give what MXNet 1.9.1 gives (tests/goldens/gluon)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from lowering import mx
from tests.goldens.gluon.cases import LAYERS, LOSSES, NETWORKS, TRAININGS, exported, run_layer, run_loss, trained

GOLDENS = Path(__file__).parents[3] / "goldens" / "gluon"
TEXTS = json.loads((GOLDENS / "texts.json").read_text())


def golden(kind: str, name: str) -> dict[str, Any]:
    """MXNet's arrays of a case."""
    prefix = f"{kind}|{name}|"
    with np.load(GOLDENS / "values.npz") as stored:
        return {key.removeprefix(prefix): stored[key] for key in stored if key.startswith(prefix)}


def assert_all_close(values: dict[str, Any], kind: str, name: str, **tolerances: float) -> None:
    expected = golden(kind, name)
    assert values.keys() == expected.keys()
    for key, value in values.items():
        assert value.shape == expected[key].shape, key
        np.testing.assert_allclose(value, expected[key], err_msg=key, **tolerances)


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str):
    values, texts = run_layer(mx, name)
    assert texts["before"] == TEXTS[name]["before"]
    assert texts["after"] == TEXTS[name]["after"]
    assert texts["symbol"] == TEXTS[name]["symbol"]
    assert_all_close(values, "layer", name, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name: str):
    assert_all_close(run_loss(mx, name), "loss", name, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_exports(name: str, tmp_path: Path):
    outputs = exported(mx, name, str(tmp_path / name))
    assert_all_close({str(i): value for i, value in enumerate(outputs)}, "network", name, rtol=1e-5, atol=1e-5)
    assert (tmp_path / f"{name}-symbol.json").read_bytes() == (GOLDENS / f"{name}-symbol.json").read_bytes()
    assert (tmp_path / f"{name}-0000.params").read_bytes() == (GOLDENS / f"{name}-0000.params").read_bytes()


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("name", TRAININGS)
def test_ten_steps(name: str, hybridize: bool):
    double = TRAININGS[name][-1] == "float64"
    with jax.enable_x64(double):
        values = trained(mx, name, hybridize)
    tolerance = 1e-9 if double else 2e-4
    assert_all_close(values, "training", name, rtol=tolerance, atol=tolerance)
