"""`mx.onnx.export_model`: MXNet's signature over `to_onnx`; the files compute what the network computes."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from lowering import mx
from symjax_nnvm.errors import MissingExtraError

DATA = np.random.RandomState(0).randn(2, 4).astype(np.float32)
WEIGHT, BIAS, MEAN = np.ones((3, 4), np.float32), np.array([0, 1, 2], np.float32), np.array([1, 2, 3], np.float32)
PARAMS = {"fc_weight": mx.nd.array(WEIGHT), "fc_bias": mx.nd.array(BIAS)}
STATES = {"bn_moving_mean": mx.nd.array(MEAN), "bn_moving_var": mx.nd.ones(3)}
ALL = {**PARAMS, "bn_beta": mx.nd.zeros(3), "bn_gamma": mx.nd.ones(3)}


def network() -> Any:
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc")
    return mx.sym.SoftmaxOutput(mx.sym.BatchNorm(net, eps=1e-5, name="bn"), name="softmax")


def expected(data: np.ndarray = DATA) -> np.ndarray:
    e = np.exp((data @ WEIGHT.T + BIAS - MEAN) / np.sqrt(1 + 1e-5))
    return e / e.sum(1, keepdims=True)


def computed(path: Path | str, **inputs: np.ndarray) -> np.ndarray:
    outputs: Any = ReferenceEvaluator(onnx.load(path)).run(None, inputs)
    return outputs[0]


def shape_of(path: Path | str, which: int = 0) -> list[int | str]:
    sizes = onnx.load(path).graph.input[which].type.tensor_type.shape.dim
    return [size.dim_param or size.dim_value for size in sizes]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The prefix of a checkpoint."""
    prefix = str(tmp_path_factory.mktemp("files") / "net")
    mx.model.save_checkpoint(prefix, 0, network(), ALL, STATES)
    return prefix


def test_a_symbol_and_its_arrays_or_their_files_are_written(tmp_path: Path, files: str):
    path = str(tmp_path / "net.onnx")
    prefixed = {f"arg:{name}": array for name, array in ALL.items()} | {f"aux:{n}": a for n, a in STATES.items()}
    ways = [(network(), {**ALL, **STATES}), (network(), [ALL, STATES]), (network(), prefixed)]
    for symbol, params in [*ways, (f"{files}-symbol.json", f"{files}-0000.params")]:
        Path(path).unlink(missing_ok=True)
        assert mx.onnx.export_model(symbol, params, [(2, 4)], np.float32, path) == path
        np.testing.assert_allclose(computed(path, data=DATA), expected(), rtol=1e-5)
    assert shape_of(path) == [2, 4]


def test_what_is_done_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level("INFO")
    path, params = tmp_path / "net.onnx", {**ALL, **STATES}
    mx.onnx.export_model(network(), params, input_shape=[(2, 4)], input_type=[np.float32], onnx_file_path=path, verbose=True)  # fmt: skip # noqa: E501
    assert caplog.messages == [
        "Inputs: data (2, 4) float32",
        "Input shape of the model [(2, 4)] ",
        f"Exported ONNX file {path} saved to disk",
    ]


def test_sizes_are_open_but_where_the_network_decides_them(tmp_path: Path):
    path, params = tmp_path / "net.onnx", {**ALL, **STATES}
    more = np.concatenate([DATA, DATA + 1])
    for shapes, written in ((None, ["batch", 4]), ([(None, 4)], ["batch", 4]), ([("n", 4)], ["n", 4])):
        mx.onnx.export_model(
            network(), params, [(2, 4)], onnx_file_path=path, dynamic=True, dynamic_input_shapes=shapes
        )
        assert shape_of(path) == written
        np.testing.assert_allclose(computed(path, data=more), expected(more), rtol=1e-5)
    both = mx.sym.Variable("p") + mx.sym.Variable("q")
    mx.onnx.export_model(both, {}, [(2, 4), (2, 4)], onnx_file_path=path, dynamic=True, dynamic_input_shapes=[(None, 4)] * 2)  # fmt: skip # noqa: E501
    assert shape_of(path, 1) == ["batch", 4]
    np.testing.assert_array_equal(computed(path, p=more, q=more), 2 * more)


