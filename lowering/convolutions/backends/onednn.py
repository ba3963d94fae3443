"""oneDNN's convolutions, which XLA's CPU runs for a custom call: bias, sum and activation in the pass that multiplies.

jaxlib's wheels for x86 hold oneDNN and its caller (`onednn_convolution.cc` of XLA), but XLA itself makes such calls
only with an option (`xla_cpu_experimental_onednn_custom_call`). So the call is made here. It is not a promised
interface, and some of the code behind it ends the process or waits for ever: each geometry is computed in a child
process first (`lowering/native/ask.py`), and XLA computes those that are not right there.

The weight comes in blocks of filters (`lowering/convolutions/layouts.py`), as oneDNN would otherwise arrange it in
every call. How long a block is follows from the geometry and the machine, and a trial finds it.
"""

from __future__ import annotations

import platform
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import jax
import jax.export
from jax import Array

from lowering.convolutions.backends.backend import Backend
from lowering.convolutions.geometry import Direction, Epilogue, Geometry, turned
from lowering.convolutions.layouts import Blocks
from lowering.native.ask import ask, trouble
from lowering.native.onednn_call import CHANNELS_FIRST, FILTERS_FIRST, PRODUCT_TARGET, TARGET, Order, call, product
from lowering.xla import cpu_streams
from lowering.xla.library_call import exporting_calls
from lowering.xla.switches import ALONE, OURS, SWITCH, onednn_calls

__all__ = ["CHANNELS_FIRST", "FILTERS_FIRST", "TARGET", "Order", "product"]


def convolve(data: Array, weight: Array, geometry: Geometry, epilogue: Epilogue, operands: Sequence[Array]) -> Array:
    """Map data (n, *size, c), weight in blocks, flat; operands: the bias (f,) and the addend (n, *out_size, f), if the
    epilogue has them → (n, *out_size, f).

    The result is written over the addend, so that less goes through memory: 64 → 256 filters of 56², 4 images, with the
    convolution before it 2.8 ms in place of 3.4. Where another operation reads the addend later XLA makes a copy
    before.
    """
    return call(data, weight, geometry, epilogue, operands, None)


def convolve_plain(data: Array, weight: Array, geometry: Geometry, order: Order = FILTERS_FIRST) -> Array:
    """Return a convolution with a plain weight (*kernel, c / groups, f), which is put into blocks in every call;
    nothing follows.

    order: how the call takes it. A transposition that made the weight of an array in that order is undone, so that XLA
    computes neither.
    """
    rank = weight.ndim
    at = {"channels": rank - 2, "filters": rank - 1}
    ordered = weight.transpose(at[order[0]], at[order[1]], *range(rank - 2))
    return call(data, ordered, geometry, Epilogue(), (), order)


@contextmanager
def compiling() -> Iterator[None]:
    """JAX's compilation cache cannot hold the library's calls, and would warn of each program: they are compiled
    anew, which is fast, as the library's code exists already."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Error writing persistent compilation cache entry", UserWarning)
        yield


def for_this_machine(function: Any, *args: Any, platforms: Sequence[str], **named: Any) -> jax.export.Exported:
    """Export a jitted function with its calls, for machines of one kind: others misread the blocks without error."""
    ours = [jax.export.DisabledSafetyCheck.custom_call(target) for target in (TARGET, PRODUCT_TARGET)]
    with exporting_calls():
        return jax.export.export(function, platforms=platforms, disabled_checks=ours)(*args, **named)


# -- the geometries that it computes ---------------------------------------------------------------------------------

_X86 = ("x86_64", "AMD64", "i386", "i686")
_SMALL = Geometry(1, (6, 6), 4, 16, (3, 3), (1, 1), (1, 1), (1, 1))


@lru_cache(4096)
def block(geometry: Geometry, epilogue: Epilogue) -> int | None:
    """Return how many filters a block of the weight has; None where oneDNN is missing, computes something else, or
    computes it by code that cannot be relied on."""
    return ask("block", geometry, epilogue) if _may_be_tried(geometry) else None


@lru_cache(4096)
def block_of_a_core(geometry: Geometry, epilogue: Epilogue) -> int | None:
    """Return the block of a weight for one core, which may differ from the block for all cores."""
    there = _may_be_tried(geometry) and cpu_streams.one_core() is not None
    return ask("block_of_a_core", geometry, epilogue) if there else None


@lru_cache(4096)
def computes(geometry: Geometry) -> bool:
    """Return whether `convolve_plain` computes a geometry."""
    return _may_be_tried(geometry) and bool(ask("computes", geometry))


@lru_cache(4096)
def multiplies(count: int, k: int, m: int, n: int, over_rows: bool) -> bool:
    """Return whether `product` computes so many products of (k, m), if it is over rows, or (m, k) with (k, n)."""
    layer = Geometry(count, (k,), m, n, (1,), (1,), (1,), (0,))
    kind = "multiplies_rows" if over_rows else "multiplies"
    return onednn_calls() == OURS and _may_be_tried(layer) and bool(ask(kind, layer))


def computes_direction(direction: Direction, geometry: Geometry) -> bool:
    """Return whether it computes a convolution, or the one that a data gradient of stride 1 is."""
    return computes(turned(geometry) if direction == "data" else geometry)


@dataclass(frozen=True)
class OneDnn(Backend):
    """Represents oneDNN by our calls."""

    @property
    def calls(self) -> bool:
        """Return True: this backend has a library."""
        return True

    @property
    def fuses(self) -> bool:
        """Return True: this backend does what follows a product in the same pass."""
        return True

    def layout(self, geometry: Geometry, epilogue: Epilogue) -> str | None:
        """Return the layout of the weight that it takes; None where it computes no such geometry and what follows."""
        size = (block_of_a_core if self.one_core else block)(geometry, epilogue)
        return None if size is None else Blocks.of_weight(size, geometry).layout

    def computes(self, direction: Direction, geometry: Geometry) -> bool:
        """Return whether oneDNN computes a direction. Phases of a strided convolution that it does not compute are
        computed otherwise."""
        strided = any(stride > 1 for stride in geometry.stride)
        return (direction == "data" and strided) or computes_direction(direction, geometry)


def why_not() -> str | None:
    """Why no convolution is computed by oneDNN in this process; None where some are."""
    if onednn_calls() == ALONE:
        return f"{SWITCH}={ALONE} in the environment"
    if platform.machine() not in _X86:
        return f"jaxlib has it for x86 processors, this is {platform.machine() or 'unknown'}"
    if _small() is not None:
        return None
    return trouble() or (
        "a small convolution, tried in a child process, ended it, was wrong, or was not computed by code for this "
        "processor (AVX2 or AVX-512)"
    )


@cache
def _small() -> int | None:
    return ask("block", _SMALL, Epilogue(bias=True, addend=True, act_type="relu"))


def _may_be_tried(g: Geometry) -> bool:
    """Return whether a geometry may be tried in the child: the call takes float32 in up to three dimensions, with
    numbers that XLA can read. Where oneDNN has no code of its own for a plain convolution, as without AVX2, nothing
    else is tried."""
    if onednn_calls() == ALONE or platform.machine() not in _X86 or _small() is None:
        return False
    sizes = (g.batch, *g.size, *g.out_size, *g.kernel, *g.stride, *g.dilate, g.channels, g.filters, g.groups)
    return g.dtype == "float32" and 1 <= len(g.kernel) <= 3 and min(sizes) >= 1 and min(g.pad) >= 0
