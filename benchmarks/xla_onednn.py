"""What XLA's own oneDNN calls gain (`xla_cpu_experimental_onednn_custom_call`), and why they are not our fallback.

    python benchmarks/xla_onednn.py [--rounds 9]
    ONEDNN_MAX_CPU_ISA=AVX python benchmarks/xla_onednn.py      # as on a processor without AVX2

Each convolution, with ReLU and with its gradients, is computed by XLA alone and with the option, each in a process of
its own that has a minute, and the medians in milliseconds are printed. "not taken": XLA made no such call.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

import jax
import numpy as np

from benchmarks.contenders import fresh, in_process, medians, options_of, print_table, take_turns

OPTION = "xla_cpu_experimental_onednn_custom_call"


class Case(NamedTuple):
    """data (n, *size, c), weight (*kernel, c / groups, filters); strides and dilations are the same on each axis."""

    data: tuple[int, ...]
    kernel: tuple[int, ...]
    filters: int
    groups: int = 1
    stride: int = 1
    dilate: int = 1


CASES = {
    "3x3, 64 of 56²": Case((4, 56, 56, 64), (3, 3), 64),
    "3x3, 256 of 14²": Case((4, 14, 14, 256), (3, 3), 256),
    "3x3 strided, 128 of 28²": Case((4, 28, 28, 128), (3, 3), 256, stride=2),
    "7x7 strided, 3 of 224²": Case((1, 224, 224, 3), (7, 7), 64, stride=2),
    "1x1, 256 of 28²": Case((4, 28, 28, 256), (1, 1), 64),
    "3x3 dilated, 64 of 56²": Case((4, 56, 56, 64), (3, 3), 64, dilate=2),
    "3x3 depth-wise, 256 of 28²": Case((4, 28, 28, 256), (3, 3), 256, groups=256),
    "3x3 depth-wise dilated, 256 of 28²": Case((4, 28, 28, 256), (3, 3), 256, groups=256, dilate=2),
    "3x3 in 32 groups, 128 of 28²": Case((4, 28, 28, 128), (3, 3), 128, groups=32),
    "9 in one dimension, 64 of 512": Case((8, 512, 64), (9,), 64),
    "3x3x3, 16 of 16³": Case((2, 16, 16, 16, 16), (3, 3, 3), 16),
}


def median(case: Case, own: bool, gradients: bool, rounds: int) -> tuple[int, float]:
    """(oneDNN calls in the program, median in milliseconds)."""
    space = "DHW"[3 - len(case.kernel) :]
    pad = [(case.dilate * (size // 2), case.dilate * (size // 2)) for size in case.kernel]
    rng = np.random.default_rng(0)
    data = rng.standard_normal(case.data, np.float32)
    weight = rng.standard_normal((*case.kernel, case.data[-1] // case.groups, case.filters), np.float32)

    def convolution(data: jax.Array, weight: jax.Array) -> jax.Array:
        axes = len(case.kernel)
        return jax.nn.relu(
            jax.lax.conv_general_dilated(
                data,
                weight,
                (case.stride,) * axes,
                pad,
                rhs_dilation=(case.dilate,) * axes,
                feature_group_count=case.groups,
                dimension_numbers=(f"N{space}C", f"{space}IO", f"N{space}C"),
            )
        )

    def cost(data: jax.Array, weight: jax.Array) -> jax.Array:
        return convolution(data, weight).sum()

    options = {"xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT", OPTION: own}
    function = jax.grad(cost, (0, 1)) if gradients else convolution
    program = jax.jit(function, compiler_options=options).lower(data, weight).compile()
    arrays = jax.device_put((data, weight))
    way = in_process(lambda: jax.block_until_ready(program(*arrays)))
    return (program.as_text() or "").count("onednn$conv"), medians(take_turns({"it": way}, rounds))["it"]


def cell(name: str, own: bool, gradients: bool, rounds: int) -> str:
    """What a process of its own says of a case."""
    try:
        calls, ms = fresh(__file__, "--one", json.dumps([name, own, gradients]), "--rounds", rounds, timeout=60)
    except subprocess.TimeoutExpired:
        return "no end"
    except subprocess.CalledProcessError as ended:
        return f"exit {ended.returncode}"
    return f"{ms:.2f}" if calls or not own else "not taken"


def main() -> None:
    """Print the table."""
    parser = options_of(__doc__, 9)
    parser.add_argument("--one", metavar="CASE", help="measure one case in this process")
    args = parser.parse_args()
    if args.one:
        name, own, gradients = json.loads(args.one)
        print(json.dumps(median(CASES[name], own, gradients, args.rounds)))
        return
    ways = [(own, gradients) for gradients in (False, True) for own in (False, True)]
    rows = ([name, *(cell(name, own, gradients, args.rounds) for own, gradients in ways)] for name in CASES)
    print_table([f"jax {jax.__version__}, ms", "XLA", "its calls", "gradients", "its calls"], rows)


if __name__ == "__main__":
    main()
