"""Memory and time of every mirror policy, from XLA's memory analysis and side by side.

    python benchmarks/mirroring.py [--rounds 7] [--only mlp resnet transformer]

Each row: the bytes of temporaries of one executable (forward, backward), against those without mirroring, and the
median of the rounds' ratios of step times.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import lowering
from benchmarks.contenders import in_process, medians, options_of, print_table, ratio, take_turns
from symjax_nnvm import symbol as sym
from symjax_nnvm.passes.mirror import Mirror

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


def transformer(layers: int = 12, width: int = 128, heads: int = 4) -> sym.Symbol:
    """12 pre-norm transformer blocks with dropout, data (n, t, d)."""

    def dense(h: sym.Symbol, size: int) -> sym.Symbol:
        return sym.FullyConnected(h, num_hidden=size, flatten=False)

    def split_heads(h: sym.Symbol) -> sym.Symbol:
        """(n, t, d) → (n · heads, t, d / heads)."""
        parts = sym.transpose(sym.reshape(h, shape=(0, 0, heads, -1)), axes=(0, 2, 1, 3))
        return sym.reshape(parts, shape=(-3, 0, 0))

    h = sym.Variable("data")
    for _ in range(layers):
        normal = sym.LayerNorm(h)
        query, key, value = (split_heads(dense(normal, width)) for _ in range(3))
        weights = sym.softmax(sym.batch_dot(query, key, transpose_b=True) * (width / heads) ** -0.5)
        mixed = sym.batch_dot(sym.Dropout(weights, p=0.1), value)
        mixed = sym.transpose(sym.reshape(mixed, shape=(-4, -1, heads, 0, 0)), axes=(0, 2, 1, 3))
        h = h + dense(sym.reshape(mixed, shape=(0, 0, -3)), width)
        wide = sym.Dropout(sym.LeakyReLU(dense(sym.LayerNorm(h), 4 * width), act_type="gelu"), p=0.1)
        h = h + dense(wide, width)
    return sym.MakeLoss(sym.mean(h * h))


NETWORKS: dict[str, tuple[Callable[[], sym.Symbol], tuple[int, ...]]] = {
    "mlp": (mlp, (4096, 512)),
    "resnet": (resnet, (64, 3, 32, 32)),
    "transformer": (transformer, (8, 128, 128)),
}


def step(net: sym.Symbol, shape: tuple[int, ...], mirror: Mirror) -> tuple[Callable[[], Any], int]:
    """(run one step, bytes of temporaries)."""
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


def rows(names: list[str], rounds: int) -> Iterator[list[str]]:
    """A line for each policy of each network."""
    for name in names:
        build, shape = NETWORKS[name]
        net = build()
        steps = {policy: step(net, shape, policy) for policy in POLICIES}
        times = take_turns({policy: in_process(call) for policy, (call, _) in steps.items()}, rounds)
        ms = medians(times)
        for policy, (_, size) in steps.items():
            share, slower = size / steps["off"][1], ratio(times, policy, "off")
            yield [name, policy, f"{size / 1e6:.1f}", f"{share:.2f}", f"{ms[policy]:.1f}", f"{slower:.2f}"]


def main() -> None:
    """Print the table."""
    parser = options_of(__doc__, 7)
    parser.add_argument("--only", nargs="*", choices=NETWORKS, default=list(NETWORKS))
    options = parser.parse_args()
    columns = ["network", "policy", "temporaries MB", "share", "ms", "time ratio"]
    print_table(columns, rows(options.only, options.rounds), left=2)


if __name__ == "__main__":
    lowering.keep_memory()
    main()
