"""Networks that MXNet 1.9.1 quantised (tests/goldens/int8_networks/make.py), node by node."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import symjax_nnvm as nn
from lowering import to_jax
from lowering.ops.quantization.levels import convolve, dot
from symjax_nnvm import symbol as sym
from symjax_nnvm.check import check
from symjax_nnvm.errors import InferenceError, JSONFormatError, NNVMError, ParamError
from symjax_nnvm.graph import Graph
from symjax_nnvm.ops.nn.convolution import ConvolutionParams
from symjax_nnvm.passes.subgraphs import Known, in_subgraphs
from tests.goldens.int8_networks import images
from tests.support.traced import evaluated

GOLDENS = Path(__file__).parents[2] / "goldens" / "int8_networks"


@pytest.mark.slow("three networks of 256 images")
@pytest.mark.parametrize("name", ["plain", "residual", "branches"])
def test_every_node_gives_mxnets_levels(name: str):
    with np.load(GOLDENS / f"{name}.npz") as archive:
        golden = dict(archive)
    net = sym.load_json(golden["symbol"].tobytes().decode())
    arrays = {kind: {k[4:]: golden[k] for k in golden if k.startswith(kind)} for kind in ("arg:", "aux:")}
    nodes = [key[5:] for key in golden if key.startswith("node:")]
    inner = net.get_internals()
    group = sym.Group([net, *(inner[node] for node in nodes)])
    (out, *found), _ = evaluated(to_jax(group), arrays["arg:"] | {"data": images(name)}, arrays["aux:"])
    np.testing.assert_array_equal(np.argmax(out, 1), golden["top1"])
    for node, values in zip(nodes, found, strict=True):
        theirs = golden[f"node:{node}"]
        ours = np.asarray(values)[: len(theirs)]
        assert ours.dtype == theirs.dtype, node
        if theirs.dtype == np.float32:
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6, err_msg=node)
        else:
            np.testing.assert_array_equal(ours, theirs, err_msg=node)


def _wrong(change: tuple[str, str]) -> str:
    with np.load(GOLDENS / "residual.npz") as archive:
        text = archive["symbol"].tobytes().decode()
    assert change[0] in text
    return text.replace(*change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('"with_bn": "true"', '"with_bn": "false"'), "The subgraph does not fit the parameters.*Convolution → "),
        (('"op": "BatchNorm"', '"op": "InstanceNorm"'), "InstanceNorm"),
        (('"quantized": "true"', '"quantized": "false"'), "The number of inputs is wrong"),
        (('"max_calib_range": "', '"max_calib_range": "-9'), "min_calib_range=.* is greater than max_calib_range"),
        (('"min_calib_range": "', '"min_calib_range": "nan'), "Invalid Parameter format for min_calib_range"),
    ],
)
def test_nodes_that_no_mxnet_wrote_are_told(change: tuple[str, str], message: str):
    with pytest.raises(JSONFormatError, match=message):
        sym.load_json(_wrong(change))


def test_a_fused_operator_without_a_subgraph_is_told():
    with pytest.raises(ParamError, match="needs a subgraph.*no function makes it"):
        sym._sg_mkldnn_conv(sym.Variable("x"))


def test_stages_leave_the_subgraph_of_a_fused_operator_as_it_is():
    with np.load(GOLDENS / "residual.npz") as archive:
        graph = Graph(sym.load_json(archive["symbol"].tobytes().decode()).outputs)
    assert any(node.attrs.subgraphs for node in graph.nodes())
    assert in_subgraphs(graph, Known(), lambda body, facts: pytest.fail("it was changed")) is graph


def test_ranges_and_arrays_of_other_kinds_are_told():
    x = sym.contrib.dequantize(sym.Variable("x"), sym.Variable("low"), sym.Variable("high"), name="d")
    with pytest.raises(InferenceError, match="only supports int8/uint8 input, while float32 is given.*Quantise it"):
        x.infer_type(x="float32")
    with pytest.raises(InferenceError, match=r"low|min_range"):
        x.infer_shape(x=(2, 3), low=(2,))
    conv = sym.contrib.quantized_conv(sym.Variable("x"), kernel=(1, 1), num_filter=2, no_bias=True)
    with pytest.raises(InferenceError, match="float32"):
        conv.infer_type(x="int8", **{conv.list_arguments()[1]: "float32"})
    with pytest.raises(ParamError, match="min_calib_range=3 is greater than max_calib_range=-3: swap them"):
        sym.contrib.quantize_v2(sym.Variable("x"), min_calib_range=3, max_calib_range=-3)
    quantized = sym.contrib.quantize_v2(sym.Variable("x"), min_calib_range=-3, max_calib_range=3, name="q")
    with pytest.raises(NNVMError, match="Op q of type .*max_calib_range.*'nan'.*calibration=batches"):
        sym.load_json(quantized.tojson().replace('"max_calib_range": "3', '"max_calib_range": "nan'))
    half = sym.load_json(quantized.tojson().replace('"max_calib_range"', '"__other__"'))
    (problem,) = [each for each in check(half).problems if each.severity == "warning"]
    assert problem.nodes == ("q",)
    assert "one end of a calibrated range" in problem.reason
    with pytest.raises(InferenceError, match="calib_mode=None"):
        sym.contrib.quantized_batch_norm(sym.Variable("x")).infer_type(x="int8")


@pytest.mark.nightly("every case", but_one_in=2)
@pytest.mark.slow("compiles")
@pytest.mark.parametrize(("dtype", "most"), [("int8", -128), ("uint8", 255)])
def test_the_greatest_products_have_exact_sums(dtype: str, most: int):
    """Of lengths about those that are one piece; odd sums have no float32 beyond 2²⁴."""
    for length in (513, 514, 515, 1024, 1025, 1537):
        data, weight = np.full((1, length), most, dtype), np.full((1, length), -128, np.int8)
        data[0, -1] = weight[0, -1] = 1
        assert np.asarray(dot(jnp.asarray(data), jnp.asarray(weight))).item() == most * -128 * (length - 1) + 1
        params = ConvolutionParams(kernel=(1, 1), num_filter=1, no_bias=True)
        images = (jnp.asarray(array).reshape(1, length, 1, 1) for array in (data, weight))
        assert np.asarray(convolve(params, *images)).item() == most * -128 * (length - 1) + 1


@pytest.mark.parametrize(
    ("name", "params", "data"),
    [
        ("num_group=2", {"num_group": 2, "kernel": (3, 3)}, (1, 4, 5, 5)),
        ("num_group=4", {"num_group": 4, "kernel": (3, 3)}, (1, 4, 5, 5)),
        (r"kernel=\(3,\)", {"kernel": (3,)}, (1, 4, 5)),
        ("layout='NHWC'", {"kernel": (3, 3), "layout": "NHWC"}, (1, 5, 5, 4)),
    ],
)
def test_layers_that_mxnet_makes_and_does_not_run_load_and_become_floats(name: str, params: dict[str, Any], data: Any):
    """Of layers of groups, among others, which stay float here unless they are fused."""
    made = sym.contrib.quantized_conv(sym.Variable("data"), num_filter=4, no_bias=True, name="quantized_c", **params)
    net = sym.load_json(made.tojson())
    assert net.infer_shape_partial()[1] is not None
    with pytest.raises(InferenceError, match=f"Parameter {name}: quantized_conv only supports.*dequantized"):
        net.infer_shape(data=data)
    floats = nn.dequantized(net[0])
    weight = sym.Variable("quantized_c_weight")
    again = sym.Convolution(sym.Variable("data"), weight, num_filter=4, no_bias=True, name="c", **params)
    assert not nn.compare_symbols(floats, again)
    body = sym.FullyConnected(sym.Flatten(floats), num_hidden=2, no_bias=True, name="fc")
    shapes = dict(zip(body.list_arguments(), body.infer_shape(data=data)[0], strict=True))
    args = {k: np.ones(shape, np.float32) for k, shape in shapes.items() if k != "data"}
    again = nn.quantize(body, args, mode="none")
    assert {node.op.name for node in Graph(again.net.outputs).nodes() if node.op} >= {
        "Convolution",
        "_contrib_requantize",
    }
