"""`symjax-nnvm diff`: structure and arrays of two models."""

import json
from pathlib import Path
from typing import Literal

import ml_dtypes
import numpy as np
import pytest

import symjax_nnvm as nn
from symjax_nnvm import symbol as sym
from symjax_nnvm.cli import main
from symjax_nnvm.inspect.compare import Changed, compare_params, compare_symbols


def network(act: Literal["relu", "tanh"] = "relu", size: int = 4, name: str = "act", skip: bool = False) -> nn.Symbol:
    dense = sym.FullyConnected(sym.Variable("data"), num_hidden=size, name="fc")
    active = sym.Activation(dense, act_type=act, name=name)
    return sym.elemwise_add(active, dense if skip else active, name="sum")


def test_equal_networks_do_not_differ():
    assert not compare_symbols(network(), network())


def test_spelling_is_no_difference():
    a = sym.load_json(network().tojson())
    b = sym.load_json(network().tojson().replace('"num_hidden": "4"', '"no_bias": "0", "num_hidden": "4"'))
    assert a.tojson() != b.tojson()
    assert not compare_symbols(a, b)


def test_parameters_operators_and_inputs_are_told_apart():
    assert compare_symbols(network(size=4), network(size=5)).changed == (Changed("fc", "num_hidden", "4", "5"),)
    assert compare_symbols(network("relu"), network("tanh")).changed == (Changed("act", "act_type", "relu", "tanh"),)
    assert compare_symbols(network(), network(skip=True)).rewired == (Changed("sum", "input 1", "act", "fc"),)
    other = compare_symbols(network(), sym.relu(network(), name="more"))
    assert (other.added, other.removed) == (("more",), ())
    assert other.rewired == (Changed("", "output 0", "sum", "more"),)


def test_new_names_alone_are_no_new_nodes():
    difference = compare_symbols(network(), network(name="activation"))
    assert difference.renamed == (("act", "activation"),)
    assert (difference.added, difference.removed, difference.rewired) == ((), (), ())


def test_subgraphs_are_compared():
    def loop(scale: float) -> nn.Symbol:
        with nn.NameManager():
            return sym.contrib.foreach(lambda x, s: (x * scale, s), sym.Variable("d"), sym.Variable("s"))[0]

    assert not compare_symbols(loop(2.0), loop(2.0))
    assert [change.what for change in compare_symbols(loop(2.0), loop(3.0)).changed] == ["subgraphs"]


def test_arrays_differ_in_value_shape_dtype_and_presence():
    a = {name: np.ones(2) for name in ("same", "shape", "dtype", "gone")} | {"value": np.array([1.0, 2.0])}
    b = {**a, "value": np.array([1.0, 2.5]), "shape": np.ones(3), "dtype": np.ones(2, np.float32), "new": np.ones(1)}
    del b["gone"]
    difference = compare_params(a, b)
    found = {array.name: (array.max_abs, array.max_rel) for array in difference.arrays}
    assert found == {"value": (0.5, 0.25), "shape": (None, None), "dtype": (0.0, 0.0)}
    assert (difference.added, difference.removed) == (("new",), ("gone",))


@pytest.mark.parametrize(
    ("x", "y", "differs"),
    [(np.nan, np.nan, False), (np.inf, np.inf, False), (np.nan, 1.0, True), (np.inf, 1.0, True), (0.0, -0.0, False)],
)
@pytest.mark.parametrize("rtol", [0.0, 0.1])
def test_what_is_not_finite_equals_only_itself(x: float, y: float, differs: bool, rtol: float):
    assert bool(compare_params({"w": np.array([x])}, {"w": np.array([y])}, rtol=rtol)) == differs


def test_tolerances_are_relative_and_absolute():
    a, b = {"w": np.array([100.0, 1.0])}, {"w": np.array([101.0, 1.0])}
    assert not compare_params(a, b, rtol=0.01)
    assert compare_params(a, b, rtol=0.009)
    assert not compare_params(a, b, atol=1.0)


def test_small_floats_are_compared_without_their_rounding():
    a = {"w": np.array([1.0], ml_dtypes.bfloat16)}
    b = {"w": np.array([1.0078125], ml_dtypes.bfloat16)}
    assert compare_params(a, b).arrays[0].max_abs == 0.0078125


def test_the_command_says_no_by_its_exit_code(net: Path, capsys: pytest.CaptureFixture[str]):
    symbol, args, aux = nn.load_checkpoint(net, 3)
    changed = {name: np.array(array) for name, array in args.items()}
    changed["fc_bias"][1] += 0.5
    nn.save_checkpoint(net.with_name("other"), 0, symbol, changed, aux)
    assert main(["diff", str(net), str(net)]) == 0
    assert main(["diff", str(net), str(net.with_name("other"))]) == 1
    out = capsys.readouterr().out
    assert "structure: the same" in out
    assert "parameters: different" in out
    assert out.splitlines()[-1].split()[:4] == ["fc_bias", "(3,)", "float32", "0.5"]
    assert main(["diff", str(net), str(net.with_name("other")), "--atol", "0.6"]) == 0
    assert main(["diff", str(net), str(net.with_name("other")), "--structure"]) == 0
    capsys.readouterr()
    assert main(["diff", str(net), str(net.with_name("other")), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["params"]["arrays"][0]["name"] == "fc_bias"
