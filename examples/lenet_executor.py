"""The same LeNet with an Executor, as MXNet's symbolic code was written: bind, forward, backward, update.

    python examples/lenet_executor.py [--epochs N]

The executor owns the arrays; they are read and written by name. The update is written out: momentum SGD.
"""

from __future__ import annotations

import argparse

import jax
import jax.numpy as jnp
import numpy as np

import datasets
import lenet
import lowering

BATCH = 100
INPUTS = ("data", "softmax_label")


@jax.jit
def update(params, velocity, grads):
    """Momentum SGD; SoftmaxOutput's gradient is a sum over the batch."""
    velocity = {name: 0.9 * velocity[name] - 0.1 / BATCH * grads[name] for name in params}
    return {name: params[name] + velocity[name] for name in params}, velocity


def main(epochs: int) -> float:
    """Train; returns the test accuracy."""
    (images, labels), (test_images, test_labels) = datasets.digits()
    net = lenet.network()
    # No gradient is asked for the inputs.
    requests = {name: "null" if name in INPUTS else "write" for name in net.list_arguments()}
    executor = lowering.simple_bind(net, grad_req=requests, data=(BATCH, 1, 8, 8))
    args, aux = lowering.init_params(
        net, {"data": (BATCH, 1, 8, 8)}, jax.random.key(0), lowering.initializer.Xavier(), without=INPUTS
    )
    executor.copy_params_from(args, aux)

    names = list(args)
    velocity = {name: jnp.zeros_like(args[name]) for name in names}
    rng = np.random.RandomState(0)
    for epoch in range(epochs):
        right = []
        for rows in rng.permutation(len(images)).reshape(-1, BATCH):
            (probabilities,) = executor.forward(is_train=True, data=images[rows], softmax_label=labels[rows])
            executor.backward()  # a loss head needs no head gradient
            params, velocity = update(
                {name: executor.arg_dict[name] for name in names},
                velocity,
                {name: executor.grad_dict[name] for name in names},
            )
            for name in names:
                executor.arg_dict[name] = params[name]
            right.append(np.mean(np.argmax(probabilities, axis=1) == labels[rows]))
        print(f"epoch {epoch + 1}  accuracy while training {np.mean(right):.2%}")

    # The same parameters, bound to another batch size; the label changes its shape as well.
    tester = executor.reshape(data=(len(test_images), 1, 8, 8), partial_shaping=True, allow_up_sizing=True)
    (probabilities,) = tester.forward(is_train=False, data=test_images)
    accuracy = float(np.mean(np.argmax(probabilities, axis=1) == test_labels))
    print(f"test accuracy {accuracy:.2%}")
    return accuracy


if __name__ == "__main__":
    lowering.keep_memory()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=15)
    score = main(parser.parse_args().epochs)
    if score <= 0.97:
        raise SystemExit(f"test accuracy {score:.2%}, expected more than 97 %")
