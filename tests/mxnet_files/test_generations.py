"""Symbol files of every MXNet generation: upgraded, rule by rule, into what MXNet 1.9.1 makes of them, to the byte."""

import json
from pathlib import Path
from typing import Any

import pytest

from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import JSONFormatError
from tests.goldens.files.generations import GENERATIONS, RULES, graph, new

FILES = Path(__file__).parents[1] / "goldens" / "files"
EVERY = GENERATIONS | RULES
UPGRADED: dict[str, dict[str, str]] = json.loads((FILES / "generations.json").read_text())


def load(document: Any) -> sym.Symbol:
    return sym.load_json(json.dumps(document, ensure_ascii=False))


def attrs(name: str) -> dict[str, dict[str, str]]:
    """Attributes by node after loading."""
    return load(EVERY[name]).attr_dict()


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("name", EVERY)
def test_loading_and_saving_gives_mxnets_bytes(name: str):
    expected = UPGRADED[name]
    if "error" in expected:
        with pytest.raises(JSONFormatError):
            load(EVERY[name])
    else:
        saved = expected["saved"]
        if name == "1.6 numpy shapes":  # a file's mode stays: what MXNet writes inside `np_shape`
            versions = '"mxnet_version": ["int", 10901]'
            mode = f'"attrs": {{\n    "is_np_shape": ["int", 1], \n    {versions}\n  }}'
            saved = saved.replace(f'"attrs": {{{versions}}}', mode)
        assert load(EVERY[name]).tojson() == saved


def test_what_mxnet_refuses_is_what_the_rules_say():
    refused = [name for name, result in UPGRADED.items() if "error" in result]
    assert refused == ["rule 1: keys of no input are refused", "rule 1: not inside subgraphs"]


@pytest.mark.parametrize("name", EVERY)
def test_what_was_upgraded_stays_as_it_is(name: str):
    saved = UPGRADED[name].get("saved")
    if saved is not None:
        assert sym.load_json(saved).tojson() == saved


def test_the_oldest_network_gets_its_states_and_knows_its_shapes():
    net = load(GENERATIONS["0.7"])
    assert net.list_auxiliary_states() == ["bn_moving_mean", "bn_moving_var"]
    _, outputs, states = net.infer_shape(data=(2, 3, 8, 8))
    assert outputs == [(2, 10)]
    assert states == [(4,), (4,)]


def test_rules_apply_in_order():
    # A variable that rule 3 makes copies the attributes as rule 1 left them; rule 4 then gives it an initialiser.
    document = graph(
        new("null", "x"), new("LeakyReLU", "act", 0, act_type="prelu", lr_mult="3", gamma_wd_mult="2"), version=800
    )
    with pytest.raises(JSONFormatError, match="gamma_wd_mult"):  # rule 1 comes before there is a gamma to give it to
        load(document)
    del document["nodes"][1]["attrs"]["gamma_wd_mult"]
    gamma = load(document).attr_dict()["act_gamma"]
    assert gamma["__lr_mult__"] == "3"
    assert gamma["__init__"] == '["Constant", {"value": 0.25}]'


def test_keys_of_inputs_replace_what_the_variable_has():
    document = graph(
        new("null", "x"),
        new("null", "w", __lr_mult__="9"),
        new("FullyConnected", "fc", 0, 1, num_hidden="2", no_bias="True", weight_lr_mult="0.5"),
        version=900,
    )
    found = load(document).attr_dict()
    assert found["w"]["__lr_mult__"] == "0.5"
    assert "weight_lr_mult" not in found["fc"]


def test_an_axis_of_minus_one_is_the_last_since_0_9_5():
    assert load(RULES["rule 5: an axis of -1 was none"]).infer_shape(x=(2, 3))[1] == [(1,)]
    assert load(RULES["rule 5: not since 0.9.5"]).infer_shape(x=(2, 3))[1] == [(2,)]


@pytest.mark.slow("compiles")
def test_newer_files_are_read_without_upgrading():
    document = graph(new("null", "x", lr_mult="1"), new("relu", "r", 0), version=20000)
    assert load(document).attr_dict()["x"]["lr_mult"] == "1"


def test_numpy_shapes_are_read_as_hints():
    assert load(GENERATIONS["1.6 numpy shapes"]).infer_shape_partial()[0] == [(2, -1)]


def test_variables_of_one_name_stay_apart():
    net = load(RULES["duplicate names"])
    assert net.list_arguments() == ["x", "x"]
    assert len({id(node) for node in net.list_input_nodes()}) == 2
