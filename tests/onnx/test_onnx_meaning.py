"""What ONNX says of results: shapes without axes, truth values, places in int64; and operators where MXNet's differ."""

import math
from typing import Any

import jax
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import lowering
import symjax_nnvm as nn
from symjax_nnvm.errors import NarrowedDtypeWarning, OnnxError
from symjax_nnvm.onnx import onnx_import
from tests.onnx.runtime import Arrays, again, run
from tests.onnx.test_from_onnx import assert_same, floats, model_of, node, operators
from tests.support.comparison import assert_close
from tests.support.traced import evaluated

I64 = "INT64"


def ours(model: onnx.ModelProto, inputs: Arrays) -> list[np.ndarray]:
    """What a model that was read computes here, in 64 bits where it asks for them."""
    net, args, aux = nn.from_onnx(model)
    given = {name: array for name, array in inputs.items() if name in net.list_arguments()}
    with jax.enable_x64(True):
        made, _ = evaluated(lowering.to_jax(net), {**args, **given}, aux)
        return [np.asarray(each) for each in made]


def assert_as_onnxruntime(model: onnx.ModelProto, inputs: Arrays, rtol: float = 1e-6) -> list[np.ndarray]:
    """Values, shapes and dtypes are onnxruntime's. Returns ours."""
    found = ours(model, inputs)
    for i, (output, other) in enumerate(zip(found, run(model, inputs), strict=True)):
        assert_close(output, other, rtol, f"output {i}")
        assert output.dtype == np.asarray(other).dtype, f"output {i}"
    return found


# -- shapes and dtypes -----------------------------------------------------------------------------------------------

KINDS: dict[str, tuple[list[onnx.NodeProto], tuple[int, ...], str]] = {
    "a sum of all": ([node("ReduceSum", "x", keepdims=0)], (2, 3), "float32 ()"),
    "a function of it": ([node("ReduceMax", "x", "m", keepdims=0), node("Sqrt", "m")], (2, 3), "float32 ()"),
    "it and a vector": ([node("ReduceMax", "x", "m", keepdims=0), node("Add", "m x")], (1,), "float32 (1,)"),
    "an element": ([node("Constant", "", "i", value_int=1), node("Gather", "x i")], (3,), "float32 ()"),
    "a product of vectors": ([node("MatMul", "x x")], (3,), "float32 ()"),
    "an element of two axes": ([node("Constant", "", "i", value_ints=[1, 2]), node("GatherND", "x i")], (2, 3),
                   "float32 ()"),
    "a determinant": ([node("Det", "x")], (3, 3), "float32 ()"),
    "a comparison": ([node("Greater", "x x")], (2, 3), "bool (2, 3)"),
    "a comparison of all": ([node("ReduceMin", "x", "m", keepdims=0), node("Equal", "m m")], (2, 3), "bool ()"),
    "a logical": ([node("IsNaN", "x", "n"), node("Not", "n")], (2, 3), "bool (2, 3)"),
    "truths of two kinds": ([node("IsNaN", "x", "n"), node("Cast", "x", "c", to=9), node("Or", "n c")], (4,),
                            "bool (4,)"),
    "a place": ([node("ArgMax", "x", axis=1)], (2, 3), "int64 (2, 1)"),
    "one place": ([node("ArgMin", "x", axis=0, keepdims=0)], (3,), "int64 ()"),
    "a place, cast": ([node("ArgMax", "x", "m", axis=1, keepdims=0), node("Cast", "m", to=6)], (2, 3), "int32 (2,)"),
    "a size": ([node("Size", "x")], (2, 3), "int64 ()"),
    "a constant": ([node("Identity", "x", "z"), node("Constant", "", value_int=2**40)], (2,), "int64 ()"),
}  # fmt: skip
"""What is computed → (nodes, the input's shape, ONNX' dtype and shape of the result)."""


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("kind", KINDS)
def test_results_have_onnxs_shape_and_dtype(kind: str):
    nodes, shape, expected = KINDS[kind]
    model = model_of(nodes, {"x": shape})
    model.graph.output[0].type.tensor_type.elem_type = getattr(
        TensorProto, {"float32": "FLOAT"}.get(expected.split()[0], expected.split()[0].upper())
    )
    (found,) = assert_as_onnxruntime(model, {"x": floats(*shape)}, rtol=1e-5)
    assert f"{found.dtype} {found.shape}" == expected
    net, args, _ = nn.from_onnx(model)
    given = {name: array for name, array in {**args, "x": floats(*shape)}.items() if name in net.list_arguments()}
    assert net.infer_shape(**{name: array.shape for name, array in given.items()})[1] == [found.shape]
    assert np.dtype(net.infer_type(**{name: array.dtype for name, array in given.items()})[1][0]) == found.dtype
    if "x" in given:
        (back,) = run(again(model, {"x": floats(*shape)}), {"x": floats(*shape)})
        assert (np.asarray(back).dtype, np.shape(back)) == (found.dtype, found.shape)


