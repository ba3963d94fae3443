"""`to_onnx`: what becomes of names, dimensions and dtypes, and what is told where a network cannot be written."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import symjax_nnvm as nn
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import MissingExtraError, OnnxError, ParamsMismatchError, SymbolTypeError, SymbolValueError
from symjax_nnvm.ir.register import register_op, same_shape
from symjax_nnvm.onnx import dimensions, onnx_form, signature_of
from tests.onnx.runtime import run, session

X = sym.Variable("x")
ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)

register_op("_test_onnx_none", infer_shape=same_shape, doc="An operator that says nothing about ONNX.")
register_op("_test_onnx_new", infer_shape=same_shape, doc="An operator that a later opset has.")
onnx_form("_test_onnx_new", opset=20)(lambda g, p, data: g.op("Gelu", data))


def dense(name: str = "fc", hidden: int = 2) -> tuple[nn.Symbol, dict[str, np.ndarray]]:
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=hidden, name=name)
    return net, {f"{name}_weight": np.ones((hidden, 3), np.float32), f"{name}_bias": np.zeros(hidden, np.float32)}


def outputs(model: Any) -> dict[str, str]:
    return {each.name: signature_of(each) for each in model.graph.output}


# -- names -----------------------------------------------------------------------------------------------------------


def test_inputs_nodes_weights_and_outputs_have_the_networks_names():
    net, args = dense()
    model = nn.to_onnx(net, {f"arg:{name}": array for name, array in args.items()}, shapes={"data": ("n", 3)})
    assert [each.name for each in model.graph.input] == ["data"]
    assert [node.name for node in model.graph.node] == ["fc"]
    assert {each.name for each in model.graph.initializer} == {"fc_weight", "fc_bias"}
    assert outputs(model) == {"fc_output": "float32 (n, 2)"}


def test_nodes_of_one_name_are_told_apart():
    net = sym.sin(sym.cos(X, name="same"), name="same")
    model = nn.to_onnx(sym.Group([net, net]), shapes={"x": (4, 3)})
    assert len({node.name for node in model.graph.node}) == len(model.graph.node)
    first, second = run(model, {"x": ROWS})
    np.testing.assert_allclose(first, np.sin(np.cos(ROWS)), rtol=1e-5)
    np.testing.assert_array_equal(first, second)


def test_a_head_that_hands_on_its_data_keeps_its_name():
    net = sym.LinearRegressionOutput(sym.exp(X, name="e"), name="head")
    model = nn.to_onnx(net, shapes={"x": (4, 3), "head_label": (4, 3)})
    assert (outputs(model), len(model.graph.node)) == ({"head_output": "float32 (4, 3)"}, 1)


def test_variables_and_constants_may_be_outputs():
    net = sym.Group([X, sym.zeros((2,), name="z"), sym.identity(X, name="i")])
    found = run(nn.to_onnx(net, shapes={"x": (4, 3)}), {"x": ROWS})
    for output, expected in zip(found, (ROWS, np.zeros(2), ROWS), strict=True):
        np.testing.assert_array_equal(output, expected)


def test_an_array_of_two_variables_is_one_weight():
    net = sym.Variable("w", shape=(3,)) + sym.Variable("w", shape=(3,))
    model = nn.to_onnx(net, {"w": np.ones(3, np.float32)})
    assert ([each.name for each in model.graph.initializer], len(model.graph.input)) == (["w"], 0)


# -- dimensions ------------------------------------------------------------------------------------------------------


def test_what_follows_from_a_named_dimension_is_open():
    pooled = sym.Pooling(X, kernel=(2, 2), stride=(2, 2), name="p")
    net = sym.Group([pooled, sym.Reshape(pooled, shape=(0, -1), name="r"), sym.sum(pooled, axis=(2, 3), name="s")])
    model = nn.to_onnx(net, shapes={"x": ("n", 3, "height", 8)})
    assert outputs(model) == {
        "p_output": "float32 (n, 3, ?, 4)",
        "r_output": "float32 (n, ?)",
        "s_output": "float32 (n, 3)",
    }
    x = np.random.default_rng(0).random((5, 3, 6, 8), np.float32)
    assert [output.shape for output in run(model, {"x": x})] == [(5, 3, 3, 4), (5, 36), (5, 3)]


@pytest.mark.parametrize("offset", [(0, 0), (1, 2)])
def test_a_crop_follows_an_open_height_and_width(offset: tuple[int, int]):
    """As in a U-Net, whose deconvolution may give a row or a column more."""
    larger = sym.UpSampling(X, scale=3, sample_type="nearest")
    net = sym.Crop(larger, X, num_args=2, offset=offset, name="part")
    model = nn.to_onnx(net, shapes={"x": ("n", 3, "h", "w")})
    assert outputs(model) == {"part_output": "float32 (n, 3, h, w)"}
    for h, w in ((4, 5), (6, 3)):
        x = np.random.default_rng(0).random((2, 3, h, w), np.float32)
        (part,) = run(model, {"x": x})
        whole = x.repeat(3, 2).repeat(3, 3)
        np.testing.assert_array_equal(part, whole[:, :, offset[0] : offset[0] + h, offset[1] : offset[1] + w])
    middle = sym.Crop(larger, X, num_args=2, center_crop=True, name="middle")
    with pytest.raises(OnnxError, match="axis 2 of the output must be known.*'middle'.*Give a number"):
        nn.to_onnx(middle, shapes={"x": (1, 3, "h", "w")})


@pytest.mark.parametrize("open_shape", [("h", 5), (4, "w")])
def test_a_crop_follows_an_open_height_or_width_alone(open_shape: tuple[int | str, int | str]):
    net = sym.Crop(sym.UpSampling(X, scale=2, sample_type="nearest"), X, num_args=2, name="part")
    model = nn.to_onnx(net, shapes={"x": (2, 3, *open_shape)})
    x = np.random.default_rng(0).random((2, 3, 4, 5), np.float32)
    np.testing.assert_array_equal(run(model, {"x": x})[0], x.repeat(2, 2).repeat(2, 3)[:, :, :4, :5])


@pytest.mark.slow("compiles")
def test_many_names_are_tried_in_a_few_readings():
    """One reading for each of n names is n² shapes."""
    count = 600
    net = sym.Group([sym.relu(sym.Variable(f"x{i}"), name=f"y{i}") for i in range(count)])
    shapes = {f"x{i}": (f"n{i}", 3) for i in range(count)}
    made = dimensions.named_dimensions(net, shapes, {})
    assert len(made.assignments) < 16
    assert len(made.names) == count
    outputs = nn.to_onnx(net, {}, {}, shapes=shapes).graph.output
    assert [each.type.tensor_type.shape.dim[0].dim_param for each in outputs] == [f"n{i}" for i in range(count)]


def test_two_names_are_told_apart():
    net = sym.Reshape(sym.SwapAxis(X, dim1=0, dim2=1), shape=(-3, 0), name="r")
    y = sym.broadcast_like(sym.sum(X, axis=1, keepdims=True), X, name="b")
    model = nn.to_onnx(sym.Group([net, y]), shapes={"x": ("n", "t", 3)})
    assert outputs(model)["b_output"] == "float32 (n, t, 3)"
    x = np.random.default_rng(0).random((2, 5, 3), np.float32)
    merged, spread = run(model, {"x": x})
    np.testing.assert_array_equal(merged, x.swapaxes(0, 1).reshape(10, 3))
    np.testing.assert_allclose(spread, np.broadcast_to(x.sum(1, keepdims=True), x.shape), rtol=1e-6)


def test_zeros_that_begin_a_recurrence_have_the_batch_of_the_data():
    cell = sym.RNN(
        X,
        sym.Variable("w"),
        sym.zeros((1, 0, 4)),
        sym.zeros((1, 0, 4)),
        mode="lstm",
        state_size=4,
        num_layers=1,
        name="lstm",
    )
    weights = {"w": np.linspace(-0.1, 0.1, 4 * 4 * (3 + 4) + 32, dtype=np.float32)}
    model = nn.to_onnx(cell, weights, shapes={"x": ("t", "n", 3)})
    assert outputs(model) == {"lstm_output": "float32 (t, n, 4)"}
    assert {"LSTM"} <= {node.op_type for node in model.graph.node} <= {"LSTM", "Shape", "Concat", "Expand", "Squeeze"}
    made = session(model)
    for t, n in ((2, 3), (5, 1)):
        found: Any = made.run(None, {"x": np.ones((t, n, 3), np.float32)})[0]
        assert found.shape == (t, n, 4)


def test_a_size_that_is_written_in_the_graph_is_told_with_the_way_out():
    net = sym.FullyConnected(sym.Reshape(sym.Variable("data"), shape=(8, -1), name="r"), num_hidden=2, name="fc")
    args = {"fc_weight": np.zeros((2, 12), np.float32), "fc_bias": np.zeros(2, np.float32)}
    with pytest.raises(OnnxError) as caught:
        nn.to_onnx(net, args, shapes={"data": ("batch", 3, 4)})
    for part in ("'batch' is 8", "Reshape r: shape=(8, -1)", "set_batch_size(net, n)", "Give the number in shapes="):
        assert part in str(caught.value)
    model = nn.to_onnx(nn.set_batch_size(net, 5), args, shapes={"data": (5, 3, 4)})
    assert outputs(model) == {"fc_output": "float32 (5, 2)"}


def test_shapes_that_fit_no_size_are_told_as_without_a_name():
    net, args = dense()
    with pytest.raises(nn.InferenceError, match="fc_weight"):
        nn.to_onnx(net, args, shapes={"data": ("n", 4)})


def test_a_size_that_a_form_must_know_is_named():
    net = sym.im2col(X, kernel=(2, 2), name="columns")
    with pytest.raises(OnnxError, match="axis 1 of 'x' must be known.*'columns'.*Give a number"):
        nn.to_onnx(net, shapes={"x": (1, "c", 4, 4)})


# -- dtypes, opsets, weights ------------------------------------------------------------------------------------------


def test_half_precision_keeps_whole_numbers_and_statistics():
    net = sym.BatchNorm(sym.Embedding(X, input_dim=9, output_dim=4, name="e"), name="bn")
    vectors = {n: np.ones(3, np.float32) for n in ("bn_gamma", "bn_beta")}
    aux = {"bn_moving_mean": np.zeros(3, np.float32), "bn_moving_var": np.ones(3, np.float32)}
    args = {"e_weight": np.ones((9, 4), np.float32), **vectors}
    model = nn.to_onnx(net, args, aux, shapes={"x": (2, 3)}, dtypes={"x": "int32"}, float16=True)
    assert signature_of(model.graph.input[0]) == "int32 (2, 3)"
    types = {each.name: each.data_type for each in model.graph.initializer}
    assert (types["e_weight"], types["bn_moving_var"]) == (onnx.TensorProto.FLOAT16, onnx.TensorProto.FLOAT)
    assert outputs(model) == {"bn_output": "float16 (2, 3, 4)"}


def test_the_opset_is_18_or_what_the_network_needs():
    assert nn.to_onnx(sym.sin(X), shapes={"x": (2,)}).opset_import[0].version == 18
    new = sym._test_onnx_new(X, name="g")
    assert nn.to_onnx(new, shapes={"x": (2,)}).opset_import[0].version == 20
    assert nn.to_onnx(sym.sin(X), shapes={"x": (2,)}, opset=21).opset_import[0].version == 21
    with pytest.raises(OnnxError, match="needs opset 20, but opset 18 was requested.*Pass opset=20"):
        nn.to_onnx(new, shapes={"x": (2,)}, opset=18)
    with pytest.raises(OnnxError, match="convert_version"):
        nn.to_onnx(new, shapes={"x": (2,)}, opset=11)


def test_weights_may_lie_beside_the_file(tmp_path: Path):
    net, args = dense(hidden=500)
    model = nn.to_onnx(net, args, shapes={"data": ("n", 3)})
    for _ in range(2):  # the second time over the first
        assert nn.save_onnx(tmp_path / "net.onnx", model, external=True) == [
            *(tmp_path / "net.onnx", tmp_path / "net.onnx.data")
        ]
    assert (tmp_path / "net.onnx").stat().st_size < 2000 < (tmp_path / "net.onnx.data").stat().st_size < 20000
    (found,) = run(onnx.load(tmp_path / "net.onnx"), {"data": ROWS})
    np.testing.assert_allclose(found, ROWS.sum(1, keepdims=True) * np.ones((1, 500)), rtol=1e-6)


def test_labels_and_losses_stay_when_asked():
    net = sym.softmax_cross_entropy(X, sym.Variable("label"), name="loss")
    with pytest.raises(nn.GraphError, match="Every output needs a label"):
        nn.to_onnx(net, shapes={"x": (4, 3), "label": (4,)})
    model = nn.to_onnx(net, shapes={"x": (4, 3), "label": (4,)}, inference=False)
    assert [each.name for each in model.graph.input] == ["x", "label"]


# -- what cannot be written -------------------------------------------------------------------------------------------


def test_a_refusal_names_the_node_and_says_what_to_do():
    with pytest.raises(OnnxError, match="operator 'CTCLoss', node 'ctc'.*symjax_nnvm.cut"):
        nn.to_onnx(sym.CTCLoss(X, sym.Variable("y"), name="ctc"), shapes={"x": (4, 2, 3), "y": (2, 2)}, inference=False)
    with pytest.raises(OnnxError, match="'_test_onnx_none', node 'n'.*onnx_form"):
        nn.to_onnx(sym._test_onnx_none(X, name="n"), shapes={"x": (2,)})


def test_what_is_missing_is_named():
    net, args = dense()
    with pytest.raises(ParamsMismatchError, match="fc_bias"):
        nn.to_onnx(net, {"fc_weight": args["fc_weight"]}, shapes={"data": (1, 3)})
    with pytest.raises(SymbolValueError, match="shape of the input 'data'.*shapes="):
        nn.to_onnx(net, {}, shapes={"fc_weight": (2, 3), "fc_bias": (2,)})
    with pytest.raises(SymbolValueError, match="no input 'dta'.*'data'"):
        nn.to_onnx(net, args, shapes={"dta": (1, 3)})
    with pytest.raises(SymbolTypeError, match="numbers and names"):
        nn.to_onnx(net, args, shapes={"data": "batch"})
    with pytest.raises(SymbolTypeError, match="arrays by name"):
        nn.to_onnx(net, [args])  # pyright: ignore[reportArgumentType]


def test_without_onnx_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'symjax-nnvm\[onnx\]'"):
        nn.to_onnx(sym.sin(X), shapes={"x": (2,)})


def test_a_check_lists_every_node_in_the_way(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    net = sym.Group([sym._test_onnx_none(X, name="n"), sym.im2col(X, kernel=(2, 2), name="columns")])
    for shapes, nodes in ({}, {"n"}), ({"x": (1, "c", 4, 4)}, {"n", "columns"}), ({"x": (1, 2, 4, 4)}, {"n"}):
        report = nn.check(net, shapes=shapes, target="onnx")
        found = {name for problem in report.problems if problem.kind == "no ONNX form" for name in problem.nodes}
        assert (found, report.ok) == (nodes, False)
    assert nn.check(dense()[0], shapes={"data": ("n", 3)}, target="onnx").ok


# -- open sizes where a constant stands beside them --------------------------------------------------------------------


def test_a_loop_whose_state_begins_as_zeros_has_any_number_of_steps():
    def body(x: Any, s: Any) -> Any:
        return x + s, x + s

    outs, last = sym.contrib.foreach(body, sym.Variable("x"), sym.zeros((2, 3)))
    heads: Any = [outs, last]
    model = nn.to_onnx(sym.Group(heads), shapes={"x": ("steps", 2, 3)})
    for steps in (1, 5):
        x = np.arange(steps * 6, dtype=np.float32).reshape(steps, 2, 3)
        every, end = run(model, {"x": x})
        np.testing.assert_allclose(every, np.cumsum(x, 0), rtol=1e-6)
        np.testing.assert_allclose(end, np.cumsum(x, 0)[-1], rtol=1e-6)


def test_elements_are_gathered_along_open_axes():
    """BERT's masked positions: (batch, position) pairs, of a batch that run time decides."""
    sequence, positions = sym.Variable("sequence"), sym.cast(sym.Variable("positions"), dtype="int32")
    flat = sym.reshape(positions, shape=(-1,))
    masked = sym.cast(sym.slice(sym.shape_array(positions), begin=(1,), end=(2,)), dtype="float32")
    numbers = sym.cast(sym.contrib.arange_like(flat, axis=0), dtype="float32")
    row = sym.floor(sym.broadcast_div(numbers, masked))
    net = sym.gather_nd(sequence, sym.stack(sym.cast(row, dtype="int32"), flat, axis=0))
    model = nn.to_onnx(net, shapes={"sequence": ("n", "t", 4), "positions": ("n", "m")})
    for n, t, m in ((1, 5, 2), (4, 7, 3)):
        x = np.random.default_rng(0).standard_normal((n, t, 4)).astype(np.float32)
        at = np.random.default_rng(1).integers(0, t, (n, m))
        (found,) = run(model, {"sequence": x, "positions": at.astype(np.float32)})
        np.testing.assert_array_equal(found, np.take_along_axis(x, at[..., None], 1).reshape(n * m, 4))


def test_places_beyond_an_open_axis_are_its_ends():
    net = sym.gather_nd(sym.Variable("x"), sym.Variable("i"))
    model = nn.to_onnx(net, shapes={"x": ("n", 3), "i": (1, 4)}, dtypes={"i": "int64"})
    (found,) = run(model, {"x": ROWS, "i": np.asarray([[0, 3, 99, -1]])})
    np.testing.assert_array_equal(found, ROWS[[0, 3, 3, 3]])


def test_a_dropout_that_is_always_on_is_written():
    rows = {}
    for p in (0.0, 0.5, 1.0):
        model = nn.to_onnx(sym.Dropout(X, p=p, mode="always"), shapes={"x": (4, 3)})
        rows[p] = [node.op_type for node in model.graph.node]
    assert rows == {0.0: ["Identity"], 0.5: ["Dropout"], 1.0: ["Mul"]}
