"""Memory and time of every mirror policy, from XLA's memory analysis and side by side.

    python benchmarks/mirroring.py [--rounds 7] [--only mlp resnet transformer]

Each row: the bytes of temporaries of one executable (forward, backward), against those without mirroring, and the
median ratio of step times, taken in alternating order in one process.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import lowering
from benchmarks.gradients import alternating
from symjax_nnvm import symbol as sym
from symjax_nnvm.passes.mirror import Mirror

POLICIES: tuple[Mirror, ...] = ("do_mirror", "blocks")


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


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", nargs="*", choices=NETWORKS, default=list(NETWORKS))
    options = parser.parse_args()
    print(f"{'network':12} {'policy':10} {'temporaries MB':>14} {'share':>6} {'ms':>8} {'time ratio':>10}")
    for name in options.only:
        build, shape = NETWORKS[name]
        net = build()
        stored, bytes_stored = step(net, shape, "off")
        print(f"{name:12} {'off':10} {bytes_stored / 1e6:14.1f} {1:6.2f} {'':8} {1:10.2f}", flush=True)
        for policy in POLICIES:
            mirrored, bytes_mirrored = step(net, shape, policy)
            ms, _, ratio = alternating(mirrored, stored, options.rounds)
            share = bytes_mirrored / bytes_stored
            print(
                f"{name:12} {policy:10} {bytes_mirrored / 1e6:14.1f} {share:6.2f} {ms:8.1f} {ratio:10.2f}", flush=True
            )


if __name__ == "__main__":
    lowering.keep_memory()
    main()
