"""oneDNN's convolutions, which XLA's CPU runs for a custom call: bias, sum and activation in the pass that multiplies.

jaxlib's wheels for x86 hold oneDNN and what calls it (`onednn_convolution.cc` of XLA), but XLA itself makes such calls
only in builds of another kind. So the call is made here, in the words of XLA's `OneDnnConvolutionConfig`. It is no
promised interface: each geometry is computed once on numbers whose result is known before any network is, and what is
not there, or not right, is not used (`block`). SYMJAX_NNVM_ONEDNN=0 turns it off.

The weight comes in blocks of filters, as oneDNN would otherwise lay it in every call: (groups, f / block, *kernel, c,
block), with zeros for filters that are not there; where each channel is a group of its own (*kernel, f), f a multiple
of the block. How long a block is follows from the geometry and the machine, and is found by looking.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.metadata import version
from math import erf, prod, sqrt
from pathlib import Path
from typing import Any, Literal

import jax
import jax.export
import numpy as np
from jax import Array
from jax.sharding import Sharding, SingleDeviceSharding

from lowering import streams
from lowering.convolutions.library_call import exporting_calls
from symjax_nnvm.geometry import Blocks, Epilogue, Geometry

Relied = dict[tuple[Geometry, Epilogue], "int | None"]
"""What a program relies on: blocks of filters, as `block` has them on the machine where it was made."""

_used: ContextVar[Relied | None] = ContextVar("used", default=None)
_of_a_core: ContextVar[bool] = ContextVar("of_a_core", default=False)

Order = tuple[Literal["channels", "filters"], Literal["channels", "filters"]]
"""Of the first two axes of a weight, before those of the kernel."""

FILTERS_FIRST: Order = ("filters", "channels")
CHANNELS_FIRST: Order = ("channels", "filters")

TARGET = "__onednn$convolution"
_SWITCH = "SYMJAX_NNVM_ONEDNN"
_ACTIVATIONS = {"": (), "relu": ("RELU",), "relu6": ("RELU6",), "gelu": ("GELU_ERF",)}
_TOLERANCE = 1e-4


def convolve(data: Array, weight: Array, geometry: Geometry, epilogue: Epilogue, operands: Sequence[Array]) -> Array:
    """data (n, *size, c), weight in blocks, flat; operands: the bias (f,) and the addend (n, *out_size, f), as the
    epilogue says → (n, *out_size, f).

    The result is written over the addend, so that less goes through memory: 64 → 256 filters of 56², 4 images, with the
    convolution before it 2.8 ms in place of 3.4. Where somebody reads the addend later XLA makes a copy before.
    """
    if (used := _used.get()) is not None:
        used[geometry, epilogue] = here()(geometry, epilogue)
    return _call(data, weight, geometry, epilogue, operands, None)


def _call(
    data: Array,
    weight: Array,
    geometry: Geometry,
    epilogue: Epilogue,
    operands: Sequence[Array],
    order: Order | None,
) -> Array:
    shape = (geometry.batch, *geometry.out_size, geometry.filters)
    call = jax.ffi.ffi_call(
        TARGET,
        jax.ShapeDtypeStruct(shape, data.dtype),
        custom_call_api_version=2,
        input_output_aliases={2 + epilogue.bias: 0} if epilogue.addend else None,
        legacy_backend_config=json.dumps({"onednn_conv_config": _config(geometry, epilogue, order)}),
    )
    return call(data, weight, *operands)


def _config(g: Geometry, epilogue: Epilogue, order: Order | None) -> dict[str, Any]:
    """XLA's OneDnnConvolutionConfig: axes by number; order: the weight's, None where it lies in blocks."""
    rank = len(g.kernel) + 2
    data = {"dims": rank, "data": {"batch_dim": 0, "feature_dim": rank - 1, "spatial_dims": [*range(1, rank - 1)]}}
    if order is None:
        channels, filters, spatial = rank - 2, rank - 1, range(rank - 2)
    else:
        channels, filters, spatial = order.index("channels"), order.index("filters"), range(2, rank)
    weight = {"input_feature_dim": channels, "output_feature_dim": filters, "spatial_dims": [*spatial]}
    if order is None:
        weight["shape"] = [*g.kernel, g.channels // g.groups, g.filters]
    window = {
        "size": g.kernel,
        "pad_left": g.pad,
        "pad_right": g.pad,
        "strides": g.stride,
        "window_dilations": g.dilate,
    }
    operations = (*["BIAS"] * epilogue.bias, *["SUM"] * epilogue.addend, *_ACTIVATIONS[epilogue.act_type])
    return {
        "dims": rank,
        "input": data,
        "kernel": {"dims": rank, "filter": weight},
        "output": data,
        "window": window,
        "fusions": {"ops": operations},
        "feature_groups": g.groups,
        "optimization_config": {"weights_prepacked": order is None},
    }


def convolve_plain(data: Array, weight: Array, geometry: Geometry, order: Order = FILTERS_FIRST) -> Array:
    """The same with a weight (*kernel, c / groups, f), which is laid in blocks in every call; nothing follows.

    order: how the call takes it. A transposition that made the weight of an array in that order is undone, so that XLA
    computes neither.
    """
    rank = weight.ndim
    at = {"channels": rank - 2, "filters": rank - 1}
    ordered = weight.transpose(at[order[0]], at[order[1]], *range(rank - 2))
    return _call(data, ordered, geometry, Epilogue(), (), order)


@contextmanager
def on_one_core() -> Iterator[None]:
    """What is traced in this context runs on one core (`lowering/streams.py`)."""
    token = _of_a_core.set(True)
    try:
        yield
    finally:
        _of_a_core.reset(token)


def here() -> Callable[[Geometry, Epilogue], int | None]:
    """`block` of the cores that the program runs on which is being traced."""
    return block_of_a_core if _of_a_core.get() else block


@contextmanager
def relied_on() -> Iterator[Relied]:
    """What the programs rely on that are traced in this context."""
    found: Relied = {}
    token = _used.set(found)
    try:
        yield found
    finally:
        _used.reset(token)


@contextmanager
def compiling() -> Iterator[None]:
    """JAX's compilation cache cannot hold the library's calls, and would say so of each program: they are compiled
    anew, which is fast, as the library's code is there already."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Error writing persistent compilation cache entry", UserWarning)
        yield


