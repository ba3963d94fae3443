"""Files of old opsets, whose operators have other attributes and inputs, compute what onnxruntime computes of them."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.onnx.runtime import Arrays
from tests.onnx.test_from_onnx import assert_same, floats, model_of, node

OPSETS = (7, 9, 11, 13, 17, 21)
X, A = floats(2, 3, 8, 8), floats(2, 3, 4)
Nodes = list[onnx.NodeProto]


def whole(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def moved(opset: int, since: int, kind: str, inputs: str, output: str, **values: Any) -> tuple[onnx.NodeProto, Arrays]:
    """A node that has some values as attributes before an opset, and as inputs from then on."""
    if opset < since:
        return node(kind, inputs, output, **values), {}
    names = {f"{output}_{name}": np.asarray(value) for name, value in values.items()}
    return node(kind, " ".join([inputs, *names]), output), names


def constants(opset: int) -> tuple[Nodes, Arrays]:
    """Nodes of known inputs, whose results are the weights c0, c1, …"""
    rows: list[tuple[onnx.NodeProto, Arrays]] = [
        moved(opset, 13, "Unsqueeze", "a", "c0", axes=[0, 2]),
        moved(opset, 13, "Squeeze", "one", "c1", axes=[0]),
        moved(opset, 13, "ReduceSum", "a", "c2", axes=[1]),
        moved(opset, 18, "ReduceMean", "a", "c3", axes=[1]),
        moved(opset, 11, "Clip", "a", "c4", min=np.float32(-0.5), max=np.float32(0.5)),
    ]
    if opset < 10:
        rows.append((node("Slice", "a", "c5", starts=[-3], ends=[100], axes=[2]), {}))
    else:
        bounds = {"starts": whole(-3), "ends": whole(100), "along": whole(2)}
        rows.append((node("Slice", "a starts ends along", "c5"), bounds))
    if opset < 11:
        rows.append((node("Pad", "a", "c6", pads=[0, 0, 1, 0, 1, 0], value=3.0), {}))
    else:
        rows.append(
            (node("Pad", "a pads fill", "c6"), {"pads": whole(0, 0, 1, 0, 1, 0), "fill": np.array(3, np.float32)})
        )
    if opset >= 9:
        hot = {"rows": whole(1, 0), "depth": whole(3), "off_on": np.array([0, 1], np.float32)}
        rows.append((node("OneHot", "rows depth off_on", "c7"), hot))
    if opset >= 10:
        small = {"bytes": np.array([3, 250], np.uint8), "scale": np.float32(0.5), "zero": np.uint8(7)}
        rows.append((node("DequantizeLinear", "bytes scale zero", "c8"), small))
    weights = {"a": A, "one": A[:1]}
    for _, arrays in rows:
        weights |= {name: np.asarray(array) for name, array in arrays.items()}
    return [each for each, _ in rows], weights


def model(opset: int, nodes: Nodes, inputs: Arrays, weights: Arrays, outputs: list[str]) -> onnx.ModelProto:
    """A model whose weights are inputs, too, where its opset has no others."""
    made = model_of(nodes, {name: array.shape for name, array in inputs.items()}, outputs, weights, opset)
    for name, array in weights.items() if opset < 9 else ():
        dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
        made.graph.input.append(helper.make_tensor_value_info(name, dtype, array.shape))
    return made


@pytest.mark.parametrize("opset", OPSETS)
def test_what_is_known_is_computed_as_the_opset_says(opset: int):
    """A mistake of onnx' reference implementation: it takes a node by itself for one of the latest opset."""
    nodes, weights = constants(opset)
    outputs = [f"y{i}" for i in range(len(nodes))]
    nodes += [node("Mul", f"x c{i}", output) for i, output in enumerate(outputs)]
    x = floats(1)
    assert_same(model(opset, nodes, {"x": x}, weights, outputs), {"x": x})


@pytest.mark.parametrize("opset", OPSETS)
def test_a_shape_that_follows_from_the_data_is_known(opset: int):
    """Shape, Gather, Unsqueeze, Concat, Reshape: how PyTorch writes `x.view(x.shape[0], -1)`."""
    unsqueeze, weights = moved(opset, 13, "Unsqueeze", "count", "counts", axes=[0])
    nodes = [
        node("Shape", "x", "sizes"),
        node("Gather", "sizes first", "count", axis=0),
        unsqueeze,
        node("Concat", "counts left", "shape", axis=0),
        node("Reshape", "x shape"),
    ]
    weights |= {"first": np.array(0), "left": whole(-1)}
    assert_same(model(opset, nodes, {"x": X}, weights, ["y"]), {"x": X})


@pytest.mark.parametrize("opset", OPSETS)
def test_a_network_of_the_opset_is_read(opset: int):
    drop = moved(opset, 12, "Dropout", "pooled", "dropped", ratio=np.float32(0.3))
    resize: tuple[onnx.NodeProto, Arrays]
    scales = np.array([1, 1, 2, 2], np.float32)
    if opset == 9:
        resize = node("Upsample", "dropped scales", "large", mode="nearest"), {"scales": scales}
    elif opset < 9:
        resize = node("Upsample", "dropped", "large", mode="nearest", scales=scales), {}
    else:
        how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        resize = node("Resize", "dropped roi scales", "large", **how), {"scales": scales, "roi": scales[:0]}
    nodes = [
        node("Conv", "x w b", "convolved", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("BatchNormalization", "convolved scale shift mean var", "normal", epsilon=1e-3),
        node("Relu", "normal", "positive"),
        node("MaxPool", "positive", "pooled", kernel_shape=[2, 2], strides=[2, 2]),
        drop[0],
        resize[0],
        node("Flatten", "large", "flat"),
        node("Gemm", "flat gemm bias", "product", transB=1),
        node("Softmax", "product", "y", axis=1),
    ]
    weights = drop[1] | resize[1] | {"w": floats(4, 3, 3, 3), "b": floats(4), "gemm": floats(5, 256), "bias": floats(5)}
    weights |= {name: floats(4) for name in ("scale", "shift", "mean")} | {"var": floats(4) ** 2 + 1}
    assert_same(model(opset, nodes, {"x": X}, weights, ["y"]), {"x": X}, rtol=1e-4)
