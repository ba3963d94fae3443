"""Ranges of a network's arrays, from batches of data: the least and greatest values, or thresholds by entropy."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from symjax_nnvm.errors import ParamsMismatchError, SymbolTypeError, SymbolValueError, listed, plain_list, printable
from symjax_nnvm.network_model import Model
from symjax_nnvm.passes.quantize import QuantizedDtype
from symjax_nnvm.quantization.entropy import entropy_threshold
from symjax_nnvm.symbol.symbol import Symbol

_BINS = 8001
_MOST_BINS = 2**22
_LEVELS = 255


def leaving_out(layers: Iterable[str]) -> str:
    """Return how to leave out these layers."""
    names = listed(layers)
    return f"excluded={names}, or excluded_sym_names={names} of quantize_model"


class CalibrationCollector:
    """Collects the arrays of a network, one call for each, and computes their ranges: a base class for your own.

    Attributes:
        include_layers: names of the outputs whose ranges are needed; None before they are known.
        min_max_dict: ranges by name.
    """

    def __init__(self) -> None:
        self.include_layers: Collection[str] | None = None
        self.min_max_dict: dict[str, tuple[float, float]] = {}

    def collect(self, name: str, array: Any) -> None:
        """Take an array into account. name: the name of the output, such as `conv0_output`."""
        raise NotImplementedError(f"{type(self).__name__}.collect")

    def asks_for(self, name: str) -> bool:
        """Return whether the range of an output is needed."""
        return self.include_layers is None or name in self.include_layers

    def post_collect(self) -> dict[str, tuple[float, float]]:
        """Return the ranges by name."""
        return self.min_max_dict


class MinMaxCollector(CalibrationCollector):
    """Collects the least and the greatest value of each array."""

    def collect(self, name: str, array: Any) -> None:
        """Widen the range of an output."""
        if not self.asks_for(name):
            return
        low, high = _ends(name, np.asarray(array))
        before = self.min_max_dict.get(name, (low, high))
        self.min_max_dict[name] = min(before[0], low), max(before[1], high)


Histogram = tuple[np.ndarray, np.ndarray, float, float, float]
"""Counts, edges, the least and the greatest value, and the magnitude that the edges reach."""


class HistogramCollector(CalibrationCollector):
    """Collects a histogram of each array, and finds thresholds by entropy.

    Attributes:
        hist_dict: histograms by name.
    """

    def __init__(self, dtype: QuantizedDtype = "int8") -> None:
        super().__init__()
        self._dtype = dtype
        self.hist_dict: dict[str, Histogram] = {}

    def collect(self, name: str, array: Any) -> None:
        """Add an array to the histogram of an output, which gets further bins at both ends where it must."""
        if not self.asks_for(name):
            return
        values = np.asarray(array)
        low, high = _ends(name, values)
        reach = max(abs(low), abs(high))
        if name in self.hist_dict:
            try:
                self.hist_dict[name] = combine_histogram(self.hist_dict[name], values, low, high, reach)
            except SymbolValueError as error:
                raise SymbolValueError(f"{printable(name)}: {error}") from None
        else:
            self.hist_dict[name] = *_histogram(values, _BINS, reach), low, high, reach

    def post_collect(self) -> dict[str, tuple[float, float]]:
        """Return the ranges by name: symmetric, or from 0 where no value is negative and the dtype is uint8."""
        for name, (counts, edges, low, _, reach) in self.hist_dict.items():
            if not reach:
                self.min_max_dict[name] = 0.0, 0.0
                continue
            positive = low >= 0 and self._dtype != "int8"
            threshold, _ = entropy_threshold(counts, edges, 2 * _LEVELS + 1 if positive else _LEVELS)
            self.min_max_dict[name] = (0.0 if positive else -threshold), threshold
        return self.min_max_dict


def combine_histogram(old_hist: Histogram, arr: Any, new_min: float, new_max: float, new_th: float) -> Histogram:
    """Return a histogram with the values of one more array in it, wider by bins of the same size where it must be.

    Args:
        old_hist: the histogram.
        arr: the array.
        new_min: its least value.
        new_max: its greatest value.
        new_th: the greater magnitude of the two.
    """
    old, _, low, high, reach = old_hist
    more = 0
    if not reach:  # all values are 0, whose bin is the middle one however wide
        reach = new_th
    elif new_th > reach:
        step = 2 * np.float64(reach) / len(old)
        more = int(min((new_th - reach) // step + 1, _MOST_BINS))
        if len(old) + 2 * more > _MOST_BINS:
            raise SymbolValueError(
                f"there is a batch whose values reach {new_th:.3g}, after others that reach {reach:.3g}: a histogram "
                f"of both needs more than {_MOST_BINS} bins",
                fix="mode='naive' needs no histogram; or begin with a batch that is like all others.",
            )
        reach = more * step + reach
    counts, edges = _histogram(np.asarray(arr), len(old) + 2 * more, reach)
    counts[more : len(counts) - more] += old
    return counts, edges, min(low, new_min), max(high, new_max), reach


def _histogram(values: np.ndarray, bins: int, reach: float) -> tuple[np.ndarray, np.ndarray]:
    """Return counts and edges, rounded from float64: NumPy 1, which MXNet needs, has them so, NumPy 2 not."""
    end = np.float64(reach or 0.5)  # of zeros alone
    edges = np.linspace(-end, end, bins + 1).astype(np.result_type(values.dtype, np.float32))
    return np.histogram(values, edges)[0], edges


def _ends(name: str, values: np.ndarray) -> tuple[Any, Any]:
    """Return the least and the greatest value, of the array's dtype.

    Raises SymbolValueError where there is none, or one is not finite.
    """
    if not values.size:
        raise SymbolValueError(
            f"The calibration data never reach {printable(name)}: the array is empty",
            fix="Give batches that have samples.",
        )
    low, high = values.min(), values.max()
    if not np.isfinite(low) or not np.isfinite(high):
        raise SymbolValueError(
            f"{printable(name)} has NaN or infinite values on the calibration data, so it has no range",
            fix="Scale the data as the network was trained; predict() of the float network shows the same values.",
        )
    return low, high


def collect_outputs(
    model: Model, names: Collection[str], batches: Iterable[Any], collector: CalibrationCollector
) -> int:
    """Run a network of floats on batches, and show the collector these outputs of its nodes; return how many batches.

    batches: as `Predictor.batches` takes them: dicts by name, tuples in the order of the inputs, or arrays.
    """
    if not isinstance(batches, Iterable) or isinstance(batches, (str, bytes, Mapping)):
        raise SymbolTypeError(
            "The calibration data must be batches",
            expected="a list or an iterator of batches: dicts by name, tuples, or arrays",
            got=type(batches).__name__,
            fix="One batch is a list of one: [batch].",
        )
    internals = model.net.get_internals()
    by_name = dict(zip(internals.list_outputs(), internals.outputs, strict=True))
    outputs = {name: by_name[name] for name in by_name if name in names}
    part = Model(Symbol(outputs.values()), model.args, model.aux)
    if missing := part.missing:
        raise ParamsMismatchError(
            f"There are no arrays for the parameters {plain_list(missing)}",
            got=plain_list([*model.args, *model.aux]) or "none",
            fix="Calibration runs the network of floats: pass all of its parameters.",
        )
    predict = part.predictor() if outputs else None
    inputs = part.inputs
    count = 0
    for batch in batches:
        count += 1
        if predict is not None:
            for name, array in zip(outputs, predict(**_by_name(batch, inputs)), strict=True):
                collector.collect(name, np.asarray(array))
    if not count:
        raise SymbolValueError(
            "The calibration data are empty",
            expected="batches: dicts by name, tuples, or arrays",
            fix="An iterator that was used up before gives nothing: pass a list, or a new iterator.",
        )
    return count


def _by_name(batch: Any, inputs: Sequence[str]) -> dict[str, Any]:
    """Return a batch as arrays by name, without what the layers do not need."""
    if isinstance(batch, Mapping):
        missing = [name for name in inputs if name not in batch]
        if missing:
            raise SymbolValueError(
                f"A batch of the calibration data lacks {plain_list(missing)}",
                got=plain_list(list(batch)),
                fix="Call its arrays as the network does: a dict by name, or data_names=[…] of quantize_model.",
            )
        return {name: array for name, array in batch.items() if name in inputs}
    arrays = list(batch) if isinstance(batch, (tuple, list)) else [batch]
    if len(arrays) < len(inputs):
        raise SymbolTypeError(
            "A batch of the calibration data has too few arrays",
            expected=f"a dict by name, or arrays for {plain_list(inputs)}",
            got=f"{len(arrays)}",
        )
    return dict(zip(inputs, arrays, strict=False))


def checked_ranges(ranges: Mapping[str, Any], needing: Mapping[str, Iterable[str]]) -> dict[str, tuple[float, float]]:
    """Return the ranges of outputs, two finite numbers each. needing: names of outputs → of the layers that need the
    range. Raises SymbolValueError."""
    return dict(_checked(ranges, needing))


def _checked(
    ranges: Mapping[str, Any], needing: Mapping[str, Iterable[str]]
) -> Iterator[tuple[str, tuple[float, float]]]:
    missing = [name for name in needing if name not in ranges]
    if missing:
        layers = dict.fromkeys(layer for name in missing for layer in needing[name])
        raise SymbolValueError(
            f"The calibration data never reach {plain_list(missing)}",
            got=f"ranges of {plain_list(list(ranges)) or 'nothing'}",
            fix=f"Give data that these layers see, or leave them out: {leaving_out(layers)}.",
        )
    for name, layers in needing.items():
        try:
            ends = np.asarray(ranges[name], np.float64).reshape(-1)
        except (TypeError, ValueError):  # no numbers
            ends = np.full(2, np.nan)
        fits = ends.size == 2 and np.isfinite(ends).all() and ends[0] <= ends[1]
        if not fits or not ends.any():
            raise SymbolValueError(
                f"{printable(name)} has no valid range"
                if not fits
                else f"{printable(name)} is 0 on all calibration data, so it has no range",
                expected="two finite numbers, the first not greater",
                got=str(ends.tolist())[:200],
                fix=f"Calibrate it again with other data, or leave out what needs the range: {leaving_out(layers)}.",
            )
        yield name, (float(ends[0]), float(ends[1]))
