"""How fast each algorithm computes convolutions and their gradients, on this machine.

    python benchmarks/convolutions.py [--networks NAME …] [--directions NAME …] [--batches 1 16] [--minutes 12]
                                      [--write [FILE]]

For each convolution of well-known networks, every algorithm that can compute it, compiled as whole networks are: in
alternating rounds, those that take more than twice the fastest's time in three rounds being left out of the others.
Prints medians in milliseconds, and GFLOP/s of the fastest. --write: the table that `symjax_nnvm.algorithms.choose`
reads, to the user's own, or to FILE (ours is symjax_nnvm/algorithms_cpu.json). What --minutes does not suffice for is
left out. At batch 1 only the forward direction is measured, and larger batches of the networks in `TRAINED`.
"""

from __future__ import annotations

import argparse
import platform as system
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args

sys.path.insert(0, str(Path(__file__).parents[1]))

import jax
import jaxlib.version
import numpy as np

from benchmarks.convolution_cases import NETWORKS, TRAINED, geometries
from lowering import convolutions
from lowering.xla_options import jit, options_for
from symjax_nnvm.algorithms import Measured, Table, user_table, write_table
from symjax_nnvm.geometry import Direction, Geometry, applicable, winograd_tile

RULES = {
    "forward": convolutions.forward,
    "data": convolutions.data_gradient,
    "weight": convolutions.weight_gradient,
}

CONSTANT = " (constant)"
"""Ends the name of an algorithm that is timed without what it makes of the weight first."""


def cases(
    networks: Sequence[str], directions: Sequence[Direction], batches: Sequence[int]
) -> list[tuple[Direction, Geometry]]:
    """What is to be measured, the most important first: no direction of a geometry twice."""
    found: list[tuple[Direction, Geometry]] = [
        (direction, geometry)
        for network in networks
        for batch in batches
        for direction in directions
        for geometry in geometries(network, batch)
        if batch == 1 or network in TRAINED
        if batch > 1 or direction == "forward"
    ]
    return list(dict.fromkeys(found))


def runs(direction: Direction, g: Geometry) -> dict[str, Callable[[], Any]]:
    """Algorithm → what runs it, on arrays that are arguments, as weights are."""
    rng = np.random.default_rng(0)

    def array(*shape: int) -> jax.Array:
        return jax.device_put(rng.standard_normal(shape, np.float32).astype(g.dtype))

    data, ograd = array(g.batch, *g.size, g.channels), array(g.batch, *g.out_size, g.filters)
    weight = array(*g.kernel, g.channels // g.groups, g.filters)
    arguments = {"forward": (data, weight), "data": (ograd, weight), "weight": (ograd, data)}[direction]
    found = {}
    for name in applicable(direction, g):
        found[name] = partial(jit(partial(RULES[direction], geometry=g, algorithm=name)), *arguments)
        tile = winograd_tile(name)
        if direction == "forward" and tile:
            factors = convolutions.winograd_weight(weight, tile)
            rule = jit(partial(convolutions.forward_transformed, geometry=g, algorithm=name))
            found[name + CONSTANT] = partial(rule, data, factors)
    return found


def measure(functions: dict[str, Callable[[], Any]], rounds: int, seconds: float) -> dict[str, float]:
    """Median seconds of each, in turn: three rounds of all, then of those that may be the fastest, for so long."""
    times: dict[str, list[float]] = {name: [] for name in functions}

    def one_round(names: Sequence[str]) -> None:
        for name in names:
            start = time.perf_counter()
            jax.block_until_ready(functions[name]())
            times[name].append(time.perf_counter() - start)

    one_round(list(functions))  # compile
    for all_times in times.values():
        all_times.clear()
    for _ in range(3):
        one_round(list(functions))
    best = min(min(all_times) for all_times in times.values())
    names = [name for name, all_times in times.items() if min(all_times) <= 2 * best]
    end = time.perf_counter() + seconds
    for i in range(rounds):
        if time.perf_counter() > end:
            break
        one_round(names if i % 2 else names[::-1])
    return {name: statistics.median(all_times) for name, all_times in times.items()}


def row(direction: Direction, g: Geometry, times: dict[str, float]) -> Measured:
    """Medians as a row of the table, to a hundredth of a percent."""
    figures = {name: float(f"{seconds * 1e3:.4g}") for name, seconds in times.items()}
    constant = {name.removesuffix(CONSTANT): ms for name, ms in figures.items() if name.endswith(CONSTANT)}
    return Measured(direction, g, {name: ms for name, ms in figures.items() if not name.endswith(CONSTANT)}, constant)


def shown(measured: Measured) -> str:
    """A line: the convolution, and its algorithms, the fastest first."""
    g = measured.geometry
    times = {**measured.milliseconds, **{name + CONSTANT: ms for name, ms in measured.constant.items()}}
    fastest = min(times.values())
    window = f"{'×'.join(map(str, g.kernel))}/{g.stride[0]}" + (f" g{g.groups}" if g.groups > 1 else "")
    what = f"{measured.direction:8} b{g.batch:<3} {g.size[0]:>3}² {g.channels:>4}→{g.filters:<4} {window:10}"
    figures = ", ".join(f"{name} {ms:.2f}" for name, ms in sorted(times.items(), key=lambda item: item[1]))
    return f"{what} {2e-6 * g.macs / fastest:5.0f} GFLOP/s  {figures}"


def machine() -> str:
    """The processor's name and the number of cores."""
    names = [line.partition(":")[2].strip() for line in _cpuinfo() if line.startswith("model name")]
    return f"{names[0] if names else system.machine()}, {len(names) or 1} cores"


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


def main() -> None:
    """Measure, print, and write the table where asked to."""
    platform = jax.default_backend()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=NETWORKS)
    parser.add_argument("--directions", nargs="+", default=get_args(Direction), choices=get_args(Direction))
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 16])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--seconds", type=float, default=0.4, help="for the rounds of one convolution")
    parser.add_argument("--minutes", type=float, default=12)
    parser.add_argument("--write", nargs="?", type=Path, const=user_table(platform), metavar="FILE")
    options = parser.parse_args()
    start, rows, left_out = time.monotonic(), [], 0
    for direction, geometry in cases(options.networks, options.directions, options.batches):
        if time.monotonic() - start > options.minutes * 60:
            left_out += 1
            continue
        rows.append(row(direction, geometry, measure(runs(direction, geometry), options.rounds, options.seconds)))
        print(shown(rows[-1]), flush=True)
        jax.clear_caches()
    print(f"{len(rows)} measured in {(time.monotonic() - start) / 60:.1f} minutes, {left_out} left out")
    if options.write:
        about = {"machine": machine(), "jaxlib": jaxlib.version.__version__, "options": str(options_for(platform))}
        options.write.parent.mkdir(parents=True, exist_ok=True)
        write_table(options.write, Table(platform, about, rows))
        print(f"written to {options.write}")


if __name__ == "__main__":
    main()
