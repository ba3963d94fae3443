"""What each stage of the pipeline gains by itself: a network's time with all of them, and without one after the other.

    python benchmarks/passes.py PREFIX [PREFIX …] [--epoch 0] [--shape 1 3 224 224] [--rounds 15]

Each variant is a `Predictor` of its own in one process; in each round all have their turn. Prints medians in
milliseconds and their ratio to that with every stage, and the seconds until the first output.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import jax
import numpy as np

import lowering
import symjax_nnvm
from symjax_nnvm import pipeline
from symjax_nnvm.tables import table_text

VARIANTS: dict[str, tuple[str, ...]] = {
    "every stage": (),
    "without SimplifyInference": ("SimplifyInference",),
    "without FoldScaleAxis": ("FoldScaleAxis",),
    "without AlterOpLayout": ("AlterOpLayout",),
    "without FuseConvolution": ("FuseConvolution",),
    "without TransformWeights": ("TransformWeights",),
    "without PrecomputePrune": ("PrecomputePrune",),
    "none of them": tuple(name for name in pipeline.optional_stages() if name != "EliminateCommonExpr"),
}


def predictors(prefix: str, epoch: int, x: jax.Array) -> dict[str, tuple[Any, float]]:
    """A predictor for each variant, and how long its first output took."""
    found = {}
    for name, left_out in VARIANTS.items():
        net, args, aux = symjax_nnvm.load_checkpoint(prefix, epoch)
        start = time.perf_counter()
        with pipeline.without(*left_out):
            predict = lowering.Predictor(net, args, aux)
            jax.block_until_ready(predict(data=x))
        found[name] = predict, time.perf_counter() - start
    return found


def main() -> None:
    """Measure and print a table for each network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefixes", nargs="+", metavar="PREFIX")
    parser.add_argument("--epoch", type=int, default=0)
    parser.add_argument("--shape", nargs="+", type=int, default=(1, 3, 224, 224))
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    x = jax.device_put(np.random.default_rng(0).standard_normal(options.shape, np.float32))
    for prefix in options.prefixes:
        found = predictors(prefix, options.epoch, x)
        times: dict[str, list[float]] = {name: [] for name in found}
        for _ in range(options.rounds):
            for name, (predict, _) in found.items():
                for timed in (False, True, True):  # the first call finds its weights in no cache
                    start = time.perf_counter()
                    jax.block_until_ready(predict(data=x))
                    times[name] += [time.perf_counter() - start] * timed
        whole = median(times["every stage"])
        rows = [
            (name, f"{median(times[name]) * 1e3:.1f}", f"{median(times[name]) / whole:.2f}", f"{first:.2f}")
            for name, (_, first) in found.items()
        ]
        print(f"{Path(prefix).name} {tuple(options.shape)}")
        print(table_text(("stages", "ms", "ratio", "first output, s"), rows), flush=True)


if __name__ == "__main__":
    lowering.keep_memory()
    main()
