"""Trials in a child process: a convolution or a product by oneDNN, on numbers whose result is known, and the second
client.

    python -c "from lowering.native.trials import main; main()"

reads questions from standard input, a JSON list a line, and writes an answer to each, `ANSWER …` a line. oneDNN writes
which of its implementations it takes between them (`ONEDNN_VERBOSE`), which `lowering/native/ask.py` reads along.
A question may end this process, or never return: this process exists for that.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from math import erf, prod, sqrt
from typing import Any

import jax
import numpy as np
from jax.sharding import Sharding, SingleDeviceSharding

from lowering.convolutions.geometry import Epilogue, Geometry
from lowering.convolutions.layouts import Blocks
from lowering.native import unpromised
from lowering.native.onednn_call import FILTERS_FIRST, Order, call, product

ANSWER, READY = "ANSWER ", "READY with threads: "
_TOLERANCE = 1e-4
_IDLE_SECONDS = 10.0
"""After so long without a question the process ends by itself."""

_TOO_LONG_SECONDS = 90.0
"""After this time with a question, too: the parent process may have ended."""


def main() -> None:
    """Answer questions until there are no more."""
    clock = _Clock()
    threading.Thread(target=_end_in_time, args=(clock,), daemon=True).start()
    _write_line(f"{READY}{unpromised.workers()}")
    for line in sys.stdin:
        clock.start(_TOO_LONG_SECONDS)
        _write_line(ANSWER + json.dumps(answer(json.loads(line))))
        clock.start(_IDLE_SECONDS)


class _Clock:
    """The time at which the process is to end, idle or not."""

    def __init__(self):
        self.start(_IDLE_SECONDS)

    def start(self, seconds: float) -> None:
        self.is_idle, self.end = seconds == _IDLE_SECONDS, time.monotonic() + seconds


def _end_in_time(clock: _Clock) -> None:
    while time.monotonic() < clock.end:
        time.sleep(1)
    os._exit(0 if clock.is_idle else 1)


def _write_line(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def answer(question: list[Any]) -> Any:
    """Return the answer to a question.

    ["block", geometry, epilogue], ["block_of_a_core", …]: how many filters a block of the weight has. ["computes",
    geometry]: whether it is computed with a plain weight. ["multiplies", geometry]: of a sequence of dense layers,
    whether their products are; ["multiplies_rows", …]: whether the gradients of their weights are. ["one_core"]:
    whether there is a second client.
    """
    kind, *details = question
    if kind == "one_core":
        return _one_core() is not None
    fields: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in details[0].items()}
    geometry = Geometry(**fields)
    if kind == "computes":
        return computes(geometry)
    if kind in ("multiplies", "multiplies_rows"):
        layer = geometry.size[0], geometry.channels, geometry.filters
        return multiplies(geometry.batch, *layer, over_rows=kind == "multiplies_rows")
    place = _one_core() if kind == "block_of_a_core" else None
    return block(geometry, Epilogue(*details[1]), place)


@cache
def _one_core() -> Sharding | None:
    device = unpromised.one_worker_device()
    if device is None:
        return None
    place = SingleDeviceSharding(device)
    numbers = jax.device_put(np.arange(6, dtype=np.float32).reshape(2, 3), place)
    product = jax.jit(lambda a: a @ a.T, out_shardings=place)(numbers)
    return place if np.array_equal(product, [[5, 14], [14, 50]]) else None


def block(g: Geometry, epilogue: Epilogue, place: Sharding | None) -> int | None:
    """Return the block by which the result is right. place: where it is computed; None: on all cores."""
    candidates = [Blocks.of_weight(size, g) for size in BLOCKS]
    length = max(blocks.length for blocks in candidates)
    longer = length + min(length, max(length // 8, _FILLED))  # than any layout is
    trial = _Trial(g, epilogue, (longer,), place=place)
    return next((blocks.block for blocks in candidates if trial.agrees(blocks.where)), None)


def computes(g: Geometry) -> bool:
    """Return whether the call computes a geometry whose weight is (f, c / groups, *kernel)."""
    share, taps = g.channels // g.groups, prod(g.kernel)
    rows = np.arange(share)[None, :] * taps + np.arange(taps)[:, None]
    trial = _Trial(g, Epilogue(), (g.filters, share, *g.kernel), FILTERS_FIRST)
    return trial.agrees(lambda filter: rows + filter * share * taps)


def multiplies(count: int, k: int, m: int, n: int, over_rows: bool) -> bool:
    """Return whether the call computes so many products of (k, m), if it is over rows, or (m, k) with (k, n): rows of
    each at both ends, and one between."""
    numbers = _numbers()
    sequence = () if count == 1 else (count,)
    a = np.resize(numbers, (*sequence, *((k, m) if over_rows else (m, k))))
    b = np.resize(numbers[1:], (*sequence, k, n))
    rows = [0, m // 2, m - 1]
    try:
        out = _compiled(partial(product, over_rows=over_rows), None, a, b)(a, b)
    except Exception:  # of an interface that JAX does not promise
        return False
    factors = (a.swapaxes(-1, -2) if over_rows else a)[..., rows, :].astype(np.float64)
    return np.allclose(np.asarray(out)[..., rows, :], factors @ b, rtol=_TOLERANCE, atol=_TOLERANCE * k**0.5)


def _numbers() -> np.ndarray:
    return np.random.default_rng(0).standard_normal(4099).astype(np.float32)


_FILLED = 1 << 22
"""Zeros that a layout may have more than ours."""

BLOCKS = (64, 48, 32, 16, 24, 8)
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
        numbers = _numbers()
        out_shape = (g.batch, *g.out_size, g.filters)
        operands = [(g.filters,)] * epilogue.bias + [out_shape] * epilogue.addend
        shapes = [(g.batch, *g.size, g.channels), weight_shape, *operands]
        self._geometry, self._epilogue = g, epilogue
        self._data, self._weight, *self._operands = (np.resize(numbers, shape) for shape in shapes)
        self._filters = [f for f in (0, 1, 15, 16, 31, 32, 47, 48, 64, g.filters // 2, g.filters - 1) if f < g.filters]
        self._out: np.ndarray | None
        try:
            self._out = _run(place, g, epilogue, order, self._data, self._weight, self._operands)
        except Exception:  # of an interface that JAX does not promise
            self._out = None

    def agrees(self, where: Callable[[int], np.ndarray]) -> bool:
        """Check the result for a weight in which a filter's numbers (taps, c / groups) have these places."""
        if self._out is None:
            return False
        flat = self._weight.ravel()
        rows = {f: flat[where(f)].astype(np.float64) for f in self._filters}
        return all(self._is_right_at(place, rows) for place in _places(self._geometry))

    def _is_right_at(self, place: tuple[int, ...], rows: Mapping[int, np.ndarray]) -> bool:
        g, epilogue = self._geometry, self._epilogue
        window, share = _window(place, self._data, g), g.channels // g.groups
        groups = [f // (g.filters // g.groups) for f in self._filters]
        patches = [window[:, q * share : (q + 1) * share] for q in groups]
        expected = np.array([(part * rows[f]).sum() for f, part in zip(self._filters, patches, strict=True)])
        if epilogue.bias:
            expected += self._operands[0][self._filters]
        if epilogue.addend:
            expected += self._operands[-1][place][self._filters]
        expected = _activated(expected, epilogue.act_type)
        assert self._out is not None
        limit = _TOLERANCE * window.size**0.5
        return np.allclose(self._out[place][self._filters], expected, rtol=_TOLERANCE, atol=limit)


def _activated(x: np.ndarray, act_type: str) -> np.ndarray:
    if act_type == "gelu":
        return np.array([number * (1 + erf(number / sqrt(2))) / 2 for number in x])
    return np.clip(x, 0, 6 if act_type == "relu6" else None) if act_type else x


def _run(place: Sharding | None, g: Geometry, epilogue: Epilogue, order: Order | None, *arrays: Any) -> np.ndarray:
    def convolution(data: Any, weight: Any, rest: Any) -> Any:
        return call(data, weight, g, epilogue, rest, order)

    with warnings.catch_warnings(action="ignore"):
        return np.asarray(_compiled(convolution, place, *arrays)(*arrays))


def _compiled(function: Callable[..., Any], place: Sharding | None, *arrays: Any) -> Any:
    """Return a function of arrays, compiled as programs with calls are. place: where it runs; None: on all cores."""
    cpu = place or SingleDeviceSharding(jax.devices("cpu")[0])
    avals = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=cpu), arrays)
    options: Any = dict(unpromised.OURS_ALONE) if unpromised.knows_options(unpromised.OURS_ALONE) else {}
    return jax.jit(function, out_shardings=cpu).lower(*avals).compile(options)


def _places(g: Geometry) -> Iterator[tuple[int, ...]]:
    """Yield the first place of the output, the last, and one between."""
    yield (0, *(0 for _ in g.out_size))
    yield (g.batch - 1, *(size - 1 for size in g.out_size))
    yield (g.batch // 2, *(size // 2 for size in g.out_size))


def _window(place: tuple[int, ...], data: np.ndarray, g: Geometry) -> np.ndarray:
    """Return the data under the window at a place of the output: (taps, c), zeros beyond the data."""
    window = np.zeros((prod(g.kernel), g.channels))
    for number, tap in enumerate(np.ndindex(*g.kernel)):
        at = [o * s + t * d - p for o, s, t, d, p in zip(place[1:], g.stride, tap, g.dilate, g.pad, strict=True)]
        if all(0 <= i < size for i, size in zip(at, g.size, strict=True)):
            window[number] = data[(place[0], *at)]
    return window
