"""LeNet on handwritten digits with `lowering.Trainer`: what MXNet's Module did, as one compiled step.

    python examples/lenet.py [--epochs N]

Adam with a learning rate that falls by half every 60 steps, metrics that are summed on the device, a validation after
every epoch, and at the end MXNet's two files, loaded back for a last test.
"""

from __future__ import annotations

import argparse
import tempfile

import numpy as np

import datasets
import lowering
import symjax_nnvm as nn
from symjax_nnvm import symbol as sym

BATCH = 100


def network(num_classes: int = 10) -> sym.Symbol:
    """data (n, 1, 8, 8), softmax_label (n,) → probabilities of the classes (n, num_classes)."""
    net = sym.Variable("data")
    for i, filters in enumerate((8, 16)):
        net = sym.Convolution(net, kernel=(3, 3), pad=(1, 1), num_filter=filters, name=f"conv{i}").tanh()
        net = sym.Pooling(net, kernel=(2, 2), stride=(2, 2), pool_type="max", name=f"pool{i}")
    net = sym.FullyConnected(net.flatten(), num_hidden=64, name="fc0").tanh()
    return sym.SoftmaxOutput(sym.FullyConnected(net, num_hidden=num_classes, name="fc1"), name="softmax")


def batches(data: datasets.Digits, **options) -> lowering.Batches:
    """Images and labels under the names of the network's inputs."""
    images, labels = data
    return lowering.Batches({"data": images, "softmax_label": labels}, BATCH, **options)


def main(epochs: int) -> float:
    """Train, export, load again; returns the test accuracy."""
    train, test = datasets.digits()
    halving = lowering.training.FactorScheduler(step=60, factor=0.5, base_lr=0.01)
    trainer = lowering.Trainer(
        network(), "adam", {"learning_rate": 0.01, "lr_scheduler": halving}, initializer=lowering.initializer.Xavier()
    )
    trainer.init(0, data=(BATCH, 1, 8, 8))
    trainer.fit(
        batches(train, shuffle=True),
        epochs,
        validation=batches(test, last="pad"),
        metrics=("accuracy", "cross-entropy"),
    )
    scores = trainer.evaluate(batches(test, last="pad"), ("accuracy", lowering.training.metrics.top_k_accuracy(3)))
    print(", ".join(f"{name} {value:.2%}" for name, value in scores.items()), "on the digits held out")

    with tempfile.TemporaryDirectory() as folder:
        trainer.export(f"{folder}/lenet", epochs)
        net, args, aux = nn.load_checkpoint(f"{folder}/lenet", epochs)
        (probabilities,), _ = lowering.compile(net)(args | {"data": test[0], "softmax_label": test[1]}, aux)
    accuracy = float(np.mean(np.argmax(probabilities, axis=1) == test[1]))
    print(f"the exported model, loaded again: {accuracy:.2%}")
    return accuracy


if __name__ == "__main__":
    lowering.keep_memory()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=12)
    score = main(parser.parse_args().epochs)
    if score <= 0.97:
        raise SystemExit(f"test accuracy {score:.2%}, expected more than 97 %")
