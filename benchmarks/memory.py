"""Memory and time of what is large: graphs of a million nodes, steps with and without mirroring.

    python benchmarks/memory.py graphs [--largest 1000000] [--repeat 3]
    python benchmarks/memory.py mirroring [--rounds 7] [--only mlp resnet transformer]

graphs: two of them, a chain of `relu`, and a residual DAG (`x + relu(x)`). Each measurement runs in a process of its
own; times are medians over the repeats, in µs a node. `flat` is the cost at the largest size over that at 10,000 nodes.

mirroring: each row has the bytes of temporaries of one executable (forward, backward), against those without mirroring,
and the median of the rounds' ratios of step times.
"""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.contenders import fresh, in_process, medians, print_table, ratio, run, take_turns
from benchmarks.networks import blocks
from symjax_nnvm import symbol as sym
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.pass_registry import apply_pass
from symjax_nnvm.passes.mirror import Mirror

# -- graphs ------------------------------------------------------------------------------------------------------------

SIZES = (1_000, 10_000, 100_000, 1_000_000)
OPERATIONS = ("build", "copy", "index", "infer", "gradient", "save", "load")


def chain(n: int) -> sym.Symbol:
    """A chain of n relu nodes."""
    x, relu = sym.Variable("x"), sym.relu
    for _ in range(n):
        x = relu(x)
    return x