def test_dtypes_are_those_of_the_inputs_and_shapes_between_may_be_noted(tmp_path: Path):
    path = tmp_path / "net.onnx"
    net = mx.sym.Embedding(mx.sym.Variable("rows"), input_dim=3, output_dim=4, name="e")
    for infer in (False, True):
        mx.onnx.export_model(net + 1, {"e_weight": WEIGHT}, [(2,)], np.int32, path, run_shape_inference=infer)
        assert (len(onnx.load(path).graph.value_info) > 0) == infer
    assert onnx.load(path).graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.INT32
    np.testing.assert_array_equal(computed(path, rows=np.array([2, 0], np.int32)), WEIGHT[[2, 0]] + 1)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "one value in in_shapes for each input; expected 1, for data: variables without an array in params"),
        ({"in_shapes": [(2, 4), (2,)]}, "in_shapes"),
        ({"in_shapes": [(2, 4)], "in_types": [np.float32] * 2}, "in_types"),
        ({"in_shapes": [(2, 4)], "dynamic_input_shapes": [(None, 4)]}, r"without dynamic. export_model\(..., dynamic"),
        (
            {"in_shapes": [(2, 4)], "dynamic_input_shapes": [(None,)], "dynamic": True},
            "the wrong number of axes for data",
        ),
    ],
)
def test_shapes_and_dtypes_that_are_not_those_of_the_inputs_are_refused(
    arguments: dict[str, Any], told: str, tmp_path: Path
):
    with pytest.raises(TypeError, match=told):
        mx.onnx.export_model(network(), [ALL, STATES], onnx_file_path=tmp_path / "net.onnx", **arguments)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            {"sym": mx.gluon.nn.Dense(3)},
            r"sym of export_model must be a symbol, .*; got Dense. Hybridise the block, .* net.export\('net'\)",
        ),
        ({"sym": 3}, "must be a symbol, .*; got int"),
        ({"params": None}, "a dict, or a list of two: arg_params and aux_params; got NoneType"),
        ({"params": mx.gluon.nn.Dense(3).collect_params()}, "params of .* got ParameterDict"),
        ({"params": [PARAMS, 3]}, "params of .* got list"),
        (
            {"params": {**ALL, **STATES, "fc_bias": "zero"}},
            "params\\['fc_bias'\\] must be an array of numbers; got str",
        ),
        (
            {"in_types": "floaty"},
            "in_types has no valid dtype for 'data'; .* such as in_types=np.float32; got 'floaty'",
        ),
        ({"in_shapes": 2}, "in_shapes=2"),
        ({"onnx_file_path": 3}, "onnx_file_path must be a path; expected text, or a pathlib.Path; got 3"),
    ],
)
def test_what_is_no_network_is_told_with_the_way_out(arguments: dict[str, Any], told: str, tmp_path: Path):
    """MXNet raises a ValueError for another sym and params."""
    usual = {"in_shapes": [(2, 4)], "onnx_file_path": tmp_path / "net.onnx"}
    with pytest.raises(mx.MXNetError, match=told):
        mx.onnx.export_model(**{"sym": network(), "params": [ALL, STATES], **usual, **arguments})
    with pytest.raises(ValueError, match="must be a symbol, .*; got int"):
        mx.onnx.export_model(3, {})  # pyright: ignore[reportArgumentType]
    with pytest.raises(mx.MXNetError, match="in parameter 'opset_version'"):
        mx.onnx.get_operator_support("x")  # pyright: ignore[reportArgumentType]


def test_the_operators_that_can_be_written_are_named():
    names = mx.onnx.get_operator_support()
    assert {"Convolution", "FullyConnected", "RNN"} <= set(names) == set(mx.onnx.mx2onnx.get_operator_support())
    assert "Custom" not in names
    assert names == sorted(names)
    assert set(names) > set(mx.onnx.get_operator_support(18))


def test_without_the_package_it_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError, match="pip install"):
        mx.onnx.export_model(network(), [ALL, STATES], [(2, 4)])
