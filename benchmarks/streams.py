"""A batch in streams, each core computing samples of its own, against all cores sharing out every operator.

    python benchmarks/streams.py MODELS [--networks mobilenet_v2:16 resnet50:2] [--rounds 12]

MODELS: where `zoo.py --models` keeps the networks. Both predictors are in one process and have their turns; medians of
milliseconds, with the smallest in brackets, and the largest difference of any output relative to their scale.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import jax
import numpy as np

import lowering
from lowering.xla.cpu_streams import SWITCH

NETWORKS = ("resnet50:16", "mobilenet:16", "mobilenet_v2:16", "mobilenet_v2:2", "densenet121:16", "squeezenet:4")


def measure(prefix: Path, batch: int, rounds: int) -> str:
    """A row of the table."""
    size = 299 if prefix.name.startswith("inception") else 224
    data = jax.numpy.asarray(np.random.default_rng(0).standard_normal((batch, 3, size, size)), np.float32)
    outputs, predictors = {}, {}
    for name, switch in (("streams", "1"), ("shared", "0")):
        os.environ[SWITCH] = switch
        predictors[name] = lowering.Predictor.load(prefix, 0)
        outputs[name] = np.asarray(predictors[name](data=data)[0])
    times: dict[str, list[float]] = {name: [] for name in predictors}
    for _ in range(rounds):
        for name, predict in predictors.items():
            jax.block_until_ready(predict(data=data))
            for _ in range(3):
                start = time.perf_counter()
                jax.block_until_ready(predict(data=data))
                times[name].append(1e3 * (time.perf_counter() - start))
    found = {name: (statistics.median(each), min(each)) for name, each in times.items()}
    ratio = found["streams"][0] / found["shared"][0]
    difference = np.abs(outputs["streams"] - outputs["shared"]).max() / np.abs(outputs["shared"]).max()
    cells = (f"{median:8.2f} ({least:7.2f})" for median, least in found.values())
    return f"{prefix.name + ':' + str(batch):18} {'  '.join(cells)}  {ratio:5.2f}  {difference:.0e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("models", type=Path)
    parser.add_argument("--networks", nargs="+", default=NETWORKS, metavar="NAME:BATCH")
    parser.add_argument("--rounds", type=int, default=12)
    given = parser.parse_args()
    print(f"{'network':18} {'streams ms':>18}  {'shared ms':>18}  ratio  difference")
    for network in given.networks:
        name, _, batch = network.partition(":")
        print(measure(given.models / name, int(batch), given.rounds), flush=True)


if __name__ == "__main__":
    lowering.keep_memory()
    main()
