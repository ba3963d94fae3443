"""How fast each algorithm computes convolutions and their gradients, on this machine.

    python benchmarks/convolutions.py [--networks NAME …] [--directions NAME …] [--batches 1 16 128] [--minutes 12]
                                      [--write user|FILE]

For each convolution of well-known networks, every algorithm that can compute it, compiled as whole networks are: in
alternating rounds, those that take more than twice the fastest's time in three rounds being left out of the others.
Prints medians in milliseconds, and GFLOP/s of the fastest. --write: the table that `lowering.convolutions.choose`
reads, to the user's own (`user`), or to FILE (ours is lowering/convolutions/algorithms_cpu.json). What --minutes does
not suffice for is left out. At batch 1 only the forward direction is measured, and larger batches of the networks in
`TRAINED`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

sys.path.insert(0, str(Path(__file__).parents[1]))

import jax

import lowering
from benchmarks.contenders import run
from lowering.api.tuning import CONSTANT, about, measure, row, runs
from lowering.convolutions.geometry import Direction, Geometry
from lowering.convolutions.timings_table import Measured, Table, user_table, write_table

Shape = tuple[int, int, int, int | tuple[int, int], int, int]
"""Size, channels, filters, kernel, stride, groups; 0 groups: one for each channel."""

NETWORKS: dict[str, list[Shape]] = {
    "resnet18": [
        *((224, 3, 64, 7, 2, 1), (56, 64, 64, 3, 1, 1), (56, 64, 128, 3, 2, 1), (56, 64, 128, 1, 2, 1)),
        *((28, 128, 128, 3, 1, 1), (28, 128, 256, 3, 2, 1), (28, 128, 256, 1, 2, 1), (14, 256, 256, 3, 1, 1)),
        *((14, 256, 512, 3, 2, 1), (14, 256, 512, 1, 2, 1), (7, 512, 512, 3, 1, 1)),
    ],
    "resnet50": [
        *((56, 64, 64, 1, 1, 1), (56, 64, 256, 1, 1, 1), (56, 256, 64, 1, 1, 1), (56, 256, 128, 1, 2, 1)),
        *((56, 256, 512, 1, 2, 1), (28, 128, 512, 1, 1, 1), (28, 512, 128, 1, 1, 1), (28, 512, 1024, 1, 2, 1)),
        *((14, 256, 1024, 1, 1, 1), (14, 1024, 256, 1, 1, 1), (14, 1024, 2048, 1, 2, 1), (7, 512, 2048, 1, 1, 1)),
        (7, 2048, 512, 1, 1, 1),
    ],
    "mobilenet": [
        *((224, 3, 32, 3, 2, 1), (112, 32, 32, 3, 1, 0), (112, 32, 64, 1, 1, 1), (112, 64, 64, 3, 2, 0)),
        *((56, 64, 128, 1, 1, 1), (56, 128, 128, 3, 1, 0), (56, 128, 128, 1, 1, 1), (56, 128, 128, 3, 2, 0)),
        *((28, 256, 256, 3, 1, 0), (28, 256, 256, 1, 1, 1), (28, 256, 256, 3, 2, 0), (14, 256, 512, 1, 1, 1)),
        *((14, 512, 512, 3, 1, 0), (14, 512, 512, 1, 1, 1), (14, 512, 512, 3, 2, 0), (7, 1024, 1024, 3, 1, 0)),
        (7, 1024, 1024, 1, 1, 1),
    ],
    "mobilenet_v2": [
        *((112, 32, 16, 1, 1, 1), (112, 16, 96, 1, 1, 1), (112, 96, 96, 3, 2, 0), (56, 96, 24, 1, 1, 1)),
        *((56, 144, 144, 3, 1, 0), (28, 192, 32, 1, 1, 1), (14, 384, 64, 1, 1, 1), (14, 384, 384, 3, 1, 0)),
        *((7, 960, 960, 3, 1, 0), (7, 960, 160, 1, 1, 1), (7, 320, 1280, 1, 1, 1)),
    ],
    "resnext50": [
        *((56, 128, 128, 3, 1, 32), (56, 256, 256, 3, 2, 32), (28, 256, 256, 3, 1, 32), (28, 512, 512, 3, 2, 32)),
        *((14, 512, 512, 3, 1, 32), (14, 1024, 1024, 3, 2, 32), (7, 1024, 1024, 3, 1, 32)),
    ],
    "vgg16": [
        *((224, 3, 64, 3, 1, 1), (224, 64, 64, 3, 1, 1), (112, 64, 128, 3, 1, 1), (112, 128, 128, 3, 1, 1)),
        *((56, 128, 256, 3, 1, 1), (56, 256, 256, 3, 1, 1), (28, 256, 512, 3, 1, 1), (28, 512, 512, 3, 1, 1)),
        (14, 512, 512, 3, 1, 1),
    ],
    "inception_v3": [
        *((147, 32, 64, 3, 1, 1), (73, 80, 192, 3, 1, 1), (35, 48, 64, 5, 1, 1), (35, 96, 96, 3, 1, 1)),
        *((35, 288, 384, 3, 2, 1), (35, 192, 64, 1, 1, 1), (17, 160, 160, (1, 7), 1, 1), (17, 192, 192, (7, 1), 1, 1)),
        *((17, 768, 192, 1, 1, 1), (8, 384, 384, (1, 3), 1, 1), (8, 448, 384, 3, 1, 1), (8, 1280, 320, 1, 1, 1)),
    ],
    "densenet121": [
        *((56, 128, 32, 3, 1, 1), (28, 128, 32, 3, 1, 1), (14, 128, 32, 3, 1, 1), (7, 128, 32, 3, 1, 1)),
        *((56, 192, 128, 1, 1, 1), (28, 320, 128, 1, 1, 1), (14, 640, 128, 1, 1, 1), (7, 768, 128, 1, 1, 1)),
    ],
    "squeezenet": [
        *((224, 3, 64, 3, 2, 1), (55, 16, 64, 3, 1, 1), (27, 32, 128, 3, 1, 1), (13, 64, 256, 3, 1, 1)),
        *((55, 128, 16, 1, 1, 1), (13, 384, 64, 1, 1, 1)),
    ],
    "small_images": [
        *((32, 3, 16, 3, 1, 1), (32, 16, 16, 3, 1, 1), (16, 32, 32, 3, 1, 1), (8, 64, 64, 3, 1, 1)),
        *((32, 64, 64, 3, 1, 1), (16, 128, 128, 3, 1, 1), (4, 512, 512, 3, 1, 1), (32, 64, 128, 3, 2, 1)),
        *((8, 64, 128, 3, 2, 1), (4, 128, 128, 3, 1, 1), (4, 128, 256, 3, 2, 1), (2, 256, 256, 3, 1, 1)),
        *((2, 256, 512, 3, 2, 1), (1, 512, 512, 3, 1, 1)),
    ],
}
"""small_images: of ResNets of 32², made for them and made for 224²."""


TRAINED = ("resnet18", "resnet50", "mobilenet", "mobilenet_v2", "resnext50", "small_images")
"""Networks whose gradients are measured. The sizes of the others' convolutions are among theirs."""

