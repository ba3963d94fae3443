"""The budget of a run: its estimated memory and arithmetic, before anything is made or compiled."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax

from symjax_nnvm.cli.console import note
from symjax_nnvm.errors import LoweringError, SymbolValueError
from symjax_nnvm.inspect.footprint import bytes_text, estimate, parse_size
from symjax_nnvm.ir.types import is_known
from symjax_nnvm.symbol.symbol import Symbol

LONG = 1e12
"""Floating-point operations from which on a run is announced: a second or more on most machines."""


def add_max_memory(parser: argparse.ArgumentParser) -> None:
    """Add the option `--max-memory`."""
    parser.add_argument(
        "--max-memory",
        type=_size,
        metavar="SIZE",
        help="refuse a model that needs more, such as 500M or 4G; default: the free memory",
    )


def check_budget(
    options: argparse.Namespace, symbol: Symbol, shapes: Mapping[str, Any], dtypes: Mapping[str, Any], *, proof: bool
) -> None:
    """Refuse a run that needs more memory than there is, and announce a long one.

    shapes, dtypes: those of the variables, by name, None where unknown. proof: forward and backward, in float64.
    Raises LoweringError.
    """
    known_shapes = {name: shape for name, shape in shapes.items() if is_known(shape)}
    types = {name: dtype for name, dtype in dtypes.items() if dtype is not None}
    cost = estimate(symbol, known_shapes, types, training=proof, in_float64=proof)
    limit = options.max_memory or free_memory()
    if limit is not None and cost.peak_bytes > limit:
        which = "allowed" if options.max_memory else "free"
        raise LoweringError(
            f"The run needs about {bytes_text(cost.peak_bytes)} of memory, most of it for {cost.place}",
            expected=f"at most {bytes_text(limit)}, which is {which}",
            fix="Pass smaller shapes, or raise --max-memory.",
        )
    if cost.flops > LONG:
        for line in str(cost).splitlines():
            note(f"estimated {line}")


def free_memory() -> int | None:
    """Return bytes that are free where JAX runs; None where they are unknown."""
    stats = jax.devices()[0].memory_stats() if jax.default_backend() != "cpu" else None
    if stats and "bytes_limit" in stats:
        return stats["bytes_limit"] - stats.get("bytes_in_use", 0)
    sizes = [size for size in (_machine(), _control_group()) if size is not None]
    return min(sizes, default=None)


def _machine() -> int | None:
    """Return the bytes that Linux calls available; else the free pages, without what caches would give back."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # Windows; a system without these names
        return None


def _control_group() -> int | None:
    """Return the bytes that a container's limit leaves."""
    folder = Path("/sys/fs/cgroup")
    try:
        limit, used = ((folder / name).read_text(encoding="ascii") for name in ("memory.max", "memory.current"))
        return max(int(limit) - int(used), 0)
    except (OSError, ValueError):  # no limit is the word `max`
        return None


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except SymbolValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
