"""Models of 8-bit integers: MXNet's graphs, ranges and integers; and what cannot be quantised."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowering.mx as mx
import symjax_nnvm as nn
from symjax_nnvm import symbol as sym
from symjax_nnvm.io.symbol_json.graph_json import save_json
from symjax_nnvm.passes.quantize import Quantization
from symjax_nnvm.pipeline import STAGES, Options, Pipeline
from symjax_nnvm.quantization.calibration import HistogramCollector, checked_ranges
from symjax_nnvm.quantization.entropy import entropy_threshold
from symjax_nnvm.quantization.quantize_model import calibrated, quantized_symbol
from tests.quantization.networks import NETWORKS, VALUES, batches, parameters, values

GOLDEN = json.loads((Path(__file__).parents[1] / "goldens/quantized.json").read_text(encoding="utf-8"))


@cache
def network(name: str) -> nn.Model:
    build, shape = NETWORKS[name]
    net = build(sym)
    return nn.Model(net, *parameters(net, shape))


def graph(document: Any) -> list[Any]:
    """A symbol's nodes, and the ranges of each apart."""
    nodes = document["nodes"]
    plain = [
        (n["op"], n["name"], {k: v for k, v in n.get("attrs", {}).items() if "calib" not in k}, n["inputs"])
        for n in nodes
    ]
    return [plain, document["heads"]]


def ranges(document: Any) -> dict[str, list[float]]:
    return {
        n["name"]: [float(n["attrs"][f"{end}_calib_range"]) for end in ("min", "max")]
        for n in document["nodes"]
        if "min_calib_range" in n.get("attrs", {})
    }


@pytest.mark.parametrize("name", NETWORKS)
def test_graph_ranges_and_integers_are_those_of_mxnet(name):
    golden, model = GOLDEN["networks"][name], network(name)
    made = nn.quantize(*model, calibration=batches(name), mode="naive", dtype="auto")
    ours = json.loads(made.net.tojson())
    assert graph(ours) == graph(golden["naive"])
    known = ranges(golden["naive"])
    assert ranges(ours).keys() == known.keys()
    for node, ends in ranges(ours).items():
        np.testing.assert_allclose(ends, known[node], rtol=1e-5, atol=1e-6, err_msg=node)
    for key, numbers in golden["int8"].items():
        np.testing.assert_array_equal(np.ravel(made.args[key])[:40], np.float32(numbers), err_msg=key)


@pytest.mark.parametrize("name", NETWORKS)
def test_fused_layers_are_those_of_mxnet(name):
    """What `quantize_model_mkldnn` makes; attention with a range for each row of dense weights."""
    golden = GOLDEN["networks"][name]["fused"]
    mode, granularity = (
        ("none" if name == "text" else "naive"),
        ("channel-wise" if name == "attention" else "tensor-wise"),
    )
    how = {"mode": mode, "granularity": granularity, "dtype": "auto", "fused": True}
    made = nn.quantize(*network(name), calibration=batches(name), **how)
    ours = json.loads(made.net.tojson())
    assert graph(ours) == graph(golden)
    for node, theirs in zip(ours["nodes"], golden["nodes"], strict=True):
        assert [graph(body) for body in node.get("subgraphs", ())] == [
            graph(body) for body in theirs.get("subgraphs", ())
        ]
    assert ranges(ours).keys() == ranges(golden).keys()
    for node, ends in ranges(golden).items():
        np.testing.assert_allclose(ranges(ours)[node], ends, rtol=1e-5, atol=1e-6, err_msg=node)


@pytest.mark.slow("computes much")
def test_entropy_gives_mxnets_ranges():
    golden = GOLDEN["networks"]["text"]["entropy"]
    made = nn.quantize(*network("text"), calibration=batches("text"), mode="entropy", dtype="auto")
    ours = ranges(json.loads(made.net.tojson()))
    assert ours.keys() == ranges(golden).keys()
    for node, ends in ranges(golden).items():
        np.testing.assert_allclose(ours[node], ends, rtol=1e-5, atol=1e-6, err_msg=node)


@pytest.mark.slow("computes much")
@pytest.mark.parametrize("kind", VALUES)
def test_thresholds_are_mxnets(kind):
    for dtype, threshold in GOLDEN["thresholds"][kind].items():
        collector = HistogramCollector(dtype)
        for array in values(kind):
            collector.collect("x", array)
        low, high = collector.post_collect()["x"]
        assert high == pytest.approx(threshold, rel=1e-5)
        assert low == (0 if kind == "relu" and dtype == "auto" else -high)


