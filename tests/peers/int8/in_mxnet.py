"""Run a network of 8-bit integers in MXNet 1.9.1: `mxnet-env/bin/python in_mxnet.py PREFIX IMAGES SHOWN`.

`python -m tests.peers.int8` starts it; its Python imports nothing of the project. PREFIX has the network's two files,
IMAGES is an .npy file. It writes PREFIX-first.npy, the first output for all images, and PREFIX-nodes.npz, what every
node gives for the first SHOWN.
"""

import importlib
import os
import sys
from typing import Any

import numpy as np

os.environ["MXNET_SUBGRAPH_BACKEND"] = "NONE"  # the file is run as it is
mx: Any = importlib.import_module("mxnet")
BATCH = 32


def main(prefix: str, images: str, shown: str) -> None:
    """Run the network and its nodes."""
    net, args, aux = mx.model.load_checkpoint(prefix, 0)

    def bound(symbol, count):
        arguments, states = set(symbol.list_arguments()), set(symbol.list_auxiliary_states())
        arrays = {name: array for name, array in args.items() if name in arguments}
        arrays["data"] = mx.nd.zeros((count, *data.shape[1:]))
        arrays.update((name, mx.nd.zeros((count,))) for name in arguments - set(arrays))  # labels
        return symbol.bind(
            mx.cpu(), arrays, aux_states={name: aux[name] for name in aux if name in states}, grad_req="null"
        )

    data = np.load(images)
    whole = bound(net, min(BATCH, len(data)))
    batches = np.split(data, range(BATCH, len(data), BATCH))
    first = [whole.forward(data=mx.nd.array(batch))[0].asnumpy() for batch in batches]
    np.save(f"{prefix}-first.npy", np.concatenate(first))
    inner, variables = net.get_internals(), set(net.list_inputs())
    names = [name for name in inner.list_outputs() if name not in variables]
    nodes = bound(mx.sym.Group([inner[name] for name in names]), int(shown))
    outputs = nodes.forward(data=mx.nd.array(data[: int(shown)]))
    np.savez(f"{prefix}-nodes.npz", **{name: outputs[i].asnumpy() for i, name in enumerate(names)})


if __name__ == "__main__":
    main(*sys.argv[1:])
