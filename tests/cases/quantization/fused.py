"""Cases of what MXNet fuses for oneDNN: nodes with subgraphs, as files have them."""

import json
from collections.abc import Sequence
from typing import Any

from tests.cases import Case, T, Tensor
from tests.cases.quantization import HIGH, LOW, ZERO, case, signed, unsigned


def _fused(op: str, attrs: dict[str, str], names: Sequence[str], inside: Any):
    """A function that makes a node of a fused operator; inside: module of symbol functions, variables → subgraph."""

    def graph(sym: Any, *inputs: Any) -> Any:
        subgraph = json.loads(inside(sym, *map(sym.Variable, names)).tojson())
        subgraph.pop("attrs", None)
        nodes: list[dict[str, Any]] = [{"op": "null", "name": f"in{i}", "inputs": []} for i in range(len(inputs))]
        entries = [[i, 0, 0] for i in range(len(inputs))]
        numbers = list(range(len(inputs)))
        nodes.append({"op": op, "name": "op", "attrs": attrs, "inputs": entries, "subgraphs": [subgraph]})
        document = {"nodes": nodes, "arg_nodes": numbers, "heads": [[len(inputs), 0, 0]]}
        return sym.load_json(json.dumps(document | {"attrs": {"mxnet_version": ["int", 10901]}}))

    return graph


_CONV = {"kernel": (3, 3), "num_filter": 4, "pad": (1, 1), "stride": (1, 1), "dilate": (1, 1), "no_bias": False}
_PARTS = ("data", "weight", "bias", "gamma", "beta", "mean", "var", "sum")
_WEIGHT, _BIAS = T(4, 3, 3, 3), T(4)
_STATISTICS = (T(4, low=0.5, high=1.5), T(4), T(4), T(4, low=0.5, high=1.5))


def _convolution(sym: Any, data: Any, weight: Any, bias: Any, **params: Any) -> Any:
    return sym.Convolution(data, weight, bias, **{**_CONV, **params}, name="conv")


def _normalised(sym: Any, data: Any, weight: Any, bias: Any, gamma: Any, beta: Any, mean: Any, var: Any) -> Any:
    conv = _convolution(sym, data, weight, bias)
    return sym.BatchNorm(conv, gamma, beta, mean, var, fix_gamma=False, eps=1e-5, name="bn")


def _with_relu(sym: Any, *parts: Any) -> Any:
    return sym.Activation(_normalised(sym, *parts), act_type="relu", name="relu")


def _with_sum(sym: Any, *parts: Any) -> Any:
    return sym.Activation(_normalised(sym, *parts[:-1]) + parts[-1], act_type="relu", name="relu")


def _relu6(sym: Any, *parts: Any) -> Any:
    return sym.clip(_convolution(sym, *parts), a_min=0.0, a_max=6.0, name="clip")


def _leaky(sym: Any, *parts: Any) -> Any:
    return sym.LeakyReLU(_convolution(sym, *parts), act_type="leaky", slope=0.1, name="leaky")


def conv(tag: str, inside: Any, count: int, *inputs: Tensor, **attrs: object) -> Case:
    """A case of a fused convolution of so many parts."""
    names = [*_PARTS[: min(count, 7)], *["sum"] * (count > 7)]
    texts = {name: str(value) for name, value in attrs.items()}
    return case("_sg_mkldnn_conv", *inputs, tag=tag, graph=_fused("_sg_mkldnn_conv", texts, names, inside))


def dense(tag: str, *inputs: Tensor, function: str = "", no_bias: bool = False, **attrs: object) -> Case:
    """A case of a fused dense layer."""

    def inside(sym: Any, *parts: Any) -> Any:
        out = sym.FullyConnected(*parts, num_hidden=5, no_bias=no_bias, name="fc")
        functions = {
            "relu": lambda x: sym.Activation(x, act_type="relu"),
            "tanh": lambda x: sym.Activation(x, act_type="tanh"),
        }
        return (functions.get(function) or getattr(sym, function))(out) if function else out

    texts = {name: str(value) for name, value in attrs.items()} | ({"with_eltwise": "True"} if function else {})
    graph = _fused("_sg_mkldnn_fully_connected", texts, _PARTS[: 2 if no_bias else 3], inside)
    return case("_sg_mkldnn_fully_connected", *inputs, tag=tag, graph=graph)


