"""A batch in streams, each core computing samples of its own, against all cores sharing out every operator.

    python benchmarks/streams.py MODELS [--networks mobilenet_v2:16 resnet50:2] [--rounds 12]

MODELS: where `zoo.py --models` keeps the networks. Both predictors are in one process and take turns; medians of
milliseconds, with the smallest in brackets, and the largest difference of any output relative to their scale.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import jax
import numpy as np

import lowering
from benchmarks.contenders import in_process, medians, options_of, print_table, take_turns
from lowering.xla.cpu_streams import SWITCH

NETWORKS = ("resnet50:16", "mobilenet:16", "mobilenet_v2:16", "mobilenet_v2:2", "densenet121:16", "squeezenet:4")


def measure(prefix: Path, batch: int, rounds: int) -> list[str]:
    """A row of the table."""
    size = 299 if prefix.name.startswith("inception") else 224
    data = jax.numpy.asarray(np.random.default_rng(0).standard_normal((batch, 3, size, size)), np.float32)
    outputs, predictors = {}, {}
    for name, switch in (("streams", "1"), ("shared", "0")):
        os.environ[SWITCH] = switch
        predictors[name] = lowering.Predictor.load(prefix, 0)
        outputs[name] = np.asarray(predictors[name](data=data)[0])
    ways = {name: in_process(lambda p=p: jax.block_until_ready(p(data=data))) for name, p in predictors.items()}
    times = take_turns(ways, rounds)
    ms = medians(times)
    difference = np.abs(outputs["streams"] - outputs["shared"]).max() / np.abs(outputs["shared"]).max()
    cells = [f"{ms[name]:.2f} ({min(times[name]):.2f})" for name in ("streams", "shared")]
    return [f"{prefix.name}:{batch}", *cells, f"{ms['streams'] / ms['shared']:.2f}", f"{difference:.0e}"]


def main() -> None:
    """Print the table."""
    parser = options_of(__doc__, 12)
    parser.add_argument("models", type=Path)
    parser.add_argument("--networks", nargs="+", default=NETWORKS, metavar="NAME:BATCH")
    given = parser.parse_args()
    named = (network.partition(":") for network in given.networks)
    rows = (measure(given.models / name, int(batch), given.rounds) for name, _, batch in named)
    print_table(["network", "streams ms", "shared ms", "ratio", "difference"], rows)


if __name__ == "__main__":
    lowering.keep_memory()
    main()
