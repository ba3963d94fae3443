"""Processor time of work whose shapes change in each call, in milliseconds a call: `python benchmarks/new_shapes.py`,
and `mxnet-env/bin/python benchmarks/new_shapes.py` for MXNet's.

The first two calls, which make what does not depend on shapes, are left out. `again`: the same shapes once more.
"""

from __future__ import annotations

import time

import numpy as np

try:
    from lowering import mx
except ImportError:
    import mxnet as mx  # type: ignore[import-not-found]

nd = mx.nd
ROWS = nd.ones((200, 10))


def three_operators(n):
    (nd.ones((n, 10)) * 2 + 1).sum(axis=0).asnumpy()


def slices(n):
    ROWS[: n + 1].sum().asnumpy()


def masks(n):
    nd.contrib.boolean_mask(ROWS, nd.array((np.arange(200) < n).astype("f"))).asnumpy()


def hybridised_block():
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(32, activation="relu"), mx.gluon.nn.Dense(10))
    net.initialize()
    net.hybridize()
    return lambda n: net(nd.ones((n, 20))).asnumpy()


def recurrent_layer():
    layer = mx.gluon.rnn.LSTM(32)
    layer.initialize()

    def step(n):
        with mx.autograd.record():
            loss = layer(nd.ones((n, 4, 16))).sum()
        loss.backward()
        layer.l0_i2h_weight.grad().asnumpy()

    return step


def unrolled_cell():
    cell = mx.gluon.rnn.LSTMCell(32)
    cell.initialize()

    def step(n):
        with mx.autograd.record():
            outputs, _ = cell.unroll(n, nd.ones((4, n, 16)), merge_outputs=True)
            loss = outputs.sum()
        loss.backward()
        cell.i2h_weight.grad().asnumpy()

    return step


WORK = {
    "three operators, rows": (lambda: three_operators, 20),
    "the sum of a slice, its end": (lambda: slices, 40),
    "boolean_mask, hits": (lambda: masks, 20),
    "a hybridised perceptron, batch": (hybridised_block, 20),
    "LSTM(32) with gradients, length": (recurrent_layer, 8),
    "LSTMCell.unroll with gradients, length": (unrolled_cell, 8),
}
"""What runs, and what changes → what makes a function of a size, and how many sizes."""


def main() -> None:
    """Print a row for each."""
    print(f"{'':40} {'new':>8} {'again':>8}")
    for name, (make, count) in WORK.items():
        call = make()
        for size in (3, 4):
            call(size)
        times = []
        for _ in range(2):
            began = time.process_time()
            for size in range(5, 5 + count):
                call(size)
            times.append((time.process_time() - began) * 1e3 / count)
        print(f"{name:40} {times[0]:8.1f} {times[1]:8.1f}", flush=True)


if __name__ == "__main__":
    main()