@pytest.mark.slow("compiles")
def test_places_are_whole_numbers_of_32_bits_where_jax_has_no_more():
    model = model_of([node("ArgMax", "x", axis=1)], {"x": (2, 3)})
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    net, _, _ = nn.from_onnx(model)
    with pytest.warns(NarrowedDtypeWarning, match="int64"):
        made, _ = lowering.to_jax(net)({"x": floats(2, 3)})
    assert made[0].dtype == np.int32


@pytest.mark.parametrize("shape", [(), (1,)])
def test_an_input_without_axes_takes_one_element_of_either_shape(shape: tuple[int, ...]):
    model = model_of([node("Mul", "x s"), node("Exp", "s", "z")], {"x": (2, 3), "s": ()}, ("y", "z"))
    found = ours(model, {"x": floats(2, 3), "s": np.full(shape, 2, np.float32)})
    assert [each.shape for each in found] == [(2, 3), ()]
    assert_as_onnxruntime(model, {"x": floats(2, 3), "s": np.asarray(2, np.float32)})


def test_a_scan_over_a_vector_has_steps_without_axes():
    body = helper.make_graph(
        [node("Add", "state step", "new"), node("Mul", "new new", "out")],
        "body",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, []) for name in ("state", "step")],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, []) for name in ("new", "out")],
    )
    model = model_of([node("Scan", "s x", "last y", body=body, num_scan_inputs=1)], {"s": (), "x": (4,)}, ("last", "y"))
    assert [each.shape for each in assert_as_onnxruntime(model, {"s": np.asarray(1, np.float32), "x": floats(4)})] == [
        (),
        (4,),
    ]


def test_whole_numbers_beside_places_keep_their_64_bits():
    nodes = [node("ArgMax", "x", "m", axis=1), node("Mul", "m big")]
    model = model_of(nodes, {"x": (2, 3)}, weights={"big": np.asarray([2**40], np.int64)})
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    assert_as_onnxruntime(model, {"x": np.eye(3, dtype=np.float32)[1:]})


X33 = {"x": floats(1, 2, 3, 3)}

# -- operators where MXNet's differ ------------------------------------------------------------------------------------


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "float32"])
@pytest.mark.parametrize("axis", [-1, 0])
def test_one_hot_beyond_the_depth_is_off(dtype: str, axis: int):
    indices = np.asarray([[0, 2, 3], [100, 4, 255]]) if dtype == "uint8" else np.asarray([[0, -1, -3], [-4, 3, 99]])
    made = model_of(
        [node("OneHot", "x d v", axis=axis)],
        {"x": (dtype.upper().replace("FLOAT32", "FLOAT"), (2, 3))},
        weights={"d": np.asarray(3, np.int64), "v": np.asarray([-2, 5], np.float32)},
    )
    (found,) = ours(made, {"x": indices.astype(dtype)})
    wrapped = np.where(indices < 0, indices + 3, indices)
    expected = np.where(wrapped[..., None] == np.arange(3), 5, -2).astype(np.float32)
    np.testing.assert_array_equal(found, np.moveaxis(expected, -1, axis))


@pytest.mark.parametrize("kind", ["SpaceToDepth", "DepthToSpace"])
@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_blocks_of_either_order(kind: str, mode: str):
    x = np.arange(2 * 8 * 4 * 6, dtype=np.float32).reshape(2, 8, 4, 6)
    made = model_of([node(kind, "x", blocksize=2, mode=mode)], {"x": x.shape}, opset=28)
    if kind == "DepthToSpace":
        order = (0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3)
        expected = x.reshape(2, 2, 2, 2, 4, 6).transpose(order).reshape(2, 2, 8, 12)
    else:
        order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
        expected = x.reshape(2, 8, 2, 2, 3, 2).transpose(order).reshape(2, 32, 2, 3)
    np.testing.assert_array_equal(ours(made, {"x": x})[0], expected)