LARGE_BATCH = 128
"""Of small images alone, of which single ones take a tenth of a millisecond by any algorithm."""


def geometries(network: str, batch: int) -> list[Geometry]:
    """The network's convolutions, padded by half of the window, on images of a batch."""
    return [_geometry(batch, *shape) for shape in NETWORKS[network]]


def _geometry(
    batch: int, size: int, channels: int, filters: int, kernel: int | tuple[int, int], stride: int, groups: int
) -> Geometry:
    window = (kernel, kernel) if isinstance(kernel, int) else kernel
    pad = (window[0] // 2, window[1] // 2)
    return Geometry(batch, (size, size), channels, filters, window, (stride, stride), (1, 1), pad, groups or channels)


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
        if (batch > 1 if network == "small_images" else batch < LARGE_BATCH)
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


def main(
    networks: tuple[str, ...] = tuple(NETWORKS),
    directions: tuple[str, ...] = get_args(Direction),
    batches: tuple[int, ...] = (1, 16, LARGE_BATCH),
    rounds: int = 25,
    seconds: float = 0.4,
    minutes: float = 12.0,
    write: str | None = None,
) -> None:
    """Measure, print, and write the table where asked to. seconds: for the rounds of one convolution."""
    lowering.keep_memory()
    platform = jax.default_backend()
    start, rows, left_out = time.monotonic(), [], 0
    for direction, geometry in cases(networks, [d for d in get_args(Direction) if d in directions], batches):
        if time.monotonic() - start > minutes * 60:
            left_out += 1
            continue
        rows.append(row(direction, geometry, measure(runs(direction, geometry), rounds, seconds)))
        print(shown(rows[-1]), flush=True)
        jax.clear_caches()
    print(f"{len(rows)} measured in {(time.monotonic() - start) / 60:.1f} minutes, {left_out} left out")
    if write:
        path = user_table(platform) if write == "user" else Path(write)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_table(path, Table(platform, about(platform), rows))
        print(f"written to {path}")


if __name__ == "__main__":
    run(__doc__, main)
