"""Checkpoints and old symbol files: against what MXNet 1.9.1 wrote and loaded."""

import json
from pathlib import Path

import numpy as np
import pytest

import lowering
import symjax_nnvm as nn
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import JSONFormatError, ParamsFormatError
from symjax_nnvm.mxnet import load_params, save_params
from tests.support.comparison import assert_close

FILES = Path(__file__).parents[1] / "goldens" / "files"


def test_a_checkpoint_predicts_what_mxnet_predicted():
    net, args, aux = nn.load_checkpoint(FILES / "net", 3)
    assert sorted(args) == ["bn_beta", "bn_gamma", "conv_bias", "conv_weight", "fc_bias", "fc_weight"]
    assert sorted(aux) == ["bn_moving_mean", "bn_moving_var"]
    expected = np.load(FILES / "net_expected.npz")
    given = args | {"data": expected["data"], "softmax_label": np.zeros(2, np.float32)}
    outputs, _ = lowering.compile(net)(given, aux)
    assert_close(outputs[0], expected["output"], 1e-5, "output")


def test_saving_gives_mxnets_files(tmp_path: Path):
    net, args, aux = nn.load_checkpoint(FILES / "net", 3)
    nn.save_checkpoint(tmp_path / "net", 3, net, args, aux)
    assert (tmp_path / "net-symbol.json").read_bytes() == (FILES / "net-symbol.json").read_bytes()
    assert (tmp_path / "net-0003.params").read_bytes() == (FILES / "net-0003.params").read_bytes()


def test_the_graph_decides_what_is_a_state(tmp_path: Path):
    net, args, aux = nn.load_checkpoint(FILES / "net", 3)
    net.save(tmp_path / "net-symbol.json")
    nn.save_arrays(tmp_path / "net-0000.params", {**args, **aux})  # bare names
    _, again, states = nn.load_checkpoint(tmp_path / "net", 0)
    assert (sorted(again), sorted(states)) == (sorted(args), sorted(aux))


def test_numbers_of_epochs_grow_beyond_four_digits(tmp_path: Path):
    save_params(tmp_path / "p", 12345, {"w": np.ones(1, np.float32)}, {})
    assert (tmp_path / "p-12345.params").exists()
    assert list(load_params(tmp_path / "p", 12345)[0]) == ["w"]


def test_files_without_parameters_warn_and_lists_are_refused(tmp_path: Path):
    nn.save_arrays(tmp_path / "e-0000.params", {})
    with pytest.warns(UserWarning, match="holds no parameters"):
        assert load_params(tmp_path / "e", 0) == ({}, {})
    nn.save_arrays(tmp_path / "l-0000.params", [np.ones(1)])
    with pytest.raises(ParamsFormatError, match="1 arrays without names"):
        load_params(tmp_path / "l", 0)


@pytest.mark.parametrize("name", ["legacy_08", "legacy_10"])
def test_old_symbols_are_upgraded_as_mxnet_upgrades_them(name: str):
    loaded = sym.load_json((FILES / f"{name}.json").read_text())
    assert json.loads(loaded.tojson()) == json.loads((FILES / f"{name}_loaded.json").read_text())


def test_old_batch_normalisation_gets_its_states():
    loaded = sym.load_json((FILES / "legacy_08.json").read_text())
    assert loaded.list_auxiliary_states() == ["bn_moving_mean", "bn_moving_var"]
    assert loaded.attr_dict()["fc1_weight"]["__lr_mult__"] == "1.2"
    assert loaded.infer_shape(data=(2, 3))[1] == [(1,)]  # argmax over everything


def test_an_unknown_multiplier_is_refused():
    document = json.loads((FILES / "legacy_08.json").read_text())
    document["nodes"][3]["attr"]["nothing_lr_mult"] = "2"
    with pytest.raises(JSONFormatError, match="Failed loading Op fc1.*nothing_lr_mult"):
        sym.load_json(json.dumps(document))


def test_the_files_are_what_netron_looks_for(tmp_path: Path):
    # Its reader takes .json files with these fields, looks for NAME-0000.params beside NAME-symbol.json, and knows
    # array files by their first 8 bytes.
    net, args, aux = nn.load_checkpoint(FILES / "net", 3)
    nn.save_checkpoint(tmp_path / "net", 0, net, args, aux)
    document = json.loads((tmp_path / "net-symbol.json").read_text())  # strict JSON
    assert all(document[field] for field in ("nodes", "arg_nodes", "heads"))
    assert (tmp_path / "net-0000.params").read_bytes()[:8] == bytes([0x12, 1, 0, 0, 0, 0, 0, 0])
