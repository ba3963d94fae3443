"""`quantize`: a model of 8-bit integers from one of floats, its ranges calibrated and its parameters rounded."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal, get_args

import numpy as np

from symjax_nnvm.errors import GraphError, SymbolTypeError, SymbolValueError, close_names, plain_list, tells_new_names
from symjax_nnvm.ir.attributes import FDequantized, FQuantized, TCalibrated
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.rules.quantized_form import PREFIX, QUANTIZED
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.network_model import Model
from symjax_nnvm.passes.fuse_for_onednn import fuse_for_onednn
from symjax_nnvm.passes.quantize import Quantization, QuantizedDtype, Ranges, rounded_outputs, set_ranges
from symjax_nnvm.passes.quantize import quantize as quantize_graph
from symjax_nnvm.quantization.calibration import (
    HistogramCollector,
    MinMaxCollector,
    checked_ranges,
    collect_outputs,
    leaving_out,
)
from symjax_nnvm.symbol.call_arguments import expect_arrays, expect_symbol
from symjax_nnvm.symbol.symbol import Symbol, of_mode

Mode = Literal["entropy", "naive", "none"]
Granularity = Literal["tensor-wise", "channel-wise"]


@tells_new_names
def quantize(
    net: Symbol,
    args: Mapping[str, Any] | None = None,
    aux: Mapping[str, Any] | None = None,
    *,
    calibration: Iterable[Any] | None = None,
    mode: Mode = "entropy",
    excluded: Collection[str] = (),
    excluded_ops: Collection[str] = (),
    dtype: QuantizedDtype = "int8",
    smart: bool = True,
    fused: bool = False,
    granularity: Granularity = "tensor-wise",
) -> Model:
    """Return a model whose convolutions and dense layers compute with 8-bit integers, as MXNet's `quantize_model` does.

    Layers between such are quantised with them; all others compute with floats, as before. The result unpacks, as in
    `net, args, aux = quantize(…)`.

    Args:
        net: a network of floats.
        args: its arguments by name.
        aux: its auxiliary states by name.
        calibration: batches of data: dicts by name, tuples in the order of the inputs, or arrays.
        mode: where ranges come from: "entropy" finds the thresholds that lose least, "naive" takes the least and
            greatest values, "none" leaves them to each run, which is slower.
        excluded: names of layers that stay float.
        excluded_ops: names of operators that stay float.
        dtype: the dtype of arrays: "int8", "uint8", or "auto", which is uint8 where no value is negative.
        smart: quantise cheap layers only between others that are; else wherever they can be.
        fused: fuse layers for oneDNN first, as `quantize_model_mkldnn` and `quantize_net` do: MXNet runs such networks
            fast, and whatever their data are; convolutions have a range for each channel, and their parameters stay
            floats in the file.
        granularity: "channel-wise" gives the weights of fused dense layers a range for each row, and leaves them floats
            in the file.

    Raises:
        SymbolTypeError: an argument is of the wrong type.
        SymbolValueError: an argument has an unknown value, or the data give no ranges.
        OpNotRegisteredError: no operator has a name of `excluded_ops`.
        GraphError: no layer can be quantised, or one needs a range and `mode` is "none".
    """
    if isinstance(net, Model):
        fix = "A model unpacks: symjax_nnvm.quantize(*model, calibration=batches)."
        raise SymbolTypeError("quantize works on a Symbol and its arrays", got="Model", fix=fix)
    expect_symbol(net, "quantize")
    expect_arrays(args, "args")
    assert args is not None
    expect_arrays(aux or {}, "aux")
    _expect_one_of("mode", mode, Mode)
    _expect_one_of("dtype", dtype, QuantizedDtype)
    _expect_one_of("granularity", granularity, Granularity)
    refuse_quantized(net)
    layers = _names("excluded", excluded)
    _refuse_unknown_layers(net, layers)
    ops = frozenset(Op.get(name).name for name in _names("excluded_ops", excluded_ops))
    wishes = Quantization(layers, ops, frozenset(args), dtype, smart, granularity == "channel-wise")
    if fused:
        net = fused_symbol(net)
    quantized = quantized_symbol(net, wishes)
    if mode != "none":
        if calibration is None:
            raise SymbolTypeError(
                f"mode={mode!r} needs data to calibrate with",
                fix="calibration=[batch, …], a few hundred samples in all; mode='none' needs none.",
            )
        collector = HistogramCollector(dtype) if mode == "entropy" else MinMaxCollector()
        outputs = outputs_to_calibrate(quantized)
        collect_outputs(Model(net, args, aux or {}), outputs, calibration, collector)
        quantized = calibrated(quantized, checked_ranges(collector.post_collect(), outputs))
    else:
        _refuse_without_ranges(quantized)
    if fused:
        quantized = fused_symbol(quantized)
    return Model(quantized, quantized_arrays(quantized, args), aux or {})


def fused_symbol(net: Symbol) -> Symbol:
    """Return the network with layers fused for oneDNN, as MXNet's backend MKLDNN_QUANTIZE fuses them: of a network of
    floats products with what follows them, of one of integers layers with the rounding of their results."""
    return of_mode(net, fuse_for_onednn(Graph(net.outputs)).outputs)


def quantized_symbol(net: Symbol, wishes: Quantization) -> Symbol:
    """Return the network with layers of integers, whose ranges are not calibrated. Raises GraphError."""
    refuse_quantized(net)
    quantized = of_mode(net, quantize_graph(Graph(net.outputs), wishes).outputs)
    if not any(node.op in TCalibrated for node in Graph(quantized.outputs).nodes()):
        kinds = sorted(op.name for op in FQuantized if op is not None)
        raise GraphError(
            "No layer of the network can be quantised",
            expected=f"layers of {plain_list(kinds)} that are not excluded",
            got=plain_list(sorted({node.op.name for node in Graph(net.outputs).nodes() if node.op is not None})),
            fix="smart=False, or quantize_mode='full', quantises layers that are not between convolutions and dense "
            "layers, too.",
        )
    return quantized


def refuse_quantized(net: Symbol) -> None:
    """Raise GraphError for a network that computes with 8-bit integers already."""
    for node in Graph(net.outputs).nodes():
        if node.op in FDequantized and (node.op not in FQuantized or FQuantized[node.op](node.attrs) is None):
            raise GraphError(
                "The network is quantised already: it computes with 8-bit integers",
                op=node.op,
                node=node,
                fix="Quantise its network of floats: symjax_nnvm.Model(net, args, aux).dequantized() gives it.",
            )


def outputs_to_calibrate(quantized: Symbol) -> dict[str, list[str]]:
    """Return names of the outputs of the float network whose ranges a quantised network needs, each with the names of
    the layers that need it."""
    graph = Graph(quantized.outputs)
    needing: dict[str, list[str]] = {}
    for node, output in rounded_outputs(graph).items():
        if TCalibrated[node.op] == "output":
            layers = [node]
        elif len(node.inputs) > 1:  # it rounds sums of a layer
            layers = [node.inputs[0].node]
        else:
            layers = [reader for reader in graph.nodes() if any(entry.node is node for entry in reader.inputs)]
        needing.setdefault(output, []).extend(map(_float_name, layers))
    return needing


def _float_name(layer: Node) -> str:
    """Return the name that a layer of integers had in the network of floats, before it was fused."""
    fused = (inner for body in layer.attrs.subgraphs for inner in post_order(body.outputs) if not inner.is_variable)
    return next(fused, layer).name.removeprefix(PREFIX)


def calibrated(quantized: Symbol, ranges: Ranges) -> Symbol:
    """Return the network with ranges, by names of outputs of the float network."""
    return of_mode(quantized, set_ranges(Graph(quantized.outputs), ranges).outputs)


def quantized_arrays(quantized: Symbol, args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a quantised network: parameters as int8 with their ranges, others as they are."""
    arrays: dict[str, Any] = {}
    for name in quantized.list_arguments():
        source = name.removesuffix(QUANTIZED)
        if name in args:
            arrays[name] = args[name]
        elif source in args:
            is_real = not np.iscomplexobj(args[source])
            values = np.asarray(args[source], np.float32 if is_real else None)
            if not values.size or not is_real or not np.isfinite(values).all():
                nodes = Graph(quantized.outputs).nodes()
                readers = [_float_name(node) for node in nodes if any(of.node.name == name for of in node.inputs)]
                raise SymbolValueError(
                    f"The parameter {source!r} is empty, or has NaN, infinite or complex values, so it has no range",
                    fix=f"Train the network again, or leave the layer out: {leaving_out(readers)}.",
                )
            reach = np.abs(values).max()
            levels = np.rint(values * (np.float32(127) / reach)) if reach else np.full(values.shape, 127)  # as oneDNN
            arrays[name] = levels.astype(np.int8)
            arrays[f"{name}_min"], arrays[f"{name}_max"] = np.array([-reach], np.float32), np.array([reach], np.float32)
    return arrays