@pytest.mark.slow("compiles")
@pytest.mark.parametrize(
    ("shape", "attrs"),
    [((10, 8), {"strides": [3, 2]}), ((9, 7), {"strides": [3, 2]}),
     ((8, 6), {"strides": [3, 2], "auto_pad": "SAME_UPPER"}), ((8, 6), {"strides": [3, 2], "auto_pad": "SAME_LOWER"})],
)  # fmt: skip
def test_a_transposed_convolution_of_any_shape(shape: tuple[int, int], attrs: dict[str, Any]):
    weights = {"w": floats(2, 4, 3, 3), "b": floats(4)}
    for given in ("x w", "x w b"):
        nodes = [node("ConvTranspose", given, output_shape=list(shape), **attrs)]
        made = model_of(nodes, {"x": (1, 2, 3, 3)}, weights={name: weights[name] for name in given.split()[1:]})
        assert_as_onnxruntime(made, X33, rtol=1e-5)


@pytest.mark.parametrize("shape", [(6, 8), (9, 5)])
def test_a_transposed_convolution_far_larger_than_its_windows_reach(shape: tuple[int, int]):
    """onnxruntime refuses it. Behind the last window there is nothing but the bias."""
    weights = {"w": floats(2, 4, 3, 3), "b": floats(4)}
    made = model_of([node("ConvTranspose", "x w b", output_shape=list(shape))], {"x": (1, 2, 3, 3)}, weights=weights)
    natural = model_of([node("ConvTranspose", "x w")], {"x": (1, 2, 3, 3)}, weights={"w": weights["w"]})
    (inside,) = run(natural, X33)
    behind = [(0, 0), (0, 0), *((0, size - 5) for size in shape)]
    assert_close(ours(made, X33)[0], np.pad(inside, behind) + weights["b"][:, None, None], 1e-5, "output")


