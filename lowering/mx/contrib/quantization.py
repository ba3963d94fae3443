"""`mx.contrib.quantization`: networks of 8-bit integers, made of networks of floats by `symjax_nnvm.quantization`."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from lowering.messages.migration_hints import unknown_attribute
from lowering.mx.accepted_types import ContextLike, Logger
from lowering.mx.context import cpu as cpu  # which MXNet's example scripts take from here
from lowering.mx.gluon.block import HybridBlock, SymbolBlock
from lowering.mx.gluon.gluon_errors import MismatchError, NotInitializedError
from lowering.mx.gluon.hybrid import most_inputs
from lowering.mx.io.desc import DataIter
from lowering.mx.ndarray.array import NDArray
from lowering.mx.ndarray.creation import array, zeros
from lowering.mx.shared_arguments import explained_by
from lowering.mx.symbol.runnable import Symbol, as_symbol
from symjax_nnvm.errors import CallError, close_names, plain_list
from symjax_nnvm.ir.op import list_unique_ops
from symjax_nnvm.network_model import Model
from symjax_nnvm.passes.quantize import Quantization
from symjax_nnvm.quantization.calibration import CalibrationCollector as CalibrationCollector
from symjax_nnvm.quantization.calibration import HistogramCollector, MinMaxCollector, checked_ranges, collect_outputs
from symjax_nnvm.quantization.calibration import combine_histogram as combine_histogram
from symjax_nnvm.quantization.quantize_model import (
    calibrated,
    layer_names,
    outputs_to_calibrate,
    quantized_arrays,
    quantized_symbol,
)

Arrays = Mapping[str, Any]
Quantized = tuple[Symbol, dict[str, NDArray], dict[str, Any]]
_MODES = ("none", "naive", "entropy", "customize")


def quantize_model(
    sym: Symbol,
    arg_params: Arrays,
    aux_params: Arrays,
    data_names: Sequence[str] = ("data",),
    label_names: Sequence[str] | None = ("softmax_label",),
    ctx: ContextLike = None,
    excluded_sym_names: Sequence[str] | None = None,
    excluded_op_names: Sequence[str] | None = None,
    calib_mode: str | None = "entropy",
    calib_data: Iterable[Any] | None = None,
    num_calib_examples: int | None = None,
    quantized_dtype: str = "int8",
    quantize_mode: str = "smart",
    quantize_granularity: str = "tensor-wise",
    logger: Logger | None = None,
) -> Quantized:
    """Return the network with layers of 8-bit integers, its parameters, and the same states.

    Args:
        sym: the network of floats.
        arg_params: parameters by name.
        aux_params: auxiliary states by name.
        data_names: names of the data, in the order of the iterator's.
        label_names: accepted and ignored: calibration needs no labels.
        ctx: accepted and ignored: the network runs where its data are.
        excluded_sym_names: layers that stay float.
        excluded_op_names: operators that stay float.
        calib_mode: "entropy", "naive" or "none".
        calib_data: an iterator of batches; also any iterable of arrays, tuples or dicts.
        num_calib_examples: how many samples are enough; None for all.
        quantized_dtype: "int8", "uint8" or "auto".
        quantize_mode: "smart" or "full".
        quantize_granularity: "tensor-wise", or "channel-wise", which is only for fused dense layers.
        logger: logs the number of samples that were used.

    Raises:
        CallError: a mode is unknown, or there are no data.
        NNVMError: what `symjax_nnvm.quantize` raises.
    """
    _expect("calib_mode", calib_mode or "none", _MODES[:3])
    layers = (excluded_sym_names, excluded_op_names, calib_mode)
    how = (quantized_dtype, quantize_mode, quantize_granularity)
    quantized, params, states, collector = quantize_graph(sym, arg_params, aux_params, ctx, *layers, *how)
    if collector is None:
        return quantized, params, states
    _calibrate(sym, arg_params, aux_params, collector, calib_data, data_names, num_calib_examples, logger)
    return calib_graph(quantized, arg_params, aux_params, collector, calib_mode or "none", quantized_dtype)


def quantize_model_mkldnn(sym: Symbol, arg_params: Arrays, aux_params: Arrays, *args: Any, **kwargs: Any) -> Quantized:
    """Return what `quantize_model` makes of the network whose layers are fused for oneDNN, which MXNet runs fast.

    The other arguments are those of `quantize_model`.
    """
    quantized, params, states = quantize_model(_fused(sym), arg_params, aux_params, *args, **kwargs)
    return _fused(quantized), params, states


def _fused(sym: Symbol) -> Symbol:
    return sym.get_backend_symbol("MKLDNN_QUANTIZE")


def quantize_graph(
    sym: Symbol,
    arg_params: Arrays,
    aux_params: Arrays,
    ctx: ContextLike = None,
    excluded_sym_names: Sequence[str] | None = None,
    excluded_op_names: Sequence[str] | None = None,
    calib_mode: str | None = "entropy",
    quantized_dtype: str = "int8",
    quantize_mode: str = "full",
    quantize_granularity: str = "tensor-wise",
    LayerOutputCollector: Any = None,
    logger: Logger | None = None,
) -> tuple[Symbol, dict[str, NDArray], dict[str, Any], Any]:
    """Return the network of `quantize_model` before calibration, its parameters, the states, and a collector.

    `executor.set_monitor_callback(collector.collect, monitor_all=True)` shows the collector the float network's arrays;
    then `calib_graph` sets the ranges. LayerOutputCollector: the collector for calib_mode="customize". Other arguments
    are those of `quantize_model`.
    """
    _expect("calib_mode", calib_mode or "none", _MODES)
    _expect("quantized_dtype", quantized_dtype, ("int8", "uint8", "auto"))
    _expect("quantize_mode", quantize_mode, ("smart", "full"))
    _expect("quantize_granularity", quantize_granularity, ("tensor-wise", "channel-wise"))
    _expect_names(excluded_sym_names=excluded_sym_names, excluded_op_names=excluded_op_names)
    _warn_of_unknown("layer of the network", excluded_sym_names or (), layer_names(sym))
    _warn_of_unknown("operator", excluded_op_names or (), {op.name for op in list_unique_ops()})
    wishes = Quantization(
        frozenset(excluded_sym_names or ()),
        frozenset(excluded_op_names or ()),
        frozenset(arg_params),
        quantized_dtype,  # pyright: ignore[reportArgumentType]  # checked above
        quantize_mode == "smart",
        quantize_granularity == "channel-wise",
    )
    quantized = as_symbol(quantized_symbol(sym, wishes))
    if calib_mode in (None, "none"):
        collector = None
    elif calib_mode == "naive":
        collector = MinMaxCollector()
    elif calib_mode == "entropy":
        collector = HistogramCollector(quantized_dtype)  # pyright: ignore[reportArgumentType]
    elif LayerOutputCollector is None:
        raise CallError("calib_mode='customize' needs a LayerOutputCollector", fix="LayerOutputCollector=collector")
    else:
        collector = LayerOutputCollector
    if collector is not None and getattr(collector, "include_layers", None) is None:
        collector.include_layers = list(outputs_to_calibrate(quantized))
    return quantized, _params(quantized, arg_params), dict(aux_params), collector


def calib_graph(
    qsym: Symbol,
    arg_params: Arrays,
    aux_params: Arrays,
    collector: Any,
    calib_mode: str = "entropy",
    quantized_dtype: str = "int8",
    logger: Logger | None = None,
) -> Quantized:
    """Return the network with the ranges that a collector found, its parameters, and the same states.

    Args:
        qsym: the network of `quantize_graph`.
        arg_params: parameters of the float network by name.
        aux_params: auxiliary states by name.
        collector: has `post_collect()`, or ranges by name in `min_max_dict`.
        calib_mode: one of `quantize_graph`'s, but not "none".
        quantized_dtype: accepted and ignored: the collector has it.
        logger: accepted and ignored.
    """
    _expect("calib_mode", calib_mode, _MODES[1:])
    ranges = collector.post_collect() if hasattr(collector, "post_collect") else collector.min_max_dict
    quantized = as_symbol(calibrated(qsym, checked_ranges(ranges, outputs_to_calibrate(qsym))))
    return quantized, _params(quantized, arg_params), dict(aux_params)


@explained_by(quantize_model)
def quantize_net_v2(
    network: HybridBlock,
    quantized_dtype: str = "auto",
    quantize_mode: str = "full",
    quantize_granularity: str = "tensor-wise",
    exclude_layers: Sequence[str] | None = None,
    exclude_layers_match: Sequence[str] | None = None,
    exclude_operators: Sequence[str] | None = None,
    calib_data: Iterable[Any] | None = None,
    data_shapes: Sequence[Any] | None = None,
    calib_mode: str | None = "none",
    num_calib_examples: int | None = None,
    ctx: ContextLike = None,
    LayerOutputCollector: Any = None,
    logger: Logger | None = None,
) -> SymbolBlock:
    """Return a block that computes with 8-bit integers, its layers fused as those of `quantize_model_mkldnn`.

    Args:
        network: the block; it is hybridised, and called with zeros where it was not called before.
        exclude_layers: layers that stay float.
        exclude_layers_match: parts of names of layers that stay float.
        exclude_operators: operators that stay float.
        calib_data: an iterator, or a loader, of batches.
        data_shapes: shapes, or `DataDesc`s, of the inputs of a block that was not called and has no calib_data.
        calib_mode: as in `quantize_graph`.
        ctx: accepted and ignored.
        LayerOutputCollector: the collector for calib_mode="customize".

    Raises:
        MismatchError: `network` is not a HybridBlock.
        CallError: the block was not called, and there are neither data_shapes nor calib_data.
    """
    if not isinstance(network, HybridBlock):
        raise MismatchError("quantize_net converts a HybridBlock", got=type(network).__name__)
    _expect_names(exclude_layers=exclude_layers, exclude_layers_match=exclude_layers_match)
    inputs, symbol = _traced(network, calib_data, data_shapes)
    arrays = {name: parameter.data() for name, parameter in network.collect_params().items()}
    states = {name: arrays[name] for name in symbol.list_auxiliary_states()}
    params = {name: arrays[name] for name in symbol.list_arguments() if name in arrays}
    parts, names = exclude_layers_match or (), layer_names(symbol)
    _warn_of_unknown("part of a layer's name", [part for part in parts if not any(part in name for name in names)], ())
    matching = [name for name in sorted(names) if any(part in name for part in parts)]
    layers = ([*(exclude_layers or ()), *matching], exclude_operators, calib_mode)
    how = (quantized_dtype, quantize_mode, quantize_granularity)
    symbol = _fused(symbol)
    quantized, weights, _, collector = quantize_graph(symbol, params, states, ctx, *layers, *how, LayerOutputCollector)
    if collector is not None:
        names = [variable.name for variable in inputs]
        _calibrate(symbol, params, states, collector, calib_data, names, num_calib_examples, logger)
        quantized, weights, _ = calib_graph(quantized, params, states, collector, calib_mode or "none")
    block = SymbolBlock(_fused(quantized), inputs)
    for name, parameter in block.collect_params().items():
        value = weights.get(name, states.get(name))
        if value is not None:
            parameter.grad_req = "null"
            parameter.cast(value.dtype)
            parameter.shape = value.shape
            parameter.initialize()
            parameter.set_data(value)
    return block


def quantize_net(
    network: HybridBlock,
    quantized_dtype: str = "auto",
    quantize_mode: str = "full",
    exclude_layers: Sequence[str] | None = None,
    exclude_layers_match: Sequence[str] | None = None,
    exclude_operators: Sequence[str] | None = None,
    calib_data: Iterable[Any] | None = None,
    data_shapes: Sequence[Any] | None = None,
    calib_mode: str | None = "none",
    num_calib_examples: int | None = None,
    ctx: ContextLike = None,
    logger: Logger | None = None,
) -> SymbolBlock:
    """Return what `quantize_net_v2` makes, of these arguments."""
    excluded = (exclude_layers, exclude_layers_match, exclude_operators)
    data = (calib_data, data_shapes, calib_mode, num_calib_examples)
    return quantize_net_v2(network, quantized_dtype, quantize_mode, "tensor-wise", *excluded, *data, ctx, logger=logger)


def _traced(network: HybridBlock, data: Any, shapes: Sequence[Any] | None) -> tuple[list[Any], Any]:
    """Return the inputs and the symbol of a block, which is hybridised and called with zeros where it was not."""
    with suppress(NotInitializedError):
        return network.traced_symbol("quantise")
    if not shapes and data is not None:
        batch = () if isinstance(data, DataIter) else next(iter(data), ())
        shapes = data.provide_data if isinstance(data, DataIter) else [array.shape for array in _arrays_of(batch)]
    if not shapes:
        raise CallError("data_shapes required", fix="data_shapes=[(1, 3, 224, 224)]; or call the block before.")
    network.hybridize()
    takes = most_inputs(network)  # what a loader gives ends with labels
    network(*(zeros(getattr(shape, "shape", shape)) for shape in shapes[:takes]))
    return network.traced_symbol("quantise")


def _calibrate(
    symbol: Symbol,
    args: Arrays,
    aux: Arrays,
    collector: Any,
    data: Iterable[Any] | None,
    names: Sequence[str],
    most: int | None,
    logger: Logger | None,
) -> None:
    if data is None:
        raise CallError("calib_data must be provided", fix="An iterator of batches; or calib_mode='none'.")
    if not isinstance(data, Iterable):
        raise CallError("calib_data must be batches", got=type(data).__name__, fix="calib_data=[batch, …].")
    arrays = ({name: np.asarray(value) for name, value in values.items()} for values in (args, aux))
    model = Model(symbol, *arrays)
    count = collect_outputs(model, collector.include_layers, _batches(data, names, most), collector)
    if logger is not None:
        logger.info("Collected statistics from %d batches", count)


def _batches(data: Iterable[Any], names: Sequence[str], most: int | None) -> Iterator[Any]:
    """Yield batches by name, up to a number of samples."""
    if isinstance(data, DataIter):
        data.reset()
    samples = 0
    for batch in data:
        arrays = batch.data if isinstance(data, DataIter) else _arrays_of(batch)
        by_name = {name: np.asarray(value) for name, value in zip(names, arrays, strict=False)}
        yield by_name
        samples += len(next(iter(by_name.values())))
        if most is not None and samples >= most:
            return


def _arrays_of(batch: Any) -> list[Any]:
    """Return the arrays of a loader's batch; the first two axes of a batch of video clips are merged."""
    if isinstance(batch, (list, tuple)) and not batch:
        return []
    first, *others = batch if isinstance(batch, (list, tuple)) else [batch]
    if not hasattr(first, "shape"):
        raise CallError(
            "A batch of calib_data must be an array",
            expected="an array, or a list of them",
            got=type(first).__name__,
            fix="calib_data=[batch, …], a DataLoader or a DataIter.",
        )
    return [first.reshape((-1, *first.shape[2:])) if first.ndim > 4 else first, *others]


def _params(quantized: Symbol, args: Arrays) -> dict[str, NDArray]:
    arrays = quantized_arrays(quantized, args)
    return {name: a if isinstance(a, NDArray) else array(a, dtype=a.dtype) for name, a in arrays.items()}


def _expect_names(**lists: Any) -> None:
    for what, names in lists.items():
        if not isinstance(names, list | tuple | None):
            raise CallError(f"{what} must be a list of strings", got=repr(names)[:80])


def _warn_of_unknown(kind: str, names: Sequence[str], known_names: Collection[str]) -> None:
    """Warn of names that exclude nothing, which MXNet accepts without a word."""
    if unknown := [name for name in names if name not in known_names]:
        hint = close_names(unknown, known_names)
        warnings.warn(f"No {kind} to exclude: {plain_list(map(repr, unknown))}. {hint}".strip(), stacklevel=3)


def _expect(what: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise CallError(f"{what}={value!r}"[:120], expected=" or ".join(map(repr, choices)))


def __getattr__(name: str) -> object:
    unknown_attribute("mx.contrib.quantization", name, sorted(globals()))
