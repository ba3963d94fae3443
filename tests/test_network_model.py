"""`Model`: net, args and aux stay in step through cutting, new heads, saving; what it says, the functions say."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import symjax_nnvm as nn
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import ModelNotFoundError, ParamsFormatError, SymbolTypeError
from symjax_nnvm.inspect.summary import Summary
from symjax_nnvm.viz.network_plot import NetworkPlot
from tests.surgery.networks import arrays_for, classifier, outputs_of

FILES = Path(__file__).parent / "goldens" / "files"
SHAPES = {"data": (2, 3, 6, 6)}


@pytest.fixture
def model() -> nn.Model:
    """The classifier with its parameters alone."""
    args, aux = arrays_for(classifier(), data=(2, 3, 6, 6))
    parameters = {name: array for name, array in args.items() if name not in ("data", "softmax_label")}
    return nn.Model(classifier(), parameters, aux)


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """The prefix of a model that MXNet 1.9.1 wrote."""
    for name in ("net-symbol.json", "net-0003.params", "net_expected.npz"):
        shutil.copy(FILES / name, tmp_path / name)
    return tmp_path / "net"


def test_it_is_its_three_parts(model: nn.Model):
    net, args, aux = model
    assert (net, args, aux) == (model.net, model.args, model.aux)
    assert model.inputs == ["data", "softmax_label"]
    assert model.missing == []
    assert repr(model) == "<Model softmax: inputs data, softmax_label; 8 arguments, 2 states>"


def test_the_graph_decides_what_is_a_state_and_what_is_left_out(model: nn.Model):
    mixed = nn.Model(model.net, {**model.aux, "of another": np.ones(3)}, model.args)
    assert (list(mixed.args), list(mixed.aux)) == (list(model.args), list(model.aux))


def test_what_is_no_model_is_refused(model: nn.Model):
    with pytest.raises(SymbolTypeError, match="works on a Symbol"):
        nn.Model("net-symbol.json")  # pyright: ignore[reportArgumentType]
    with pytest.raises(SymbolTypeError, match="aux are arrays by name"):
        nn.Model(model.net, model.args, [1])  # pyright: ignore[reportArgumentType]


def test_surplus_arrays_fall_away_with_the_layers(model: nn.Model):
    features = model.cut("fc1")
    assert features.net.list_outputs() == ["fc1_output"]
    assert sorted(set(model.args) - set(features.args)) == ["fc2_bias", "fc2_weight"]
    assert model.cut("conv1").aux == {}
    assert model.cut(["conv1", "fc1"]).net.list_outputs() == ["conv1_output", "fc1_output"]


def test_inference_has_no_labels(model: nn.Model):
    assert model.inference().inputs == ["data"]
    assert list(model.inference().args) == list(model.args)


def test_a_new_head_has_no_arrays_even_under_the_old_names(model: nn.Model):
    tuned = model.replace_head("fc1_output", lambda f: sym.FullyConnected(f, num_hidden=9, name="fc2"))
    assert tuned.missing == ["fc2_weight", "fc2_bias"]
    assert "fc1_weight" in tuned.args
    assert list(tuned.aux) == list(model.aux)
    assert "2 without array" in repr(tuned)
    assert model.missing == []
    with pytest.raises(SymbolTypeError, match="must return a Symbol"):
        model.replace_head("fc1_output", lambda f: None)  # pyright: ignore[reportArgumentType]


def test_check_summary_and_drawing_know_the_arrays(model: nn.Model):
    assert model.check(SHAPES).ok
    lacking = nn.Model(model.net, {n: a for n, a in model.args.items() if n != "fc2_bias"}, model.aux)
    assert [p.nodes for p in lacking.check().problems if p.kind == "missing parameter"] == [("fc2_bias",)]
    assert model.summary().parameters == sum(np.size(array) for array in model.args.values())
    assert str(model.summary(SHAPES)) == str(nn.summarize(model.net, SHAPES))
    assert 'label="2×3×6×6"' in model.plot(SHAPES).source
    assert "fc1_weight" in model.plot(hide_weights=False).source


@pytest.mark.parametrize("form", ["net", "net-symbol.json", "net-0003.params"])
def test_it_is_loaded_by_prefix_or_either_file(net: Path, form: str):
    model = nn.Model.load(net.with_name(form))
    symbol, args, aux = nn.load_checkpoint(net, 3)
    assert model.net.tojson() == symbol.tojson()
    for ours, theirs in ((model.args, args), (model.aux, aux)):
        assert list(ours) == [name for name in (*symbol.list_inputs(),) if name in theirs]
        for name, array in ours.items():
            np.testing.assert_array_equal(array, theirs[name])
    assert nn.Model.load(net, "3").args.keys() == model.args.keys()


def test_loading_says_what_is_there(net: Path):
    with pytest.raises(ModelNotFoundError, match="no parameters of epoch 4"):
        nn.Model.load(net, 4)
    Path(f"{net}-0003.params").unlink()
    bare = nn.Model.load(net)
    assert (bare.args, bare.inputs) == ({}, ["data", "softmax_label"])
    assert "conv_weight" in bare.missing
    assert bare.summary({"data": (2, 1, 8, 8)}).parameters == 159
    assert [path.name for path in bare.save(net.with_name("other"))] == ["other-symbol.json"]


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("copy", ["copy-symbol.json", "copy-0000.params"]),
        ("copy-0007.params", ["copy-symbol.json", "copy-0007.params"]),
        ("mobilenet1.0", ["mobilenet1.0-symbol.json", "mobilenet1.0-0000.params"]),
        ("copy.safetensors", ["copy-symbol.json", "copy.safetensors"]),
    ],
)
def test_what_is_saved_loads_again(net: Path, name: str, files: list[str]):
    if name.endswith("safetensors"):
        pytest.importorskip("safetensors")
    model = nn.Model.load(net)
    assert [path.name for path in model.save(net.with_name(name))] == files
    again = nn.Model.load(net.with_name(files[1]))
    assert again.net.tojson() == model.net.tojson()
    for ours, theirs in ((again.args, model.args), (again.aux, model.aux)):
        assert {n: np.asarray(a).tolist() for n, a in ours.items()} == {
            n: np.asarray(a).tolist() for n, a in theirs.items()
        }


def test_saving_in_its_own_place_is_byte_for_byte(net: Path):
    before = Path(f"{net}-0003.params").read_bytes()
    nn.Model.load(net).save(net, 3)
    assert Path(f"{net}-0003.params").read_bytes() == before


@pytest.mark.parametrize(("name", "format"), [("m.npz", None), ("m.params", None), ("m", "onnx"), ("m", "npz")])
def test_what_is_not_written_says_what_is(model: nn.Model, tmp_path: Path, name: str, format: str | None):
    with pytest.raises(ParamsFormatError, match=r"the prefix of MXNet's two files.*'m' is a prefix"):
        model.save(tmp_path / name, format=format)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow("compiles")
def test_the_predictor_gives_what_the_network_gives(model: nn.Model):
    features = model.cut("fc1")
    data = np.random.default_rng(0).normal(size=(2, 3, 6, 6)).astype("float32")
    (found,) = features.predictor()(data=data)
    (expected,) = outputs_of(features.net, {**features.args, "data": data}, features.aux)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_it_becomes_an_onnx_file():
    pytest.importorskip("onnx", reason="the extra `onnx` is not installed")
    scores = nn.symbol.FullyConnected(nn.symbol.Variable("data"), num_hidden=2, name="fc")
    arrays = {"fc_weight": np.ones((2, 3), np.float32), "fc_bias": np.zeros(2, np.float32)}
    made = nn.Model(nn.symbol.SoftmaxOutput(scores, name="softmax"), arrays).to_onnx({"data": ("batch", 3)})
    assert [node.op_type for node in made.graph.node] == ["Gemm", "Softmax"]


def test_plot_and_summary_are_called_as_they_are_named():
    """They are functions, and the modules of these names are there for those who import from them."""
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=3, name="fc")
    assert nn.plot(net, {"data": (2, 4)}).svg() == nn.plot_network(net, {"data": (2, 4)}).svg()
    assert str(nn.summary(net, {"data": (2, 4)})) == str(nn.summarize(net, {"data": (2, 4)}))
    assert NetworkPlot.__module__ == "symjax_nnvm.viz.network_plot"
    assert Summary.__module__ == "symjax_nnvm.inspect.summary"