def exported(function: Any, *given: Any, platforms: Sequence[str], **named: Any) -> jax.export.Exported:
    """A jitted function with its calls, for machines alike: elsewhere weights lie in other blocks, and nobody tells."""
    ours = [jax.export.DisabledSafetyCheck.custom_call(TARGET)]
    with exporting_calls():
        return jax.export.export(function, platforms=platforms, disabled_checks=ours)(*given, **named)


@cache
def machine() -> str | None:
    """What decides how oneDNN's weights lie, in one word: equal for two processes where trials would find the same.
    None where that is not known, or the library is turned off."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").partition("\n\n")[0]
    except OSError:
        return None
    if os.environ.get(_SWITCH) == "0":
        return None
    varying = ("processor", "cpu MHz", "bogomips", "core id", "apicid", "initial apicid", "microcode")
    lines = [line for line in text.splitlines() if line.partition("\t")[0].partition(":")[0].strip() not in varying]
    asked = [f"{name}={value}" for name, value in os.environ.items() if name.startswith(("ONEDNN_", "DNNL_"))]
    facts = [version("jaxlib"), str(os.cpu_count()), *lines, *sorted(asked)]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()


# -- what it can do --------------------------------------------------------------------------------------------------


@cache
def block(geometry: Geometry, epilogue: Epilogue) -> int | None:
    """How many filters a block of the weight has; None where oneDNN is not there or computes something else."""
    return _found(geometry, epilogue, None) if _may_be_asked(geometry) and _is_there() else None


@cache
def block_of_a_core(geometry: Geometry, epilogue: Epilogue) -> int | None:
    """The same on one core: weights may lie otherwise there than for all."""
    here = streams.one_core()
    asked = here is not None and _may_be_asked(geometry) and _is_there()
    return _found(geometry, epilogue, here) if asked else None


@cache
def computes(geometry: Geometry) -> bool:
    """Whether `convolve_plain` computes a geometry."""
    if not (_may_be_asked(geometry) and _is_there()):
        return False
    share, taps = geometry.channels // geometry.groups, prod(geometry.kernel)
    rows = np.arange(share)[None, :] * taps + np.arange(taps)[:, None]
    trial = _Trial(geometry, Epilogue(), (geometry.filters, share, *geometry.kernel), FILTERS_FIRST)
    return trial.agrees(lambda filter: rows + filter * share * taps)


def _may_be_asked(g: Geometry) -> bool:
    """Whether XLA can read the question: at a number below 0, say, it ends the process."""
    sizes = (g.batch, *g.size, *g.out_size, *g.kernel, *g.stride, *g.dilate, g.channels, g.filters, g.groups)
    return g.dtype == "float32" and 1 <= len(g.kernel) <= 3 and min(sizes) >= 1 and min(g.pad) >= 0


@cache
def _is_there() -> bool:
    """Whether XLA's CPU calls oneDNN, tried on a small convolution."""
    if os.environ.get(_SWITCH) == "0":
        return False
    one = Geometry(1, (6, 6), 4, 16, (3, 3), (1, 1), (1, 1), (1, 1))
    return _found(one, Epilogue(bias=True, addend=True, act_type="relu"), None) is not None


