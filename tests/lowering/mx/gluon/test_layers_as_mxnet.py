"""Gluon's zoo, cells, layers and transforms against MXNet's: networks as JSON, names, texts and numbers."""

import inspect
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


@pytest.mark.nightly("every layer", but_one_in=2)
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


@pytest.mark.parametrize(
    ("name", "defaults"),
    [
        ("Conv1D", "strides=1, padding=0, dilation=1, groups=1, layout='NCW', activation=None"),
        ("Conv2D", "strides=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, layout='NCHW', activation=None"),
        ("Conv3DTranspose", "strides=(1, 1, 1), padding=(0, 0, 0), output_padding=(0, 0, 0), dilation=(1, 1, 1)"),
        ("MaxPool2D", "pool_size=(2, 2), strides=None, padding=0, layout='NCHW', ceil_mode=False"),
        ("MaxPool3D", "pool_size=(2, 2, 2), strides=None, padding=0, ceil_mode=False, layout='NCDHW'"),
        ("AvgPool1D", "pool_size=2, strides=None, padding=0, layout='NCW', ceil_mode=False, count_include_pad=True"),
        ("AvgPool3D", "pool_size=(2, 2, 2), strides=None, padding=0, ceil_mode=False, layout='NCDHW'"),
        ("GlobalAvgPool2D", "layout='NCHW'"),
    ],
)
def test_a_layer_has_the_defaults_of_its_rank(name: str, defaults: str):
    parameters = inspect.signature(getattr(mx.gluon.nn, name)).parameters.values()
    assert ", ".join([f"{p.name}={p.default!r}" for p in parameters if p.default is not p.empty]).startswith(defaults)


def test_a_subclass_of_a_layer_has_its_own_parameters():
    class Halving(mx.gluon.nn.Conv2D):
        def __init__(self, channels: int):
            super().__init__(channels, 3, 2, padding=1)

    assert list(inspect.signature(Halving).parameters) == ["channels"]
    with pytest.raises(TypeError, match=r"Conv2D.__init__\(\) missing 2 required"):
        mx.gluon.nn.Conv2D()  # pyright: ignore[reportCallIssue]
    assert Halving(4)(mx.sym.var("data")).infer_shape(data=(1, 3, 8, 8))[1] == [(1, 4, 4, 4)]
