"""Gluon's zoo, cells, layers and transforms against MXNet's: networks as JSON, names, texts and numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowering import mx
from tests.goldens.gluon_layers import scenarios

GOLDENS = Path(__file__).parents[3] / "goldens" / "gluon_layers"
TEXTS: dict[str, Any] = json.loads((GOLDENS / "texts.json").read_text())


@pytest.mark.slow("has many cases")
@pytest.mark.parametrize("name", TEXTS["zoo"])
def test_networks_of_the_zoo(name: str):
    """Their JSON byte for byte, structural names, parameters' names and shapes."""
    network, _, option = name.partition(" ")
    options: dict[str, Any] = {"": {}, "thumbnail": {"thumbnail": True}, "dropout": {"dropout": 0.2}}[option]
    assert scenarios.network(mx, network, **options) == TEXTS["zoo"][name]


def test_symbols_of_cells_and_layers():
    """Their JSON byte for byte, the names of their parameters, and what they print."""
    assert dict(scenarios.symbols(mx)) == TEXTS["symbols"]


@pytest.mark.slow("computes much")
@pytest.mark.parametrize("kind", scenarios.KINDS)
def test_numbers(kind: str):
    """Outputs, states and gradients."""
    found = dict(scenarios.values(mx, kind))
    with np.load(GOLDENS / "values.npz") as stored:
        expected = {key: stored[key] for key in stored.files if key.startswith(f"{kind}|")}
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert (found[key].shape, found[key].dtype) == (value.shape, value.dtype), key
        scale = np.maximum(np.abs(value).max(initial=0.0), 1.0)
        np.testing.assert_allclose(found[key], value, rtol=0, atol=3e-6 * scale, err_msg=key)