@pytest.mark.parametrize("auto", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(
    ("kernel", "more"),
    [(3, {"output_shape": [10, 6]}), (3, {"output_shape": [8, 9]}), (2, {}), (2, {"output_shape": [9, 6]})],
)
def test_automatic_padding_of_an_output_that_no_window_fills_is_refused(auto: str, kernel: int, more: dict[str, Any]):
    """onnx' reference pads in front, or behind; onnxruntime behind, or refuses, or makes a smaller output."""
    nodes = [node("ConvTranspose", "x w", strides=[3, 2], auto_pad=auto, **more)]
    made = model_of(nodes, {"x": (1, 2, 3, 3)}, weights={"w": floats(2, 4, kernel, kernel)})
    with pytest.raises(OnnxError, match=f"runtimes differ in where {auto} puts the rest.*'y'. Leave out auto_pad"):
        nn.from_onnx(made)


@pytest.mark.parametrize("auto", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool", "LpPool"])
def test_automatic_padding_of_windows_that_leave_out_the_end_is_refused(kind: str, auto: str):
    """onnxruntime's MaxPool refuses it, its others begin later; onnx' reference begins later, or fails."""
    nodes = [node(kind, "x", kernel_shape=[1, 2], strides=[3, 2], auto_pad=auto)]
    with pytest.raises(OnnxError, match="leave out 2 of 6 elements.*'y'. Leave out auto_pad, and give pads"):
        nn.from_onnx(model_of(nodes, {"x": (1, 2, 6, 6)}))
    assert_as_onnxruntime(model_of(nodes, {"x": (1, 2, 7, 6)}), {"x": floats(1, 2, 7, 6)}, rtol=1e-5)


@pytest.mark.parametrize("auto", ["SAME_UPPER", "SAME_LOWER"])
def test_a_convolution_whose_windows_leave_out_the_end_begins_with_the_data(auto: str):
    nodes = [node("Conv", "x w", strides=[3, 2], auto_pad=auto)]
    model = model_of(nodes, {"x": (1, 2, 6, 6)}, weights={"w": floats(2, 2, 1, 2)})
    assert_as_onnxruntime(model, {"x": floats(1, 2, 6, 6)}, rtol=1e-5)


DRAWN = np.random.default_rng(5)
OFFSETS = {
    "halves": np.full((2, 24, 5, 5), 0.5),
    "none": np.zeros((2, 24, 5, 5)),
    "before": DRAWN.uniform(-2, 0, (2, 24, 5, 5)),
    "far": DRAWN.uniform(-9, 9, (2, 24, 5, 5)),
    "quarters": np.round(DRAWN.normal(size=(2, 24, 5, 5)) * 8) / 4,
}


@pytest.mark.nightly("every kind of offset", but_one_in=3)
@pytest.mark.slow("compiles")
@pytest.mark.parametrize("mask", [False, True], ids=["no mask", "mask"])
@pytest.mark.parametrize("offsets", OFFSETS)
def test_a_deformable_convolution_fades_to_zero_beyond_the_border(offsets: str, mask: bool):
    """The batch is open, as a mask of ones has to be then."""
    inputs = {"x": floats(2, 4, 6, 5), "o": OFFSETS[offsets].astype(np.float32)}
    if mask:
        inputs["m"] = floats(2, 12, 5, 5)
    how = {"kernel_shape": [3, 2], "pads": [1, 0, 0, 1], "offset_group": 2, "group": 2}
    model = model_of(
        [node("DeformConv", "x w o b" + " m" * mask, **how)],
        {name: ("n", *array.shape[1:]) for name, array in inputs.items()},
        weights={"w": floats(4, 2, 3, 2), "b": floats(4)},
        opset=19,
    )
    (expected,) = ReferenceEvaluator(model).run(None, inputs)
    assert_close(ours(model, inputs)[0], expected, 1e-5, "output")
    one = {name: array[:1] for name, array in inputs.items()}
    assert_close(ours(model, one)[0], expected[:1], 1e-5, "output of one")


@pytest.mark.slow("compiles")
def test_a_deformable_convolution_of_half_an_element():
    x, offset = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4), np.full((1, 2, 4, 4), 0.5, np.float32)
    weights = {"w": np.ones((1, 1, 1, 1), np.float32), "o": offset}
    model = model_of([node("DeformConv", "x w o", kernel_shape=[1, 1])], {"x": x.shape}, weights=weights, opset=19)
    expected = [[3.5, 4.5, 5.5, 3], [7.5, 8.5, 9.5, 5], [11.5, 12.5, 13.5, 7], [6.75, 7.25, 7.75, 4]]
    np.testing.assert_allclose(ours(model, {"x": x})[0][0, 0], expected, rtol=1e-6)


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("ratio", [0, 2])
@pytest.mark.parametrize("mode", ["half_pixel", "output_half_pixel"])
def test_a_region_without_height_or_width(mode: str, ratio: int):
    """Where the number of samples follows from its size it has none."""
    regions = [[1, 1, 1, 1], [1, 1, 1, 3], [0, 2, 3, 2], [3, 3, 1, 1], [0.5, 0, 2.5, 3], [-3, -3, 9, 9]]
    how = {"output_height": 2, "output_width": 3, "sampling_ratio": ratio, "spatial_scale": 0.5}
    nodes = [node("RoiAlign", "x r i", coordinate_transformation_mode=mode, **how)]
    model = model_of(nodes, {"x": (1, 2, 5, 4), "r": ("r", 4), "i": (I64, ("r",))})
    inputs = {"x": floats(1, 2, 5, 4), "r": np.asarray(regions, np.float32), "i": np.zeros(6, np.int64)}
    (found,) = assert_as_onnxruntime(model, inputs, rtol=1e-5)
    assert np.all(found[:4] == 0) == (mode == "half_pixel" and ratio == 0)


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("p", [1, 2])
def test_a_row_of_zeros_is_normalised_to_zeros(p: int):
    x = np.asarray([[3, -4], [0, 0], [0, 1e-20]], np.float32)
    (found,) = ours(model_of([node("LpNormalization", "x", p=p, axis=1)], {"x": x.shape}), {"x": x})
    np.testing.assert_array_equal(found[1], [0, 0])
    np.testing.assert_allclose(found[0], x[0] / (7 if p == 1 else 5), rtol=1e-6)


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("fmod", [0, 1])
def test_remainders_of_floating_point_numbers(fmod: int, constant: bool):
    x = np.asarray([1e8, -1e8, 5.5, -5.5, 3, -3, 0, np.inf, 2], np.float32)
    y = np.asarray([3, 3, -2, 2, np.inf, np.inf, 4, 2, 0], np.float32)
    given = {"x": x.shape} | ({} if constant else {"z": y.shape})
    made = model_of([node("Mod", "x z", fmod=fmod)], given, weights={"z": y} if constant else {}, opset=28)
    with np.errstate(invalid="ignore"):
        expected = np.fmod(x, y) if fmod else np.mod(x, y)
    (found,) = ours(made, {"x": x} | ({} if constant else {"z": y}))
    kept = [0, 1, 2, 3, 4, *([5] if fmod else []), 6, 7, 8]  # JAX' remainder of -3 by infinity is infinity
    np.testing.assert_array_equal(found[kept], expected[kept])


ENDS = np.asarray([np.inf, -np.inf, 0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 3e9, -0.3, 100], np.float32)


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("kind", ["Round", "ThresholdedRelu", "Shrink"])
def test_functions_of_infinity(kind: str):
    assert_as_onnxruntime(model_of([node(kind, "x")], {"x": ENDS.shape}), {"x": ENDS})


@pytest.mark.parametrize("shape", [(3,), (1, 3), (1,), (2, 3), (2, 1)])
def test_a_slope_of_infinity_is_used_below_zero_alone(shape: tuple[int, ...]):
    x = np.asarray([[1, 0, 2], [-1, 3, -0.5]], np.float32)
    made = model_of([node("PRelu", "x s")], {"x": x.shape}, weights={"s": np.full(shape, np.inf, np.float32)})
    np.testing.assert_array_equal(ours(made, {"x": x})[0], np.where(x < 0, -np.inf, x))
    leaky = model_of([node("LeakyRelu", "x", alpha=math.inf)], {"x": x.shape})
    np.testing.assert_array_equal(ours(leaky, {"x": x})[0], np.where(x < 0, -np.inf, x))


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("keep", [0, 1])
def test_logarithms_of_sums_with_infinities(keep: int):
    """A row of attention that is masked as a whole."""
    x = np.asarray([[1, 2], [-np.inf, -np.inf], [np.inf, 1], [-np.inf, 3], [500, 500]], np.float32)
    nodes = [node("Constant", "", "a", value_ints=[1]), node("ReduceLogSumExp", "x a", keepdims=keep)]
    assert_as_onnxruntime(model_of(nodes, {"x": x.shape}), {"x": x})


def test_the_root_of_means_of_squares_is_taken_in_float32():
    x, scale = np.full((1, 4), 1000, np.float16), np.ones(4, np.float16)
    made = model_of([node("RMSNormalization", "x s")], {"x": ("FLOAT16", (1, 4))}, weights={"s": scale}, opset=23)
    np.testing.assert_allclose(ours(made, {"x": x})[0], np.ones((1, 4)), rtol=1e-3)


# -- attributes ------------------------------------------------------------------------------------------------------


def test_an_attribute_that_no_form_asks_for_is_refused():
    """Later opsets give operators attributes: one that is not known here must not be left out in silence."""
    onnx_import("Hardmax", since=27)(lambda g, x: g.op("softmax", x))
    onnx_import("Hardmax", since=28, ignores=("axis",))(lambda g, x: g.op("softmax", x))
    for axis, opset in ((-1, 27), (0, 28)):  # what ONNX means anyway, what is said to change nothing
        made = model_of([node("Hardmax", "x", axis=axis)], {"x": (2, 3)}, opset=opset)
        assert operators(nn.from_onnx(made)[0]) == ["softmax"]
    with pytest.raises(OnnxError, match="its attribute 'axis' is not supported.*'Hardmax', node 'y'"):
        nn.from_onnx(model_of([node("Hardmax", "x", axis=0)], {"x": (2, 3)}, opset=27))


def test_split_says_how_many_outputs_it_has():
    made = model_of([node("Split", "x", "a y", num_outputs=2)], {"x": (4,)}, ("a", "y"))
    assert_same(made, {"x": floats(4)})
    made = model_of([node("Split", "x", "a y", num_outputs=3)], {"x": (6,)}, ("a", "y"))
    with pytest.raises(OnnxError, match="it has 2 outputs, but num_outputs=3"):
        nn.from_onnx(made)


@pytest.mark.parametrize("axes", [False, True], ids=["no axes", "empty axes"])
@pytest.mark.parametrize(
    "op", ["ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp", "ReduceSum"]
)
def test_without_axes_an_element_still_goes_through_what_is_reduced(op: str, axes: bool):
    """`noop_with_empty_axes` leaves out the sum, not the square or the logarithm."""
    x = np.array([[-0.5, 0.25, 2.0]], np.float32) if op != "ReduceLogSum" else np.array([[0.5, 0.25, 2.0]], np.float32)
    empty = helper.make_tensor("a", TensorProto.INT64, [0], [])
    nodes = [node("Constant", "", "a", value=empty), node(op, "x a" if axes else "x", noop_with_empty_axes=1)]
    assert_as_onnxruntime(model_of(nodes if axes else nodes[1:], {"x": x.shape}), {"x": x})