def test_bins_end_where_numpy_1_has_them():
    """Whose edges are rounded from float64, at a wider batch too; MXNet counts by them."""
    collector, random = HistogramCollector(), np.random.RandomState(0)
    for width in (1.7, 2.3):
        array = (width * random.uniform(-1, 1, 100_000)).astype("f")
        collector.collect("x", array)
    counts, edges, _, _, reach = collector.hist_dict["x"]
    exact = (-np.float64(reach) + np.arange(counts.size + 1) * (2 * np.float64(reach) / counts.size)).astype("f")
    assert edges.dtype == np.float32
    assert (edges == exact).mean() > 0.999
    assert edges[-1] == np.float32(reach) >= np.abs(array).max()
    assert counts.sum() == 200_000


def test_batches_of_zeros_come_first():
    """MXNet's collector divides by the width of their bins, 0."""
    collectors = HistogramCollector(), HistogramCollector()
    for collector, arrays in zip(collectors, ([[0, 0], [-2, 3]], [[-2, 3], [0, 0]]), strict=True):
        for array in arrays:
            collector.collect("x", np.array(array, np.float32))
    for first, second in zip(*(collector.hist_dict["x"] for collector in collectors), strict=True):
        np.testing.assert_array_equal(first, second)


def test_a_made_model_becomes_the_float_network_again():
    model = network("mlp")
    back = nn.quantize(*model, mode="none").dequantized()
    assert not nn.compare_symbols(back.net, model.net)
    for name, array in model.args.items():
        np.testing.assert_allclose(back.args[name], array, atol=np.abs(array).max() / 127, err_msg=name)


@pytest.mark.parametrize("fused", [False, True])
def test_what_is_quantised_already_is_not_quantised_again(fused):
    made = nn.quantize(*network("mlp"), mode="none", excluded=["fc2"], fused=fused)
    with pytest.raises(nn.GraphError, match=r"quantised already.*node 'data_quantize'.*\.dequantized\(\)"):
        nn.quantize(*made, mode="none", fused=fused)
    again = nn.quantize(*made.dequantized(), mode="none", excluded=["fc2"], fused=fused)
    assert again.net.tojson() == made.net.tojson()


def test_parameters_are_rounded_as_onednn_does():
    """To the even one of two levels; those that are 0 are the greatest, in a range that is 0."""
    net = nn.symbol.FullyConnected(nn.symbol.Variable("data"), num_hidden=1, name="fc1")
    weight = np.array([[127, 30.5, -6.5, 7.5, -113.49999]], np.float32)
    made = nn.quantize(net, {"fc1_weight": weight, "fc1_bias": np.zeros(1, np.float32)}, mode="none")
    assert made.args["fc1_weight_quantize"].tolist() == [[127, 30, -6, 8, -113]]
    assert made.args["fc1_bias_quantize"].tolist() == [127]
    assert made.dequantized().args["fc1_bias"].tolist() == [0]


def test_excluded_layers_stay_float():
    model = network("mlp")
    kinds = {
        n.name: n.op.name
        for n in nn.graph.create(nn.quantize(*model, mode="none", excluded=["fc2"]).net).nodes()
        if n.op is not None
    }
    assert kinds["fc2"] == "FullyConnected"
    assert kinds["quantized_fc3"] == "_contrib_quantized_fully_connected"
    assert kinds["quantized_mul"] == "_contrib_quantized_elemwise_mul"  # between fc3 and fc4
    made = [nn.quantize(*model, mode="none", excluded_ops=[alias]).net.tojson() for alias in ("elemwise_add", "_plus")]
    assert made[0] == made[1] != nn.quantize(*model, mode="none").net.tojson()


