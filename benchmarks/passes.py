"""What each stage of the pipeline gains by itself: a network's time with all of them, and without one after the other.

    python benchmarks/passes.py PREFIX [PREFIX …] [--epoch 0] [--shape 1 3 224 224] [--rounds 15]

Each variant is a `Predictor` of its own in one process; all take turns. Prints medians in milliseconds and their ratio
to that with every stage, and the seconds until the first output.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import jax
import numpy as np

import lowering
import symjax_nnvm
from benchmarks.contenders import in_process, medians, options_of, print_table, take_turns
from symjax_nnvm import pipeline

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
    parser = options_of(__doc__, 15)
    parser.add_argument("prefixes", nargs="+", metavar="PREFIX")
    parser.add_argument("--epoch", type=int, default=0)
    parser.add_argument("--shape", nargs="+", type=int, default=(1, 3, 224, 224))
    options = parser.parse_args()
    x = jax.device_put(np.random.default_rng(0).standard_normal(options.shape, np.float32))
    for prefix in options.prefixes:
        made = predictors(prefix, options.epoch, x)
        ways = {name: in_process(lambda p=p: jax.block_until_ready(p(data=x))) for name, (p, _) in made.items()}
        ms = medians(take_turns(ways, options.rounds))
        rows = [
            [name, f"{ms[name]:.1f}", f"{ms[name] / ms['every stage']:.2f}", f"{first:.2f}"]
            for name, (_, first) in made.items()
        ]
        print_table([f"{Path(prefix).name} {tuple(options.shape)}", "ms", "ratio", "first output, s"], rows)


if __name__ == "__main__":
    lowering.keep_memory()
    main()
