"""The time from a fresh process to a network's first outputs: at the first start, and where it was saved.

    python benchmarks/first_prediction.py PREFIX [--epoch 0] [--shape 1 3 224 224]

Each line is a process of its own, in seconds of wall clock and, in brackets, of processor time of all threads:

* from files: the checkpoint is read, folded, traced and compiled;
* saved, compiled anew: what `Predictor.save` wrote is read, and XLA compiles it;
* saved, and kept: JAX's compilation cache has it too.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.contenders import fresh, print_table


def child(source: str, epoch: str, shape: tuple[int, ...], save: str) -> None:
    """One start: its times by phase, as JSON. epoch: "" for a folder; save: a folder to write, or ""."""
    times: dict[str, tuple[float, float]] = {}
    clocks = [time.perf_counter(), time.process_time()]

    def done(phase: str) -> None:
        now = [time.perf_counter(), time.process_time()]
        times[phase] = (now[0] - clocks[0], now[1] - clocks[1])
        clocks[:] = now

    import jax

    done("import jax")
    import lowering

    lowering.keep_memory()
    done("import lowering")
    import numpy as np

    predict = lowering.Predictor.load(source, int(epoch)) if epoch else lowering.Predictor.load(source)
    done("load")
    predict.warm(data=shape)
    done("warm")
    jax.block_until_ready(predict(data=np.zeros(shape, "float32")))
    done("predict")
    if save:
        predict.save(save)
    print(json.dumps(times))


def start(source: str, epoch: str, shape: list[int], *, save: str = "", cache: str = "") -> dict[str, list[float]]:
    """The times of a fresh process; cache: JAX's folder of what it compiled."""
    settings = {"JAX_COMPILATION_CACHE_DIR": cache, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"} if cache else {}
    return fresh(__file__, source, "--epoch", epoch, "--child", save, "--shape", *shape, environment=settings)


def main() -> None:
    """Run the three starts, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefix")
    parser.add_argument("--epoch", default="0")
    parser.add_argument("--shape", type=int, nargs="+", default=[1, 3, 224, 224])
    parser.add_argument("--child", metavar="FOLDER", help="be one start, which saves into a folder")
    options = parser.parse_args()
    if options.child is not None:
        child(options.prefix, options.epoch, tuple(options.shape), options.child)
        return
    with tempfile.TemporaryDirectory() as folder:
        saved, cache = f"{folder}/saved", f"{folder}/cache"
        rows = {"from files": start(options.prefix, options.epoch, options.shape, save=saved)}
        rows["saved, compiled anew"] = start(saved, "", options.shape, cache=cache)
        rows["saved, and kept"] = start(saved, "", options.shape, cache=cache)
    lines = []
    for name, times in rows.items():
        sums = [sum(each) for each in zip(*times.values(), strict=True)]
        lines.append([name, *(f"{wall:.2f} ({cpu:.2f})" for wall, cpu in (*times.values(), sums))])
    print_table(["start", *rows["from files"], "sum"], lines)


if __name__ == "__main__":
    main()
