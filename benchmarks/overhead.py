"""What a call costs above the compiled function: a network of 160 small parameters, forward and backward.

    python benchmarks/overhead.py [--rounds 300] [--mxnet PYTHON]

Each way of calling is timed until its results are ready; all take turns. The bare function of the executor is
`jax.jit(lowering.grad_fn(net))`, called with dicts of arrays; that of the trainer, whose step also updates the
parameters, is its own `step_fn`. Besides the medians there are lower deciles, which other processes disturb less; what
a way costs above its bare function is the difference of those. --mxnet: the Python of an environment with MXNet 1.9.1;
its executor then runs the same network in a process of its own.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.contenders import Contender, Loaded, in_process, options_of, print_table, serve, take_turns

LAYERS, WIDTH, BATCH = 80, 8, 4


def build(sym: Any) -> Any:
    """80 dense layers, each a weight and a bias, under a softmax. sym: the module `symbol` of either library."""
    x = sym.Variable("data")
    for i in range(LAYERS):
        x = sym.Activation(sym.FullyConnected(x, num_hidden=WIDTH, name=f"fc{i}"), act_type="tanh", name=f"act{i}")
    return sym.SoftmaxOutput(x, name="softmax")


def values(shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Numbers for every argument."""
    random = np.random.RandomState(0)
    arrays = {name: random.uniform(-0.5, 0.5, shape).astype("float32") for name, shape in shapes.items()}
    arrays["softmax_label"] = np.arange(BATCH, dtype="float32") % WIDTH
    return arrays


def load_in_mxnet() -> Loaded:
    """The network in MXNet's executor."""
    import mxnet as mx  # type: ignore[import-not-found]

    executor = build(mx.sym).simple_bind(mx.cpu(), data=(BATCH, WIDTH))
    shapes = {name: array.shape for name, array in executor.arg_dict.items()}
    executor.copy_params_from({name: mx.nd.array(value) for name, value in values(shapes).items()})

    def call() -> None:
        executor.forward(is_train=True)
        executor.backward()
        mx.nd.waitall()

    return Loaded(call)


def calls() -> dict[str, Callable[[], Any]]:
    """The ways to run one forward and backward, each returning what it computes."""
    import jax

    import lowering
    from symjax_nnvm import symbol as sym

    lowering.keep_memory()
    net = build(sym)
    executor = lowering.simple_bind(net, data=(BATCH, WIDTH))
    arrays = values({name: array.shape for name, array in executor.arg_dict.items() if array is not None})
    executor.copy_params_from(arrays)
    args = {name: jax.device_put(value) for name, value in arrays.items()}
    data = {name: args[name] for name in ("data", "softmax_label")}
    bare = jax.jit(lowering.grad_fn(net, list(args)))

    def two_calls() -> Any:
        executor.forward(is_train=True, **data)
        executor.backward()
        return executor.grad_dict["fc0_weight"]

    def one_call() -> Any:
        executor.forward_backward(**data)
        return executor.grad_dict["fc0_weight"]

    ways: dict[str, Callable[[], Any]] = {
        "bare jitted function": lambda: bare(args),
        "Executor.forward + backward": two_calls,
        "Executor.forward_backward": one_call,
    }
    return ways | _training_steps(net, arrays)


def _training_steps(net: Any, arrays: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    """The trainer's step, bare and as a method. It does more than the others: the optimiser's update is part of it."""
    import jax

    import lowering

    trainer = lowering.Trainer(net, "sgd", {"learning_rate": 0.01})
    names = ("data", "softmax_label")
    trainer.init(
        0,
        args={name: value for name, value in arrays.items() if name not in names},
        **{name: arrays[name].shape for name in names},
    )
    batch = {name: jax.device_put(arrays[name]) for name in names}

    bare_state = jax.tree.map(jax.numpy.copy, trainer.require_state())

    def bare() -> Any:
        nonlocal bare_state
        bare_state, _ = trainer.step_fn(bare_state, batch)
        return bare_state.params

    def step() -> Any:
        trainer.step(batch)
        return trainer.require_state().params

    return {"bare step function": bare, "Trainer.step": step}


def main() -> None:
    """Print the table; with --serve, be MXNet's side of it."""
    parser = options_of(__doc__, 300)
    parser.add_argument("--mxnet", metavar="PYTHON", help="of an environment with MXNet 1.9.1")
    parser.add_argument("--serve", action="store_true", help="be MXNet's process")
    options = parser.parse_args()
    if options.serve:
        return serve(load_in_mxnet)
    import jax

    ways: dict[str, Any] = {
        name: in_process(lambda call=call: jax.block_until_ready(call())) for name, call in calls().items()
    }
    with ExitStack() as stack:
        if options.mxnet:
            theirs = stack.enter_context(Contender([options.mxnet, __file__, "--serve"]))
            theirs.load()
            ways["MXNet 1.9.1, forward + backward"] = theirs.time
        times = take_turns(ways, options.rounds, seconds=0.0)
    deciles = {name: statistics.quantiles(taken, n=10)[0] * 1e3 for name, taken in times.items()}
    rows = []
    for name, taken in times.items():
        bare = deciles["bare step function" if "step" in name else "bare jitted function"]
        rows.append(
            [name, f"{statistics.median(taken) * 1e3:.0f}", f"{deciles[name]:.0f}", f"{deciles[name] - bare:.0f}"]
        )
    columns = ["160 parameters, forward and backward", "median µs", "decile µs", "above bare"]
    print_table(columns, rows, ("mxnet", options.mxnet))


if __name__ == "__main__":
    main()
