"""What a mesh costs: a step on a mesh of one device against one without, and two processes against one.

    python benchmarks/mesh_overhead.py [--rounds 15] [--width 512] [--batch 256]

Steps of a dense network and of a small ResNet are taken in turn, with and without a mesh of one device: the median of
the rounds' ratios. Then samples a second of the same batch in one process with all cores, and in two, each with half of
the batch, over gloo on this machine.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import jax
import numpy as np

import lowering
from benchmarks.contenders import conditions, in_process, medians, options_of, ratio, take_turns
from benchmarks.scaling_models import MOMENTUM, RATE, Model, perceptron, resnet
from lowering.training.placing import put_batch


def trainer_of(model: Model, mesh: Any, batch: int) -> tuple[lowering.Trainer, dict[str, np.ndarray]]:
    """A trainer with its first state, and the whole batch."""
    trainer = lowering.Trainer(model.net, "sgd", {"learning_rate": RATE, "momentum": MOMENTUM}, mesh=mesh)
    trainer.init(0, data=(batch, *model.data))
    rng = np.random.default_rng(0)
    data = rng.standard_normal((batch, *model.data)).astype(np.float32)
    return trainer, {"data": data, "softmax_label": (np.arange(batch) % 8).astype(np.float32)}


def stepping(model: Model, mesh: Any, batch: int) -> Any:
    """A function that takes a step, of a batch that is on the devices already."""
    trainer, arrays = trainer_of(model, mesh, batch)
    placed = put_batch(trainer.placement, arrays, whole=True)
    placed = {name: jax.device_put(array) for name, array in placed.items()} if mesh is None else placed

    def step() -> None:
        state, outputs = trainer.step_fn(trainer.state, placed)
        trainer.state = jax.block_until_ready(state)
        jax.block_until_ready(outputs)

    return step


def samples_a_second(model: Model, mesh: Any, batch: int, rounds: int) -> float:
    """Samples a second."""
    step = stepping(model, mesh, batch)
    step()
    start = time.perf_counter()
    for _ in range(rounds):
        step()
    return batch * rounds / (time.perf_counter() - start)


def worker(address: str, number: int, models: dict[str, Model], batch: int, rounds: int) -> None:
    """One of two processes; the first prints."""
    jax.distributed.initialize(address, 2, number)
    mesh = jax.make_mesh((2,), ("data",))
    for name, model in models.items():
        found = samples_a_second(model, mesh, batch, rounds)
        if number == 0:
            print(f"{name}: two processes {found:.0f} samples a second", flush=True)


def main() -> None:
    parser = options_of(__doc__, 15)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--worker", help="be one of the two processes")
    given = parser.parse_args()
    models = {"dense": perceptron(given.width), "resnet": resnet((1, 1), 16, 32, 8)}
    if given.worker:
        address, number = given.worker.split("/")
        return worker(address, int(number), models, given.batch, given.rounds)
    print(conditions())
    for name, model in models.items():
        meshes = {"with": jax.make_mesh((1,), ("data",)), "without": None}
        ways = {way: in_process(stepping(model, mesh, given.batch)) for way, mesh in meshes.items()}
        times = take_turns(ways, given.rounds)
        ms, slower = medians(times), ratio(times, "with", "without")
        print(f"{name}: {ms['with']:.2f} ms on a mesh of one device, {ms['without']:.2f} without: {slower:.3f}")
        alone = samples_a_second(model, None, given.batch, given.rounds)
        print(f"{name}: one process {alone:.0f} samples a second", flush=True)
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    own = [sys.executable, __file__, f"--rounds={given.rounds}", f"--width={given.width}", f"--batch={given.batch}"]
    workers = [subprocess.Popen([*own, f"--worker={address}/{number}"]) for number in range(2)]
    for process in workers:
        process.wait()


if __name__ == "__main__":
    lowering.keep_memory()
    main()
