"""Networks that are printed: `python -m tests.lowering.source.networks FOLDER` writes them, for a type checker."""

import sys
from pathlib import Path
from typing import Any

import lowering
import symjax_nnvm as nn
from lowering import mx
from symjax_nnvm import symbol as sym


def lenet() -> nn.symbol.Symbol:
    x = sym.Variable("data")
    for i, count in enumerate((4, 6), start=1):
        x = sym.Convolution(x, kernel=(3, 3), num_filter=count, name=f"conv{i}")
        x = sym.Activation(x, act_type="relu", name=f"relu{i}")
        x = sym.Pooling(x, pool_type="max", kernel=(2, 2), stride=(2, 2), name=f"pool{i}")
    x = sym.FullyConnected(sym.Flatten(x), num_hidden=5, name="fc")
    return sym.SoftmaxOutput(x, name="softmax")


def residual(units: int) -> nn.symbol.Symbol:
    """Convolutions with BatchNorm in equal blocks, as in a residual network, and dropout."""
    x = sym.Variable("data")
    for i in range(units):
        y = x
        for part in ("a", "b"):
            y = sym.Convolution(y, kernel=(3, 3), pad=(1, 1), num_filter=3, no_bias=True, name=f"unit{i}_conv_{part}")
            y = sym.BatchNorm(y, fix_gamma=False, name=f"unit{i}_norm_{part}")
            y = sym.Activation(y, act_type="relu", name=f"unit{i}_relu_{part}")
        x = x + y
    return sym.Dropout(x, p=0.3, name="drop")


def branches(units: int) -> nn.symbol.Symbol:
    """Units of two branches of convolutions, equal but for windows, names and numbers, as in an Inception network."""
    x = sym.Variable("data")

    def step(x: nn.symbol.Symbol, name: str, number: int, size: int) -> nn.symbol.Symbol:
        half = size // 2
        x = sym.Convolution(x, kernel=(size, size), pad=(half, half), num_filter=3, name=f"{name}_conv{number}")
        return sym.Activation(sym.InstanceNorm(x, name=f"{name}_norm{number}"), act_type="relu")

    for i in range(units):
        left = step(step(x, f"unit_{'abcd'[i]}", 0, 1), f"unit_{'abcd'[i]}", 1, 3)
        x = sym.concat(left, step(x, f"unit_{'abcd'[i]}", 2, 1), dim=1)
    return step(x, "last", 7, 1)


def unrolled(cell: str, steps: int, **options: Any) -> nn.symbol.Symbol:
    """A recurrent network of two layers as BucketingModule has it: every step is a node of its own."""
    stack = mx.rnn.SequentialRNNCell()
    for i in range(2):
        stack.add(getattr(mx.rnn, cell)(4, prefix=f"layer{i}_", **options))
    return with_head(stack, steps, 4)


def bidirectional(steps: int) -> nn.symbol.Symbol:
    """A recurrent network of two layers that each read the steps forwards and backwards."""
    stack = mx.rnn.SequentialRNNCell()
    for i in range(2):
        stack.add(mx.rnn.BidirectionalCell(mx.rnn.LSTMCell(4, prefix=f"l{i}_"), mx.rnn.LSTMCell(4, prefix=f"r{i}_")))
    return with_head(stack, steps, 8)


def with_head(stack: Any, steps: int, size: int) -> nn.symbol.Symbol:
    embedded = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=9, output_dim=3, name="embed")
    outputs, _ = stack.unroll(steps, embedded, merge_outputs=True)
    scores = mx.sym.FullyConnected(mx.sym.Reshape(outputs, shape=(-1, size)), num_hidden=9, name="pred")
    return mx.sym.SoftmaxOutput(scores, mx.sym.Reshape(mx.sym.Variable("softmax_label"), shape=(-1,)), name="softmax")


def main(folder: Path) -> None:
    """Write the modules of the networks into a folder."""
    picture, label = ("batch", 1, 10, 10), ("batch",)
    networks = {
        "lenet": (lenet(), {"data": picture, "softmax_label": label}),
        "residual": (residual(4), {"data": ("batch", 3, 6, 6)}),
        "unrolled": (unrolled("LSTMCell", 7), {"data": ("batch", 7), "softmax_label": ("batch", 7)}),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, (net, shapes) in networks.items():
        (folder / f"{name}.py").write_text(lowering.to_source(net, shapes=shapes))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