_IMAGES, _IMAGES8, _MAP = T(2, 3, 5, 5), unsigned(2, 3, 5, 5), T(2, 4, 5, 5)
_CALIBRATED = {"quantized": True, "min_calib_range": -4.0, "max_calib_range": 4.5}
_ROWS, _ROWS8, _DENSE = T(3, 12), unsigned(3, 12), (T(5, 12), T(5))
_INTEGERS = (signed(5, 12), signed(5))


def attention(kind: str, tag: str, *inputs: Tensor, **attrs: object) -> Case:
    """A case of fused attention of two heads."""
    op, names = f"_sg_mkldnn_selfatt_{kind}", ("queries_keys_values", "attention")[: 1 + (kind == "valatt")]

    def inside(sym: Any, *parts: Any) -> Any:
        return getattr(sym.contrib, f"interleaved_matmul_selfatt_{kind}")(*parts, heads=2, name="attention")

    texts = {"heads": "2"} | {name: str(value) for name, value in attrs.items()}
    return case(op, *inputs, tag=tag, graph=_fused(op, texts, names, inside))


_PROJECTION, _ATTENTION = signed(4, 3, 12), unsigned(6, 4, 4)

CASES = [
    conv("plain", _convolution, 3, _IMAGES, _WEIGHT, _BIAS),
    conv("relu", _with_relu, 7, _IMAGES, _WEIGHT, _BIAS, *_STATISTICS, with_bn=True, with_act=True),
    conv(
        "sum",
        _with_sum,
        8,
        *(_IMAGES, _WEIGHT, _BIAS, *_STATISTICS, _MAP),
        with_bn=True,
        with_sum=True,
        with_postsum_act=True,
    ),
    conv(
        "old",
        _with_relu,
        7,
        *(_IMAGES8, _WEIGHT, _BIAS, *_STATISTICS, ZERO, HIGH),
        **_CALIBRATED,
        with_bn=True,
        with_relu=True,
    ),
    conv("int8", _convolution, 3, *(signed(2, 3, 5, 5), _WEIGHT, _BIAS, LOW, HIGH), **_CALIBRATED),
    conv("relu6", _relu6, 3, *(_IMAGES8, _WEIGHT, _BIAS, ZERO, HIGH), **_CALIBRATED, with_act=True),
    conv("leaky_relu", _leaky, 3, *(_IMAGES8, _WEIGHT, _BIAS, ZERO, HIGH), **_CALIBRATED, with_act=True),
    conv("sums", _convolution, 3, *(_IMAGES8, _WEIGHT, _BIAS, ZERO, HIGH), quantized=True),
    *[
        conv(
            f"added_{summand.dtype}",
            _with_sum,
            8,
            *(_IMAGES8, _WEIGHT, _BIAS, *_STATISTICS, summand, ZERO, HIGH, LOW, HIGH),
            **_CALIBRATED,
            with_bn=True,
            with_sum=True,
            with_postsum_act=True,
        )
        for summand in (signed(2, 4, 5, 5), unsigned(2, 4, 5, 5))
    ],
    dense("plain", _ROWS, *_DENSE),
    dense("exp", _ROWS, *_DENSE, function="exp"),
    dense("sums", *(_ROWS8, *_INTEGERS, ZERO, HIGH, *(LOW, HIGH) * 2), quantized=True),
    dense("calibrated", *(signed(3, 12), *_INTEGERS, *(LOW, HIGH) * 3), **_CALIBRATED),
    dense("relu", *(_ROWS8, *_INTEGERS, ZERO, HIGH, *(LOW, HIGH) * 2), function="relu", **_CALIBRATED),
    dense("no_bias", *(_ROWS8, signed(5, 12), ZERO, HIGH, LOW, HIGH), no_bias=True, **_CALIBRATED),
    dense("floats", *(_ROWS8, *_INTEGERS, ZERO, HIGH, *(LOW, HIGH) * 2), quantized=True, enable_float_output=True),
    dense("channels", *(_ROWS8, *_DENSE, ZERO, HIGH), channel_wise_quantize=True, function="relu", **_CALIBRATED),
    attention("qk", "floats", T(4, 3, 12)),
    attention("qk", "calibrated", _PROJECTION, LOW, HIGH, **_CALIBRATED),
    attention("qk", "float_output", _PROJECTION, LOW, HIGH, quantized=True, enable_float_output=True),
    attention("valatt", "floats", T(4, 3, 12), T(6, 4, 4)),
    attention("valatt", "calibrated", *(_PROJECTION, _ATTENTION, LOW, HIGH, ZERO, HIGH), **_CALIBRATED),
    attention("valatt", "sums", *(_PROJECTION, _ATTENTION, LOW, HIGH, ZERO, HIGH), quantized=True),
]
