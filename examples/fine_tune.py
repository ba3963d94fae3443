"""Fine-tune a loaded checkpoint with a new head: ten digits learnt from a network that knows only eight.

    python examples/fine_tune.py [--epochs N]

A LeNet is trained on the digits 0 to 7 and saved as MXNet's two files. They are loaded, the head is replaced by one
for all ten digits, and that head alone is trained: on few images, in a moment, with the features as they are.
"""

from __future__ import annotations

import argparse
import tempfile

import numpy as np

import datasets
import lenet
import lowering
import symjax_nnvm as nn
from symjax_nnvm import symbol as sym

SHOTS = 300
"""Images of all ten digits that the new head sees."""


def pretrain(prefix: str, epochs: int) -> None:
    """Train on the digits 0 to 7 and save MXNet's two files."""
    images, labels = datasets.digits()[0]
    first_eight = labels < 8
    trainer = lowering.Trainer(
        lenet.network(8), "adam", {"learning_rate": 0.01}, initializer=lowering.initializer.Xavier()
    )
    trainer.init(0, data=(lenet.BATCH, 1, 8, 8))
    trainer.fit(lenet.batches((images[first_eight], labels[first_eight]), shuffle=True), epochs)
    trainer.export(prefix, epochs)


def new_head(features: sym.Symbol) -> sym.Symbol:
    """Features (n, …) → probabilities of ten digits."""
    return sym.SoftmaxOutput(sym.FullyConnected(features, num_hidden=10, name="new_fc"), name="softmax")


def main(epochs: int) -> float:
    """Returns the test accuracy on all ten digits."""
    (images, labels), test = datasets.digits()
    with tempfile.TemporaryDirectory() as folder:
        prefix = f"{folder}/eight-digits"
        pretrain(prefix, epochs)
        net, args, aux = nn.load_checkpoint(prefix, epochs)
        print(nn.check(net, shapes={"data": (lenet.BATCH, 1, 8, 8)}))
        net = nn.replace_head(net, "fc0_output", lambda fc0: new_head(fc0.tanh()))
        head = nn.freeze(net, ["conv*", "fc0_*"])
        print(f"trained further: {', '.join(head)}")

        trainer = lowering.Trainer(net, "adam", {"learning_rate": 0.02}, wrt=head)
        reused, aux = nn.subset(net, args, aux, new=head)
        trainer.init(1, reused, aux, data=(lenet.BATCH, 1, 8, 8))
        few = lenet.batches((images[:SHOTS], labels[:SHOTS]), shuffle=True)
        trainer.fit(few, 10 * epochs, progress=False)
        unchanged = all(np.array_equal(value, trainer.require_state().frozen[name]) for name, value in reused.items())
    assert unchanged, "a frozen parameter has changed"
    accuracy = trainer.evaluate(lenet.batches(test, last="pad"))["accuracy"]
    unseen = test[1] >= 8
    new = trainer.evaluate(lenet.batches((test[0][unseen], test[1][unseen]), last="pad"))["accuracy"]
    print(f"test accuracy {accuracy:.2%} on ten digits, {new:.2%} on the two that are new")
    return accuracy


if __name__ == "__main__":
    lowering.keep_memory()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=6)
    score = main(parser.parse_args().epochs)
    if score <= 0.9:
        raise SystemExit(f"test accuracy {score:.2%}, expected more than 90 %")