def _refuse_without_ranges(quantized: Symbol) -> None:
    needing = [node for node in Graph(quantized.outputs).nodes() if TCalibrated.get(node.op) == "output"]
    if needing:
        raise GraphError(
            f"{plain_list([node.name for node in needing])} need a calibrated range",
            op=needing[0].op,
            fix="mode='naive' or 'entropy' with calibration=[batch, …]; or leave these layers out: "
            f"{leaving_out(map(_float_name, needing))}.",
        )


def layer_names(net: Symbol) -> set[str]:
    """Return the names of a network's nodes and of what was fused to them, without variables."""
    nodes = Graph(net.outputs).nodes()
    fused = (inner for node in nodes for body in node.attrs.subgraphs for inner in post_order(body.outputs))
    return {node.name for node in (*nodes, *fused) if not node.is_variable}


def _refuse_unknown_layers(net: Symbol, excluded: Collection[str]) -> None:
    layers = layer_names(net)
    for name in excluded:
        if name not in layers:
            raise SymbolValueError(f"excluded: the network has no layer {name!r}", fix=close_names([name], layers))


def _names(what: str, names: Any) -> frozenset[str]:
    if isinstance(names, str) or not isinstance(names, Iterable) or not all(isinstance(name, str) for name in names):
        raise SymbolTypeError(f"{what} are names, a list", got=repr(names)[:80], fix=f"{what}=['name', …]")
    return frozenset(names)


def _expect_one_of(what: str, value: object, literal: Any) -> None:
    if value not in get_args(literal):
        raise SymbolValueError(f"{what}={value!r}"[:120], expected=plain_list(list(map(repr, get_args(literal)))))
