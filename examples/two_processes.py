"""One training run by two processes, without a launcher: this script starts itself twice.

    python examples/two_processes.py [--processes 2]

Each process has its own devices, here one CPU device; on a cluster each host runs the same script once, and
`jax.distributed.initialize()` finds the others by itself under SLURM, Open MPI and on cloud TPUs. Elsewhere it is told
three things, as below: where process 0 listens, how many there are, and which one this is. The rest is the script of
one process with `mesh=`: every process makes the same calls, takes its rows of each batch, and writes its part of each
checkpoint; process 0 shows the progress.
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys

import jax
import numpy as np

import lowering
from symjax_nnvm import symbol as sym


def network() -> sym.Symbol:
    """data (n, 2) → probabilities of inside and outside a circle."""
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=32, name="fc1")
    net = sym.Activation(net, act_type="relu", name="relu1")
    return sym.SoftmaxOutput(sym.FullyConnected(net, num_hidden=2, name="fc2"), name="softmax")


def train(epochs: int = 10) -> float:
    """Train over all devices of all processes; the accuracy at the end."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(1000, 2)).astype(np.float32)
    labels = (np.hypot(points[:, 0], points[:, 1]) > 1.1).astype(np.float32)
    batches = lowering.Batches({"data": points, "softmax_label": labels}, batch_size=50, shuffle=True)
    mesh = jax.make_mesh((jax.device_count(),), ("data",))
    trainer = lowering.Trainer(
        network(), "sgd", {"learning_rate": 0.5, "momentum": 0.9}, initializer="xavier", mesh=mesh, sharding="fsdp"
    )
    trainer.init(0, data=(50, 2))
    return trainer.fit(batches, epochs, exit_when_lost=True)["accuracy"][-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--process", type=int, help="which one this is; without it all are started")
    parser.add_argument("--coordinator", help="where process 0 listens: host:port")
    options = parser.parse_args()
    if options.process is None:
        sys.exit(_start_all(options.processes))
    jax.distributed.initialize(options.coordinator, options.processes, options.process)
    accuracy = train()
    if options.process == 0:
        print(f"{jax.process_count()} processes, {jax.device_count()} devices: accuracy {accuracy:.3f}")


def _start_all(count: int) -> int:
    """The worst exit code of the processes."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        coordinator = f"localhost:{free.getsockname()[1]}"
    command = [sys.executable, __file__, "--processes", str(count), "--coordinator", coordinator]
    started = [subprocess.Popen([*command, "--process", str(i)]) for i in range(count)]
    return max(abs(process.wait()) for process in started)


if __name__ == "__main__":
    lowering.keep_memory()
    main()
