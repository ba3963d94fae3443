"""One training script on one device and on eight: handwritten digits, the batch split over a mesh.

    python examples/data_parallel.py [--devices 8] [--epochs N] [--sharding fsdp]

A laptop's CPU stands in for eight devices (`jax_num_cpu_devices`; leave the line out where there are some). What
differs from one device is `mesh=`; the losses are the same up to rounding; `--sharding` says what each device holds.
"""

from __future__ import annotations

import argparse

import jax
import numpy as np

import datasets
import lowering
from symjax_nnvm import symbol as sym


def network() -> sym.Symbol:
    """data (n, 1, 8, 8) → probabilities of ten classes; BatchNorm's statistics are those of the whole batch."""
    net = sym.Convolution(sym.Variable("data"), kernel=(3, 3), num_filter=16, no_bias=True, name="conv")
    net = sym.relu(sym.BatchNorm(net, fix_gamma=False, name="bn"))
    net = sym.FullyConnected(net.flatten(), num_hidden=64, name="fc0").tanh()
    return sym.SoftmaxOutput(sym.FullyConnected(net, num_hidden=10, name="fc1"), name="softmax")


def train(mesh: jax.sharding.Mesh | None, sharding: str, epochs: int) -> tuple[lowering.Trainer, list[float], float]:
    """(the trainer, the loss after each epoch, the accuracy on digits that it has not seen)."""
    (images, labels), (test_images, test_labels) = datasets.digits()
    data = lowering.Batches({"data": images, "softmax_label": labels}, 96, shuffle=True, seed=1, last="drop")
    held_out = lowering.Batches({"data": test_images, "softmax_label": test_labels}, 96)
    trainer = lowering.Trainer(network(), "adam", {"learning_rate": 0.003}, mesh=mesh, sharding=sharding)
    trainer.init(0, data=(96, 1, 8, 8))
    history = trainer.fit(data, epochs=epochs, metrics=["ce"], progress=False)
    return trainer, list(history["cross-entropy"]), trainer.evaluate(held_out, metrics=["accuracy"])["accuracy"]


def main(devices: int, epochs: int, sharding: str) -> float:
    """The accuracy of the run on the mesh."""
    mesh = jax.make_mesh((devices,), ("data",))
    _, alone, _ = train(None, "replicate", epochs)
    trainer, losses, accuracy = train(mesh, sharding, epochs)
    for epoch, (one, many) in enumerate(zip(alone, losses, strict=True), 1):
        print(f"epoch {epoch}: loss {one:.5f} on one device, {many:.5f} on {devices}")
    np.testing.assert_allclose(losses, alone, rtol=1e-3)
    assert trainer.state is not None
    weight = trainer.state.params["fc0_weight"]
    held = weight.addressable_shards[0].data
    print(f"each device holds {held.shape} of fc0_weight {weight.shape}; test accuracy {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    lowering.keep_memory()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--sharding", choices=("replicate", "fsdp", "zero1"), default="replicate")
    options = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", options.devices)
    main(options.devices, options.epochs, options.sharding)
