"""Our gradients against `jax.vjp` of the same lowered forward function, and against MXNet 1.9.1 on the same machine.

    python benchmarks/gradients.py [--rounds 15] [--only NAME …] [--mxnet PYTHON]

Each row is one operator at a realistic size: milliseconds of forward and backward together, jitted with this library's
compile options (`lowering/xla/options.py`), and the ratio, the median over rounds in which both run, in alternating
order, in one process. --mxnet: the Python of an environment with
MXNet 1.9.1; it then runs the same cases with all cores, in a process of its own, one after the other with ours.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.cores import who, with_all_cores
from benchmarks.gradient_cases import CASES, GradientCase


def alternating(first: Callable[[], Any], second: Callable[[], Any], rounds: int) -> tuple[float, float, float]:
    """(median ms of the first, of the second, median of the rounds' ratios)."""

    def once(function: Callable[[], Any]) -> float:
        start = time.perf_counter()
        function()
        return (time.perf_counter() - start) * 1e3

    for function in (first, second):  # compile
        once(function)
    pairs = []
    for i in range(rounds):
        if i % 2:
            theirs, ours = once(second), once(first)
        else:
            ours, theirs = once(first), once(second)
        pairs.append((ours, theirs))
    mine, other = (statistics.median(column) for column in zip(*pairs, strict=True))
    return mine, other, statistics.median(a / b for a, b in pairs)


def measure(case: GradientCase, rounds: int) -> tuple[float, float, float]:
    """Ours against `jax.vjp`, both from the same arrays to outputs and gradients."""
    import jax

    import lowering
    from lowering.xla.options import options_for
    from symjax_nnvm import symbol as sym

    lowering.keep_memory()
    symbol = case.build(sym)
    values = case.values()
    states = set(symbol.list_auxiliary_states())
    args = {name: jax.device_put(value) for name, value in values.items() if name not in states}
    aux = {name: jax.device_put(value) for name, value in values.items() if name in states}
    forward = lowering.to_jax(symbol, is_train=True)
    shapes, _ = jax.eval_shape(forward, args, aux)
    heads = [jax.device_put(case.head(shape.shape)) for shape in shapes]

    chosen = {name: args.pop(name) for name in case.wrt}
    everything = (chosen, args, aux, heads)  # arguments all of them: XLA would compute with constants while compiling

    def by_vjp(chosen: Any, args: Any, aux: Any, heads: Any) -> Any:
        outputs, back = jax.vjp(lambda c: forward({**args, **c}, aux)[0], chosen)
        return outputs, back(heads)

    gradient = lowering.grad_fn(symbol, case.wrt)

    def ours(chosen: Any, args: Any, aux: Any, heads: Any) -> Any:
        return gradient({**args, **chosen}, aux, None, heads)[:2]

    jitted = [jax.jit(each, compiler_options=options_for(jax.default_backend())) for each in (ours, by_vjp)]
    mine, theirs = (lambda run=run: jax.block_until_ready(run(*everything)) for run in jitted)
    return alternating(mine, theirs, rounds)


def of_mxnet(python: str, name: str, rounds: int) -> float | None:
    """MXNet's ms, from its own process; None when it cannot run the case."""
    script = Path(__file__).parent / "gradients_mxnet.py"
    done = subprocess.run(
        [python, str(script), name, str(rounds)], env=with_all_cores(), capture_output=True, text=True
    )
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 and done.stdout else None


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", nargs="*", help="names of cases")
    parser.add_argument("--mxnet", help="Python of an environment with MXNet 1.9.1")
    options = parser.parse_args()
    unknown = set(options.only or ()) - {case.name for case in CASES}
    if unknown:
        parser.error(f"no case {sorted(unknown)}; there are {[case.name for case in CASES]}")
    print(who([("mxnet", options.mxnet), ("jaxlib", sys.executable)]))
    print(f"{'case':28} {'ours ms':>9} {'vjp ms':>9} {'ours/vjp':>9} {'MXNet ms':>9} {'ours/MXNet':>10}")
    ratios = []
    for case in CASES:
        if options.only and case.name not in options.only:
            continue
        ours, vjp, ratio = measure(case, options.rounds)
        ratios.append(ratio)
        theirs = of_mxnet(options.mxnet, case.name, options.rounds) if options.mxnet else None
        shown = f"{theirs:9.2f} {ours / theirs:10.2f}" if theirs else f"{'-':>9} {'-':>10}"
        print(f"{case.name:28} {ours:9.2f} {vjp:9.2f} {ratio:9.2f} {shown}", flush=True)
    print(f"worst ours/vjp: {max(ratios):.2f}; geometric mean {np.exp(np.mean(np.log(ratios))):.2f}")


if __name__ == "__main__":
    main()
