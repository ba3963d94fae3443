"""Processor time of work whose shapes change in each call, in milliseconds: `python benchmarks/new_shapes.py`, and
`mxnet-env/bin/python benchmarks/new_shapes.py` for MXNet's.

first: the first call, which makes what does not depend on shapes, too. new: a call of a shape that was not there
before. again: a call when all shapes were there.
"""

from __future__ import annotations

import sys
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


def residual_network(hybridised):
    net = mx.gluon.model_zoo.vision.resnet18_v2(classes=10)
    net.initialize()
    if hybridised:
        net.hybridize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01})
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()

    def step(n):
        with mx.autograd.record():
            losses = loss(net(nd.ones((n, 3, 64, 64))), nd.zeros((n,)))
        losses.backward()
        trainer.step(n)
        losses.mean().asscalar()

    return step


def lenet(data):
    for filters in (20, 50):
        data = mx.sym.Convolution(data, kernel=(5, 5), num_filter=filters)
        data = mx.sym.Activation(data, act_type="tanh")
        data = mx.sym.Pooling(data, pool_type="max", kernel=(2, 2), stride=(2, 2))
    data = mx.sym.Activation(mx.sym.FullyConnected(mx.sym.flatten(data), num_hidden=500), act_type="tanh")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(data, num_hidden=10), name="softmax")


def fitted_module():
    symbol = lenet(mx.sym.var("data"))

    def fit(n):
        digits = mx.io.NDArrayIter(np.ones((n, 1, 28, 28), "f"), np.zeros(n, "f"), n)
        mx.mod.Module(symbol).fit(digits, num_epoch=1)

    return fit


def buckets():
    def network(length):
        data = mx.sym.Embedding(mx.sym.var("data"), input_dim=100, output_dim=16)
        cell = mx.rnn.LSTMCell(32)
        outputs, _ = cell.unroll(length, data, merge_outputs=True)
        outputs = mx.sym.FullyConnected(mx.sym.reshape(outputs, (-1, 32)), num_hidden=100)
        labels = mx.sym.reshape(mx.sym.var("softmax_label"), (-1,))
        return mx.sym.SoftmaxOutput(outputs, labels, name="softmax"), ("data",), ("softmax_label",)

    module = mx.mod.BucketingModule(network, 40)
    shapes = lambda n: ([("data", (4, n))], [("softmax_label", (4, n))])  # noqa: E731
    module.bind(*shapes(40))
    module.init_params()
    module.init_optimizer()

    def step(n):
        data, labels = shapes(n)
        ones = [nd.ones((4, n))]
        batch = mx.io.DataBatch(ones, ones, bucket_key=n, provide_data=data, provide_label=labels)
        module.forward_backward(batch)
        module.update()
        module.get_outputs()[0].asnumpy()

    return step


WORK = {
    "three operators, rows": (lambda: three_operators, 20),
    "the sum of a slice, its end": (lambda: slices, 40),
    "boolean_mask, hits": (lambda: masks, 20),
    "a hybridised perceptron, batch": (hybridised_block, 20),
    "LSTM(32) with gradients, length": (recurrent_layer, 8),
    "LSTMCell.unroll with gradients, length": (unrolled_cell, 8),
    "ResNet-18, hybridised, a step, batch": (lambda: residual_network(True), 3),
    "ResNet-18, eager, a step, batch": (lambda: residual_network(False), 3),
    "Module.fit of LeNet, a batch, its size": (fitted_module, 3),
    "BucketingModule, LSTM, length": (buckets, 6),
}
"""What runs, and what changes → what makes a function of a size, and how many sizes."""


def main() -> None:
    """Print a row for each."""
    print(f"{'':40} {'first':>8} {'new':>8} {'again':>8}")
    for name, (make, count) in WORK.items():
        if not any(word in name for word in sys.argv[1:] or [""]):
            continue
        call, times = make(), []
        began = time.process_time()
        call(3)
        times.append((time.process_time() - began) * 1e3)
        call(4)
        for _ in range(2):
            began = time.process_time()
            for size in range(5, 5 + count):
                call(size)
            times.append((time.process_time() - began) * 1e3 / count)
        print(f"{name:40} {times[0]:8.1f} {times[1]:8.1f} {times[2]:8.1f}", flush=True)


if __name__ == "__main__":
    main()
