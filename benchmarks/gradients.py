"""Our gradients against `jax.vjp` of the same lowered forward function, and against MXNet 1.9.1 on the same machine.

    python benchmarks/gradients.py [--rounds 15] [--only NAME …] [--mxnet PYTHON]

Each row is one operator at a realistic size: milliseconds of forward and backward together, jitted with this library's
compile options (`lowering/xla/options.py`). All take turns; a ratio is the median of the rounds' ratios. --mxnet: the
Python of an environment with MXNet 1.9.1, which runs the same cases with all cores, in a process of its own.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.contenders import (
    Contender,
    Failed,
    Loaded,
    in_process,
    medians,
    options_of,
    print_table,
    ratio,
    serve,
    take_turns,
)
from benchmarks.gradient_cases import CASES, GradientCase


def calls(case: GradientCase) -> dict[str, Callable[[], Any]]:
    """Ours and `jax.vjp`, both from the same arrays to outputs and gradients."""
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
    ours_call, vjp_call = (lambda run=run: jax.block_until_ready(run(*everything)) for run in jitted)
    return {"ours": ours_call, "jax.vjp": vjp_call}


def load_in_mxnet(name: str) -> Loaded:
    """A case in MXNet's executor."""
    import mxnet as mx  # type: ignore[import-not-found]

    (case,) = (case for case in CASES if case.name == name)
    symbol = case.build(mx.sym)
    states = set(symbol.list_auxiliary_states())
    arrays = {key: mx.nd.array(value) for key, value in case.values().items()}
    args = {key: value for key, value in arrays.items() if key not in states}
    grads = {key: mx.nd.zeros(args[key].shape) for key in case.wrt}
    requests = {key: "write" if key in grads else "null" for key in args}
    aux = {key: arrays[key] for key in states}
    executor = symbol.bind(mx.cpu(), args, args_grad=grads, grad_req=requests, aux_states=aux)
    heads = [mx.nd.array(case.head(output.shape)) for output in executor.forward(is_train=True)]

    def call() -> None:
        executor.forward(is_train=True)
        executor.backward(heads)
        mx.nd.waitall()

    return Loaded(call)


def rows(cases: list[GradientCase], rounds: int, mxnet: str | None, ratios: list[float]) -> Iterator[list[str]]:
    """A line of the table for each case; ratios to `jax.vjp` are added to a list."""
    for case in cases:
        with ExitStack() as stack:
            ways: dict[str, Any] = {name: in_process(call) for name, call in calls(case).items()}
            if mxnet:
                theirs = stack.enter_context(Contender([mxnet, __file__, "--serve"]))
                try:
                    theirs.load(name=case.name)
                    ways["MXNet"] = theirs.time
                except Failed as failure:
                    print(f"MXNet cannot run {case.name}: {failure}", file=sys.stderr)
            times = take_turns(ways, rounds)
        ms = medians(times)
        ratios.append(ratio(times, "ours", "jax.vjp"))
        other = [f"{ms['MXNet']:.2f}", f"{ratio(times, 'ours', 'MXNet'):.2f}"] if "MXNet" in ms else ["-", "-"]
        yield [case.name, f"{ms['ours']:.2f}", f"{ms['jax.vjp']:.2f}", f"{ratios[-1]:.2f}", *other]


def main() -> None:
    """Print the table; with --serve, be MXNet's side of it."""
    parser = options_of(__doc__, 15)
    parser.add_argument("--only", nargs="*", help="names of cases")
    parser.add_argument("--mxnet", metavar="PYTHON", help="of an environment with MXNet 1.9.1")
    parser.add_argument("--serve", action="store_true", help="be MXNet's process")
    options = parser.parse_args()
    if options.serve:
        return serve(load_in_mxnet)
    unknown = set(options.only or ()) - {case.name for case in CASES}
    if unknown:
        parser.error(f"no case {sorted(unknown)}; there are {[case.name for case in CASES]}")
    cases = [case for case in CASES if not options.only or case.name in options.only]
    columns = ["case", "ours ms", "vjp ms", "ours/vjp", "MXNet ms", "ours/MXNet"]
    ratios: list[float] = []
    print_table(columns, rows(cases, options.rounds, options.mxnet, ratios), ("mxnet", options.mxnet))
    print(f"worst ours/vjp: {max(ratios):.2f}; geometric mean {math.exp(statistics.fmean(map(math.log, ratios))):.2f}")


if __name__ == "__main__":
    main()
