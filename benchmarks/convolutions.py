"""How fast each algorithm computes convolutions and their gradients, on this machine.

    python benchmarks/convolutions.py [--networks NAME …] [--directions NAME …] [--batches 1 16] [--minutes 12]
                                      [--write [FILE]]

For each convolution of well-known networks, every algorithm that can compute it, compiled as whole networks are: in
alternating rounds, those that take more than twice the fastest's time in three rounds being left out of the others.
Prints medians in milliseconds, and GFLOP/s of the fastest. --write: the table that `lowering.convolutions.choose`
reads, to the user's own, or to FILE (ours is lowering/convolutions/algorithms_cpu.json). What --minutes does not
suffice for is left out. At batch 1 only the forward direction is measured, and larger batches of the networks in
`TRAINED`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

sys.path.insert(0, str(Path(__file__).parents[1]))

import jax

import lowering
from benchmarks.convolution_cases import NETWORKS, TRAINED, geometries
from lowering.api.tune import CONSTANT, about, measure, row, runs
from lowering.convolutions.geometry import Direction, Geometry
from lowering.convolutions.table import Measured, Table, user_table, write_table


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


def shown(measured: Measured) -> str:
    """A line: the convolution, and its algorithms, the fastest first."""
    g = measured.geometry
    times = {**measured.milliseconds, **{name + CONSTANT: ms for name, ms in measured.constant.items()}}
    fastest = min(times.values())
    window = f"{'×'.join(map(str, g.kernel))}/{g.stride[0]}" + (f" g{g.groups}" if g.groups > 1 else "")
    what = f"{measured.direction:8} b{g.batch:<3} {g.size[0]:>3}² {g.channels:>4}→{g.filters:<4} {window:10}"
    figures = ", ".join(f"{name} {ms:.2f}" for name, ms in sorted(times.items(), key=lambda item: item[1]))
    return f"{what} {2e-6 * g.macs / fastest:5.0f} GFLOP/s  {figures}"


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
        options.write.parent.mkdir(parents=True, exist_ok=True)
        write_table(options.write, Table(platform, about(platform), rows))
        print(f"written to {options.write}")


if __name__ == "__main__":
    lowering.keep_memory()
    main()
