"""Networks of 8-bit integers as the networks of floats that they were made from."""

import json
from pathlib import Path

import numpy as np
import pytest

import symjax_nnvm as nn
from symjax_nnvm import symbol as sym

NETWORKS = json.loads((Path(__file__).parents[1] / "goldens/quantized.json").read_text(encoding="utf-8"))["networks"]


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("kind", ["fused", "naive", "entropy"])
def test_mxnets_quantised_network_becomes_its_float_network(name, kind):
    quantized, floats = (sym.load_json(json.dumps(NETWORKS[name][key])) for key in (kind, "float"))
    made = nn.dequantized(quantized)
    assert not nn.compare_symbols(made, floats)
    assert made.list_arguments() == floats.list_arguments()
    assert made.list_auxiliary_states() == floats.list_auxiliary_states()
    assert made.list_outputs() == floats.list_outputs()


def test_a_network_of_floats_is_given_back_as_it_is():
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=2)
    assert nn.dequantized(net) is net


def test_a_range_has_no_place_in_a_network_of_floats():
    inside = sym.load_json(json.dumps(NETWORKS["mlp"]["naive"])).get_internals()
    with pytest.raises(nn.GraphError, match=r"quantized_fc1_min_output is a range.*cut\(symbol, name\)"):
        nn.dequantized(inside["quantized_fc1_min_output"])
    assert nn.dequantized(inside["quantized_fc1_output"]).list_outputs() == ["fc1_output"]


@pytest.mark.parametrize(("low", "high"), [([np.nan], [1.0]), ([1.0], [-1.0]), ([0.0, 1.0], [1.0]), ([], [])])
def test_parameters_without_a_range_are_told(low, high):
    quantized = sym.load_json(json.dumps(NETWORKS["mlp"]["naive"]))
    name = "fc1_weight_quantize"
    arrays = {name: np.ones((16, 12), np.int8), f"{name}_min": np.float32(low), f"{name}_max": np.float32(high)}
    with pytest.raises(nn.GraphError, match=f"The 8-bit parameter '{name}' has no range.*Load the file again"):
        nn.Model(quantized, arrays).dequantized()
    if len(low):
        with pytest.raises(nn.GraphError, match="The 8-bit parameter .* has no range"):
            nn.Model(quantized, arrays).predictor()
