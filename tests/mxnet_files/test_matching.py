"""Arrays of any naming matched to a symbol: MXNet's own files of Gluon blocks, and what is reported otherwise."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symjax_nnvm as nn
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamsFormatError, ParamsMismatchError
from symjax_nnvm.mxnet import RowSparseArray, save_arrays

NETWORKS = Path(__file__).parents[1] / "goldens" / "networks"
BLOCKS = ("gluon_resnet", "gluon_lstm", "gluon_dense")
SHAPES = {"gluon_resnet": (2, 3, 8, 8), "gluon_lstm": (2, 3), "gluon_dense": (2, 4), "gluon_twins": (2, 4)}


def same(ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    return ours.keys() == theirs.keys() and all(np.array_equal(ours[name], theirs[name]) for name in theirs)


def small() -> sym.Symbol:
    """A batch-normalised layer with a loss."""
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=4, name="fc1")
    net = sym.FullyConnected(sym.BatchNorm(net, name="bn"), num_hidden=2, name="fc2")
    return sym.SoftmaxOutput(net, name="softmax")


def arrays(**changed: Any) -> dict[str, Any]:
    """Its arrays as a checkpoint has them; None leaves one out."""
    shapes = {"arg:fc1_weight": (4, 3), "arg:fc1_bias": (4,), "arg:bn_gamma": (4,), "arg:bn_beta": (4,)}
    shapes |= {"arg:fc2_weight": (2, 4), "arg:fc2_bias": (2,), "aux:bn_moving_mean": (4,), "aux:bn_moving_var": (4,)}
    found = {name: np.full(shape, i, np.float32) for i, (name, shape) in enumerate(shapes.items())}
    found |= {name.replace("__", ":"): value for name, value in changed.items()}
    return {name: value for name, value in found.items() if value is not None}


# -- Gluon -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["structural", "stripped"])
@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("with_shapes", [True, False])
def test_gluons_files_hold_the_arrays_of_the_export(name: str, kind: str, with_shapes: bool):
    _, args, aux = nn.load_checkpoint(NETWORKS / name, 0)
    data = next(n for n in sym.load(NETWORKS / f"{name}-symbol.json").list_arguments() if n.startswith("data"))
    _, *found = nn.load_model(
        NETWORKS / f"{name}-symbol.json",
        NETWORKS / f"{name}_{kind}.params",
        shapes={data: SHAPES[name]} if with_shapes else None,
    )
    assert same(found[0], args)
    assert same(found[1], aux)


def test_layers_that_no_order_tells_apart_are_reported():
    net = sym.load(NETWORKS / "gluon_twins-symbol.json")
    structural = nn.load_arrays(NETWORKS / "gluon_twins_structural.params")
    assert isinstance(structural, dict)
    match = nn.match_params(net, structural, {"data": (2, 4)})
    assert not match.ok
    (group,) = match.ambiguous
    assert set(group.sources) == {"left.weight", "left.bias", "right.weight", "right.bias"}
    assert set(group.names) == {f"twins_dense{i}_{role}" for i in (0, 1) for role in ("weight", "bias")}
    with pytest.raises(ParamsMismatchError) as raised:
        match.raise_if_incomplete()
    assert "left, right (weight, bias) could each be any of twins_dense1, twins_dense0" in str(raised.value)
    assert "To decide, give the arrays the symbol's names" in str(raised.value)


def test_names_decide_what_order_does_not():
    net = sym.load(NETWORKS / "gluon_twins-symbol.json")
    structural = nn.load_arrays(NETWORKS / "gluon_twins_structural.params")
    assert isinstance(structural, dict)
    _, args, _ = nn.load_checkpoint(NETWORKS / "gluon_twins", 0)
    for i, side in enumerate(("left", "right")):
        for role in ("weight", "bias"):
            structural[f"twins_dense{i}_{role}"] = structural.pop(f"{side}.{role}")
    assert same(nn.match_params(net, structural).args, args)


def test_a_layer_too_few_leaves_the_unique_ones_matched():
    net = sym.load(NETWORKS / "gluon_resnet-symbol.json")
    structural = nn.load_arrays(NETWORKS / "gluon_resnet_structural.params")
    assert isinstance(structural, dict)
    del structural["7.weight"], structural["7.bias"]
    match = nn.match_params(net, structural, {"data": (2, 3, 8, 8)})
    assert match.missing == ("net_dense0_weight", "net_dense0_bias")
    assert match.sources["net_conv0_weight"] == "0.weight"
    assert match.ambiguous  # the batch normalisations have one shape


# -- names -----------------------------------------------------------------------------------------------------------


def test_the_graph_decides_what_is_a_state():
    bare = {name.partition(":")[2]: array for name, array in arrays().items()}
    match = nn.match_params(small(), bare)
    assert match.ok
    assert sorted(match.aux) == ["bn_moving_mean", "bn_moving_var"]
    assert match.inputs == ("data", "softmax_label")


def test_of_two_arrays_of_one_name_the_right_kind_counts():
    match = nn.match_params(small(), {"arg:bn_moving_mean": np.ones(4), **arrays(), "arg:bn_moving_var": np.ones(4)})
    assert match.ok
    assert match.aux["bn_moving_var"][0] == 7
    assert match.surplus == ("arg:bn_moving_mean", "arg:bn_moving_var")


@pytest.mark.parametrize("prefix", ["", "model0_", "other_net_"])
def test_prefixes_may_differ(prefix: str):
    net = sym.load_json(small().tojson().replace('"fc', '"model0_fc').replace('"bn', '"model0_bn'))
    match = nn.match_params(net, {prefix + name.partition(":")[2]: array for name, array in arrays().items()})
    assert match.ok
    assert match.args["model0_fc2_bias"][0] == 5


def test_a_prefix_that_fits_half_of_the_names_is_none():
    names = ("a_weight", "a_bias", "b_weight", "b_bias")
    net = sym.Group([sym.FullyConnected(sym.Variable("data"), num_hidden=2, name=n) for n in ("net_a", "net_c")])
    values = {name: np.zeros((2, 3) if "weight" in name else 2, np.float32) for name in names}
    assert nn.match_params(net, values).args.keys().isdisjoint({"net_a_weight"})
    values = {name.replace("b_", "c_"): value for name, value in values.items()}
    assert nn.match_params(net, values).ok


def test_sparse_arrays_become_dense():
    rows = RowSparseArray((4, 3), np.ones((1, 3), np.float32), indices=np.array([2]))
    weight = nn.match_params(small(), arrays(arg__fc1_weight=rows)).args["fc1_weight"]
    assert weight.tolist() == [[0] * 3, [0] * 3, [1] * 3, [0] * 3]


# -- what does not fit -----------------------------------------------------------------------------------------------


def test_everything_wrong_is_listed_at_once():
    given = arrays(arg__fc1_bias=None, aux__bn_moving_var=None, arg__fc2_bias=np.ones(5), arg__new=np.ones(1))
    match = nn.match_params(small(), given, {"data": (8, 3)})
    assert match.missing == ("fc1_bias", "bn_moving_var")
    assert match.surplus == ("arg:new",)
    assert [(wrong.name, wrong.expected, wrong.got) for wrong in match.misshaped] == [("fc2_bias", (2,), (5,))]
    with pytest.raises(ParamsMismatchError) as raised:
        match.raise_if_incomplete()
    for part in ("missing (2): fc1_bias, bn_moving_var", "surplus (1): arg:new", "fc2_bias", "(5,), expected (2,)"):
        assert part in str(raised.value)


def test_without_the_inputs_shapes_arrays_still_have_to_fit_each_other():
    data = sym.Variable("data")
    options = {"num_filter": 2, "kernel": (1, 1), "no_bias": True}
    left, right = (sym.Convolution(data, name=name, **options) for name in ("left", "right"))
    weights = {"left_weight": np.ones((2, 3, 1, 1)), "right_weight": np.ones((2, 5, 1, 1))}
    match = nn.match_params(left + right, weights)
    assert not match.ok
    assert "right" in match.conflict


def test_labels_are_not_missing_and_other_arguments_are():
    net = small() + sym.Variable("offset")
    assert nn.match_params(net, arrays()).inputs == ("data", "softmax_label", "offset")
    assert nn.match_params(net, arrays(), {"data": (8, 3)}).missing == ("offset",)


def test_shapes_that_contradict_the_graph_are_refused():
    with pytest.raises(InferenceError):
        nn.match_params(sym.Reshape(small(), shape=(3, 5)), arrays(), {"data": (8, 3)})


# -- load_model ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["params", "npz", "npz compressed", "safetensors"])
def test_any_kind_of_array_file(kind: str, tmp_path: Path):
    given = arrays()
    args = {name[4:]: array for name, array in given.items() if name.startswith("arg:")}
    aux = {name[4:]: array for name, array in given.items() if name.startswith("aux:")}
    path = tmp_path / f"w.{kind.partition(' ')[0]}"
    if kind == "params":
        save_arrays(path, given)
    elif kind == "safetensors":
        pytest.importorskip("safetensors", reason="the extra is not installed")
        nn.save_safetensors(path, args, aux)
    else:
        (np.savez_compressed if kind.endswith("compressed") else np.savez)(path, **given)
    small().save(tmp_path / "net-symbol.json")
    net, *found = nn.load_model(tmp_path / "net-symbol.json", path)
    assert net.list_outputs() == ["softmax_output"]
    assert same(found[0], args)
    assert same(found[1], aux)


def test_surplus_arrays_warn_and_missing_ones_raise(tmp_path: Path):
    small().save(tmp_path / "net-symbol.json")
    save_arrays(tmp_path / "w.params", arrays(arg__old=np.ones(1)))
    with pytest.warns(UserWarning, match="1 arrays are not used: arg:old"):
        nn.load_model(tmp_path / "net-symbol.json", tmp_path / "w.params")
    save_arrays(tmp_path / "w.params", {})
    with pytest.raises(ParamsMismatchError, match=r"missing \(8\)"):
        nn.load_model(tmp_path / "net-symbol.json", tmp_path / "w.params")
    save_arrays(tmp_path / "w.params", [np.ones(1)])
    with pytest.raises(ParamsFormatError, match="1 arrays without names"):
        nn.load_model(tmp_path / "net-symbol.json", tmp_path / "w.params")