def _found(g: Geometry, epilogue: Epilogue, place: Sharding | None) -> int | None:
    """The block by which the result is right. place: where; None: on all cores."""
    candidates = [Blocks.of(size, g) for size in _SIZES]
    length = max(blocks.length for blocks in candidates)
    longer = length + min(length, max(length // 8, _FILLED))  # than any layout is
    trial = _Trial(g, epilogue, (longer,), place=place)
    return next((blocks.block for blocks in candidates if trial.agrees(blocks.where)), None)


_FILLED = 1 << 22
"""Zeros that a layout may have more than ours."""

_SIZES = (64, 48, 32, 16, 24, 8)
"""Filters in a block, of the layouts that oneDNN has for AVX-512 and AVX2."""


class _Trial:
    """A convolution of random numbers, computed once.

    The filters at the ends of the first blocks and of all are looked at: at the first place of the result, at the last,
    and at one between.
    """

    def __init__(
        self,
        g: Geometry,
        epilogue: Epilogue,
        weight_shape: tuple[int, ...],
        order: Order | None = None,
        place: Sharding | None = None,
    ):
        numbers = np.random.default_rng(0).standard_normal(4099).astype(np.float32)
        out_shape = (g.batch, *g.out_size, g.filters)
        operands = [(g.filters,)] * epilogue.bias + [out_shape] * epilogue.addend
        shapes = [(g.batch, *g.size, g.channels), weight_shape, *operands]
        self._geometry, self._epilogue = g, epilogue
        self._data, self._weight, *self._operands = (np.resize(numbers, shape) for shape in shapes)
        self._filters = [f for f in (0, 1, 15, 16, 31, 32, 47, 48, 64, g.filters // 2, g.filters - 1) if f < g.filters]
        try:
            self._out = _run(place, g, epilogue, order, self._data, self._weight, self._operands)
        except jax.errors.JaxRuntimeError:
            self._out = None

    def agrees(self, where: Callable[[int], np.ndarray]) -> bool:
        """Whether the result is right, if a filter's numbers (taps, c / groups) are there in the flat weight."""
        if self._out is None:
            return False
        flat = self._weight.ravel()
        rows = {f: flat[where(f)].astype(np.float64) for f in self._filters}
        return all(self._is_right_at(place, rows) for place in _places(self._geometry))

    def _is_right_at(self, place: tuple[int, ...], rows: Mapping[int, np.ndarray]) -> bool:
        g, epilogue = self._geometry, self._epilogue
        window, share = _window(place, self._data, g), g.channels // g.groups
        groups = [f // (g.filters // g.groups) for f in self._filters]
        seen = [window[:, q * share : (q + 1) * share] for q in groups]
        found = np.array([(part * rows[f]).sum() for f, part in zip(self._filters, seen, strict=True)])
        if epilogue.bias:
            found += self._operands[0][self._filters]
        if epilogue.addend:
            found += self._operands[-1][place][self._filters]
        found = _activated(found, epilogue.act_type)
        assert self._out is not None
        limit = _TOLERANCE * window.size**0.5
        return np.allclose(self._out[place][self._filters], found, rtol=_TOLERANCE, atol=limit)


def _activated(x: np.ndarray, act_type: str) -> np.ndarray:
    if act_type == "gelu":
        return np.array([each * (1 + erf(each / sqrt(2))) / 2 for each in x])
    return np.clip(x, 0, 6 if act_type == "relu6" else None) if act_type else x


def _run(place: Sharding | None, g: Geometry, epilogue: Epilogue, order: Order | None, *arrays: Any) -> np.ndarray:
    cpu = place or SingleDeviceSharding(jax.devices("cpu")[0])
    function = jax.jit(lambda data, weight, rest: _call(data, weight, g, epilogue, rest, order), out_shardings=cpu)
    given = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=cpu), arrays)
    with compiling():
        return np.asarray(function.lower(*given).compile()(*arrays))


def _places(g: Geometry) -> Iterator[tuple[int, ...]]:
    """The first place of the output, the last, and one between."""
    yield (0, *(0 for _ in g.out_size))
    yield (g.batch - 1, *(size - 1 for size in g.out_size))
    yield (g.batch // 2, *(size // 2 for size in g.out_size))


def _window(place: tuple[int, ...], data: np.ndarray, g: Geometry) -> np.ndarray:
    """What a place of the output sees: (taps, c), zeros beyond the data."""
    window = np.zeros((prod(g.kernel), g.channels))
    for number, tap in enumerate(np.ndindex(*g.kernel)):
        at = [o * s + t * d - p for o, s, t, d, p in zip(place[1:], g.stride, tap, g.dilate, g.pad, strict=True)]
        if all(0 <= i < size for i, size in zip(at, g.size, strict=True)):
            window[number] = data[(place[0], *at)]
    return window
