"""Write docs/pictures/scaling.svg and print the table of docs/guide/scaling.md, by the cost model.

    python docs/tools/scaling_curve.py

The curve is a function of `benchmarks/scaling.py` and of the rates below, and nothing else.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.scaling import Machine, Work, efficiency, step_seconds  # noqa: E402

MACHINE = Machine(flops=100e12, link=300e9, hosts_link=3e9, per_host=8, latency=5e-6, overlap=0.5)
"""An example, not a product: 100 TFLOP/s, 300 GB/s to the devices of a host, 3 GB/s of a device to other hosts."""

TERA, MEGA = 1e12, 1e6
ROWS = {
    "ResNet-50, 64 images a device": Work(1.49 * TERA, 102.2 * MEGA),
    "transformer, 302 M parameters, 8 × 128 tokens": Work(1.90 * TERA, 1209.2 * MEGA),
    "the same, 64 × 128 tokens": Work(15.2 * TERA, 1209.2 * MEGA),
}
"""Arithmetic of a step and bytes of parameters, as `benchmarks/scaling.py` finds them."""

DEVICES = tuple(2**i for i in range(11))
COLOURS = ("#1f6fb2", "#c2571a", "#3a8f4d")
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 640, 340, 52, 16, 16, 84


def x_of(devices: int) -> float:
    """Logarithmic."""
    return LEFT + (devices.bit_length() - 1) / (len(DEVICES) - 1) * (WIDTH - LEFT - RIGHT)


def y_of(share: float) -> float:
    """From nothing to all."""
    return TOP + (1 - share) * (HEIGHT - TOP - BOTTOM)


def picture() -> str:
    """The curves as SVG."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"',
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for percent in range(0, 101, 25):
        y = y_of(percent / 100)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{percent} %</text>')
    for devices in DEVICES:
        x = x_of(devices)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{devices}</text>')
    for i, ((name, work), colour) in enumerate(zip(ROWS.items(), COLOURS, strict=True)):
        points = " ".join(f"{x_of(n):.1f},{y_of(efficiency(work, n, MACHINE)):.1f}" for n in DEVICES)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        y = HEIGHT - 48 + 16 * i
        parts.append(
            f'<line x1="{LEFT}" x2="{LEFT + 24}" y1="{y - 4}" y2="{y - 4}" stroke="{colour}" stroke-width="2"/>'
        )
        parts.append(f'<text x="{LEFT + 32}" y="{y}">{name}</text>')
    return "\n".join([*parts, "</svg>", ""])


def table() -> str:
    """Milliseconds of a step, and efficiency, by devices."""
    shown = (1, 8, 64, 256, 1024)
    lines = ["| " + " | ".join(["", *map(str, shown)]) + " |", "|---" * (len(shown) + 1) + "|"]
    for name, work in ROWS.items():
        cells = [f"{step_seconds(work, n, MACHINE)[0] * 1e3:.0f} ms, {efficiency(work, n, MACHINE):.0%}" for n in shown]
        lines.append("| " + " | ".join([name, *cells]) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    (ROOT / "docs" / "pictures" / "scaling.svg").write_text(picture(), encoding="utf-8")
    print(table())