def residual(n: int) -> sym.Symbol:
    """A residual DAG of n nodes."""
    x, relu, add = sym.Variable("x"), sym.relu, sym.elemwise_add
    for _ in range(n // 2):
        x = add(x, relu(x))
    return x


GRAPHS: dict[str, Callable[[int], sym.Symbol]] = {"chain": chain, "residual": residual}


def timed(function: Callable[[], object]) -> tuple[float, object]:
    """(seconds, result) of a call."""
    started = time.perf_counter()
    result = function()
    return time.perf_counter() - started, result


def one_graph(kind: str, n: int) -> dict[str, float]:
    """Seconds per operation, and bytes per node of building and at the peak."""
    seconds: dict[str, float] = {}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds["build"], symbol = timed(lambda: GRAPHS[kind](n))
    assert isinstance(symbol, sym.Symbol)
    built = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds["copy"], _ = timed(symbol.copy)
    seconds["index"], _ = timed(Graph(symbol.outputs).indexed_graph)
    seconds["infer"], shapes = timed(lambda: symbol.infer_shape(x=(2, 3)))
    assert isinstance(shapes, tuple)
    assert shapes[1] == [(2, 3)]
    seconds["gradient"], _ = timed(lambda: symbol.gradient("x"))
    seconds["save"], text = timed(symbol.tojson)
    assert isinstance(text, str)
    seconds["load"], loaded = timed(lambda: sym.load_json(text))
    assert isinstance(loaded, sym.Symbol)
    assert loaded.list_outputs() == symbol.list_outputs()
    assert apply_pass(Graph(loaded.outputs), "SaveJSON").attrs["json"].count('"op"') == n + 1
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return seconds | {"bytes_built": (built - before) * 1024 / n, "bytes_peak": (peak - before) * 1024 / n}


def graphs(largest: int = SIZES[-1], repeat: int = 3) -> None:
    """Print time and memory per node of every graph operation, from 1,000 nodes on."""
    sizes = [n for n in SIZES if n <= largest]
    for kind in GRAPHS:
        runs = {n: [fresh(one_graph, kind, n) for _ in range(repeat)] for n in sizes}
        median = {n: {key: statistics.median(r[key] for r in runs[n]) for key in runs[n][0]} for n in sizes}
        rows = []
        for n in sizes:
            sides = (f"{median[n][key]:.0f}" for key in ("bytes_built", "bytes_peak"))
            rows.append([f"{n:,}", *(f"{median[n][op] / n * 1e6:.2f}" for op in OPERATIONS), *sides])
        if 10_000 in sizes:
            last = sizes[-1]
            flat = [median[last][op] / last / (median[10_000][op] / 10_000) for op in OPERATIONS]
            rows.append(["flat", *(f"{ratio:.2f}×" for ratio in flat), "", ""])
        print_table([f"{kind}, µs a node", *OPERATIONS, "B/node built", "B/node peak"], rows)


# -- mirroring ---------------------------------------------------------------------------------------------------------

POLICIES = ("off", "do_mirror", "blocks")


def mlp(layers: int = 48, width: int = 512) -> sym.Symbol:
    """48 dense layers of one width."""
    h = sym.Variable("data")
    for i in range(layers):
        h = sym.tanh(sym.FullyConnected(h, num_hidden=width, name=f"fc{i}"))
    return sym.MakeLoss(sym.mean(h * h))


def resnet(filters: int = 16) -> sym.Symbol:
    """ResNet-20 for images of 32×32 (He et al. 2016)."""

    def unit(h: sym.Symbol, width: int, stride: int = 1) -> sym.Symbol:
        h = sym.Convolution(h, num_filter=width, kernel=(3, 3), stride=(stride, stride), pad=(1, 1), no_bias=True)
        return sym.BatchNorm(h, fix_gamma=False)

    h = sym.relu(unit(sym.Variable("data"), filters))
    for stage in range(3):
        for block in range(3):
            stride = 2 if stage and not block else 1
            width = filters * 2**stage
            short = (
                h if stride == 1 else sym.Convolution(h, num_filter=width, kernel=(1, 1), stride=(2, 2), no_bias=True)
            )
            h = sym.relu(unit(sym.relu(unit(h, width, stride)), width) + short)
    h = sym.Flatten(sym.Pooling(h, global_pool=True, pool_type="avg"))
    return sym.SoftmaxOutput(sym.FullyConnected(h, num_hidden=10), sym.Variable("label"))


def transformer() -> sym.Symbol:
    """12 pre-norm transformer blocks with dropout, data (n, t, d)."""
    h = blocks(sym, 12, 128, 4, pre_norm=True, dropout=0.1)
    return sym.MakeLoss(sym.mean(h * h))


NETWORKS: dict[str, tuple[Callable[[], sym.Symbol], tuple[int, ...]]] = {
    "mlp": (mlp, (4096, 512)),
    "resnet": (resnet, (64, 3, 32, 32)),
    "transformer": (transformer, (8, 128, 128)),
}


def _step(net: sym.Symbol, shape: tuple[int, ...], mirror: Mirror) -> tuple[Callable[[], Any], int]:
    """(run one step, bytes of temporaries)."""
    import jax

    import lowering

    rng = np.random.default_rng(0)
    arg_shapes, _, aux_shapes = net.infer_shape(data=shape)
    args = {
        name: jax.device_put(rng.normal(scale=sizes[-1] ** -0.5, size=sizes).astype(np.float32))
        for name, sizes in zip(net.list_arguments(), arg_shapes, strict=True)
    }
    if "label" in args:
        args["label"] = jax.device_put((np.arange(shape[0]) % 10).astype(np.float32))
    aux = {name: np.ones(s, np.float32) for name, s in zip(net.list_auxiliary_states(), aux_shapes, strict=True)}
    wrt = [name for name in args if name not in ("data", "label")]
    everything = (args, aux, jax.random.key(0))
    compiled = jax.jit(lowering.grad_fn(net, wrt, mirror=mirror)).lower(*everything).compile()
    analysis = compiled.memory_analysis()
    if analysis is None:
        sys.exit(f"XLA has no memory analysis on {jax.default_backend()}.")
    return lambda: jax.block_until_ready(compiled(*everything)), analysis.temp_size_in_bytes


def mirroring(rounds: int = 7, only: tuple[str, ...] = tuple(NETWORKS)) -> None:
    """Print memory and time of every mirror policy."""
    import lowering

    lowering.keep_memory()

    def rows() -> Iterator[list[str]]:
        for name in only:
            build, shape = NETWORKS[name]
            net = build()
            steps = {policy: _step(net, shape, policy) for policy in POLICIES}
            times = take_turns({policy: in_process(call) for policy, (call, _) in steps.items()}, rounds)
            ms = medians(times)
            for policy, (_, size) in steps.items():
                share, slower = size / steps["off"][1], ratio(times, policy, "off")
                yield [name, policy, f"{size / 1e6:.1f}", f"{share:.2f}", f"{ms[policy]:.1f}", f"{slower:.2f}"]

    print_table(["network", "policy", "temporaries MB", "share", "ms", "time ratio"], rows(), left=2)


if __name__ == "__main__":
    run(__doc__, graphs, mirroring)