REFUSED = {
    "empty": ({"calibration": []}, "calibration data are empty.*used up before"),
    "none": ({}, "mode='entropy' needs data.*calibration=\\["),
    "not finite": ({"calibration": [np.full((4, 12), np.nan, np.float32)]}, "'?data'? has NaN.*Scale the data"),
    "zeros": (
        {"calibration": [np.zeros((4, 12), np.float32)], "mode": "naive"},
        r"data is 0 on all calibration data.*leave out what needs.*excluded=\['fc1'\]",
    ),
    "zeros, fused": (
        {"calibration": [np.zeros((4, 12), np.float32)], "mode": "naive", "fused": True},
        r"data is 0 on all calibration data.*excluded=\['fc1'\]",
    ),
    "zeros, entropy": ({"calibration": [np.zeros((4, 12), np.float32)]}, "data is 0 on all calibration data"),
    "a number": ({"calibration": 3}, r"calibration data must be batches.*got int.*\[batch\]"),
    "one batch": ({"calibration": {"data": np.zeros((4, 12))}}, r"data must be batches.*got dict.*\[batch\]"),
    "no weight": ({"args": {}, "calibration": [np.ones((4, 12))]}, "no arrays for the param.*fc1_weight.*pass all"),
    "mode": ({"mode": "kl"}, "mode='kl'.*'entropy', 'naive', 'none'"),
    "dtype": ({"dtype": "int4"}, "dtype='int4'.*'int8', 'uint8', 'auto'"),
    "unknown layer": ({"mode": "none", "excluded": ["fc"]}, "no layer 'fc'.*Did you mean"),
    "one name": ({"mode": "none", "excluded": "fc1"}, r"excluded are names.*excluded=\['name', …\]"),
    "all excluded": ({"mode": "none", "excluded_ops": ["FullyConnected"]}, "No layer .* can be quantised.*smart=False"),
    "all fused excluded": (
        {"mode": "none", "excluded_ops": ["FullyConnected", "elemwise_mul", "elemwise_add"], "fused": True},
        "No layer .* can be quantised",
    ),
    "unknown operator": ({"mode": "none", "excluded_ops": ["FullyConnect"]}, "FullyConnect is not.*Did you mean"),
    "granularity": ({"mode": "none", "granularity": "row"}, "granularity='row'.*'tensor-wise', 'channel-wise'"),
    "other names": ({"calibration": [{"x": np.zeros(1)}]}, "lacks data; got x.*as the network does"),
    "no list": ({"mode": "none", "excluded": 5}, r"excluded are names.*excluded=\['name', …\]"),
    "no arrays": ({"mode": "none", "args": None}, "args are arrays by name.*load_arrays"),
    "a model": ({"mode": "none", "net": nn.Model(sym.Variable("x"), {})}, r"a Symbol.*got Model.*quantize\(\*model"),
    "far greater": (
        {"calibration": [np.full((4, 12), value, np.float32) for value in (1e-7, 1)]},
        "data: there is a batch whose values reach 1, after others that reach 1e-07.*mode='naive'",
    ),
    "too few arrays": ({"calibration": [()]}, "too few arrays.*data"),
}


@pytest.mark.slow("quantises networks")
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_quantised_is_told_with_a_way_out(case):
    options, words = REFUSED[case]
    inputs: dict[str, Any] = dict(zip(("net", "args", "aux"), network("mlp"), strict=True))
    with pytest.raises(nn.NNVMError) as told:
        nn.quantize(**(inputs | options))
    assert re.search(words, str(told.value), re.DOTALL), told.value


def test_ranges_that_are_none_are_told():
    for ends in ((1.0, -1.0), (np.nan, 1.0), (1.0,), (0.0, 1.0, 2.0), ("a", "b"), None):
        with pytest.raises(nn.NNVMError, match="x has no valid range"):
            checked_ranges({"x": ends}, {"x": ["fc"]})
    with pytest.raises(nn.NNVMError, match=r"never reach y.*excluded=\['fc'\]"):
        checked_ranges({"x": (0, 1)}, {"x": [], "y": ["fc"]})


def test_batch_norm_needs_a_range_and_parameters_need_numbers():
    model = network("residual")
    with pytest.raises(nn.NNVMError, match="quantized_bn0, quantized_bn1 need a calibrated range"):
        nn.quantize(*model, mode="none")
    for value in (np.inf, 1j):
        wrong = dict(model.args) | {"fc1_weight": model.args["fc1_weight"] + value}
        with pytest.raises(nn.NNVMError, match="The parameter 'fc1_weight'"):
            nn.quantize(model.net, wrong, model.aux, mode="none", excluded_ops=["BatchNorm"])


@pytest.mark.slow("computes much")
def test_the_threshold_of_data_is_the_operators():
    """NumPy estimates most thresholds away; the operator, which XLA compiles, goes through all of them."""
    random = np.random.default_rng(3)
    for draw in (random.standard_normal, random.standard_cauchy, random.standard_exponential):
        values = np.clip(draw(4000), -20, 20)
        counts, edges = np.histogram(values, 501, (-np.abs(values).max(), np.abs(values).max()))
        threshold, divergence = entropy_threshold(counts, edges, 31)
        arrays = (mx.nd.array(each, dtype="float32") for each in (counts, edges))
        of_operator = mx.nd.contrib.calibrate_entropy(*arrays, num_quantized_bins=31)
        assert threshold == np.float32(of_operator[0].asscalar())
        np.testing.assert_allclose(divergence, of_operator[1].asscalar(), rtol=1e-3)  # float32 sums in another order


def test_a_stage_of_the_pipeline_makes_the_same_layers():
    model = network("mlp")
    wishes = Quantization(offline=frozenset(model.args), ranges=(("data", (-1.0, 2.0)),))
    only = (stage for stage in STAGES if stage.name == "QuantizeGraph")
    plan = Pipeline(model.net.outputs).plan(Options(quantization=wishes, stages=tuple(only)))
    made = calibrated(quantized_symbol(model.net, wishes), {"data": (-1.0, 2.0)})
    assert save_json(plan.graph) == save_json(nn.graph.create(made))
    assert "-1.0" in save_json(plan.graph)
    with_gradients = Pipeline(model.net.outputs).plan(Options(quantization=wishes, wrt=("fc1_weight",)))
    record = next(record for record in with_gradients.records if record.name == "QuantizeGraph")
    assert record.missing == ("no gradients",)
