"""What a training step sends and holds on n devices: the Trainer's program beside one that is written by hand.

    python benchmarks/scaling.py [--devices 8,64,4x8x8] [--models resnet50,transformer24] [--words replicate,fsdp]

Everything is compiled and nothing runs: devices are forced on one CPU (`jax_num_cpu_devices`), arrays are abstract.
A row: kind, count and bytes of collectives in the compiled HLO, ours and by hand; bytes of parameters and of the
optimiser's state that one device holds, against all; processor seconds to trace and to compile. XLA:CPU writes
a reduce-scatter as an all-reduce of which each device keeps its part; GPUs and TPUs send half of that.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

# Nothing runs: code need not be fast, and compiles in half the time.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import jax
import jax.numpy as jnp

sys.path.insert(0, str(Path(__file__).parents[1]))

import lowering
from benchmarks.collectives import Sent, collectives
from benchmarks.scaling_models import MODELS, MOMENTUM, RATE, Model, step_by_hand
from lowering.sharding.placement import Placement, make_placement
from lowering.training.state import TrainState


def _shapes(model: Model, batch: int) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]:
    """Of arguments and of states, by name."""
    args, _, aux = model.net.infer_shape(data=(batch, *model.data))
    named = zip(model.net.list_arguments(), args, strict=True)
    return dict(named), dict(zip(model.net.list_auxiliary_states(), aux, strict=True))


class Abstracts:
    """The arrays of a step on a mesh, none of which is ever made."""

    def __init__(self, model: Model, placement: Placement, batch: int):
        args, states = _shapes(model, batch)
        inputs = [name for name in args if name == "data" or name.endswith("label")]
        shapes = {name: shape for name, shape in args.items() if name not in inputs}
        where, slots, at = placement.parameters(shapes), placement.optimizer_slots(shapes), placement.states(states)
        self.batch = {name: _abstract(args[name], placement.batch(batch)) for name in inputs}
        self.params = {name: _abstract(shape, where[name]) for name, shape in shapes.items()}
        self.momenta = {name: _abstract(shape, slots[name]) for name, shape in shapes.items()}
        self.states = {name: _abstract(shape, at[name]) for name, shape in states.items()}
        self._placement = placement

    def train_state(self, trainer: lowering.Trainer) -> TrainState:
        """As the Trainer's step takes it: the optimiser's state is split like the momenta."""
        kept = jax.eval_shape(trainer.optimizer.init, self.params)

        def lying(path: Any, leaf: Any) -> Any:
            names = [key.key for key in path if isinstance(key, jax.tree_util.DictKey)]
            like = next((self.momenta[name] for name in names if name in self.momenta), None)
            fits = like is not None and like.shape == leaf.shape
            where = like.sharding if like is not None and fits else self._placement.sharding()
            return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=where)

        key = jax.eval_shape(lambda: jax.random.key(0))
        whole = self._placement.sharding()
        return TrainState(
            params=self.params,
            frozen={},
            aux=self.states,
            opt_state=jax.tree_util.tree_map_with_path(lying, kept),
            key=_abstract(key.shape, whole, key.dtype),
            step=_abstract((), whole, jnp.int32),
        )


def _abstract(shape: tuple[int, ...], sharding: Any, dtype: Any = jnp.float32) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)


def held(arrays: Any) -> tuple[int, int]:
    """Bytes of abstract arrays: on one device, and all."""
    leaves = jax.tree.leaves(arrays)
    one = sum(prod(x.sharding.shard_shape(x.shape)) * x.dtype.itemsize for x in leaves)
    return one, sum(prod(x.shape) * x.dtype.itemsize for x in leaves)


def ours(model: Model, mesh: Any, sharding: Any, batch: int) -> jax.stages.Lowered:
    """The Trainer's step, traced."""
    params = {"learning_rate": RATE, "momentum": MOMENTUM}
    trainer = lowering.Trainer(model.net, "sgd", params, mesh=mesh, sharding=sharding, data_axis=mesh.axis_names)
    arrays = Abstracts(model, make_placement(mesh, sharding, mesh.axis_names), batch)
    return trainer.step_fn.lower(arrays.train_state(trainer), arrays.batch)


def by_hand(model: Model, mesh: Any, sharding: Any, batch: int) -> jax.stages.Lowered:
    """The step that `scaling_models.py` has by hand, with the same shardings of what goes in and comes out."""
    arrays = Abstracts(model, make_placement(mesh, sharding, mesh.axis_names), batch)
    kept = (arrays.params, arrays.momenta, arrays.states)
    where = jax.tree.map(lambda x: x.sharding, kept)
    step = jax.jit(step_by_hand(model.loss, batch), out_shardings=where, donate_argnums=(0, 1, 2))
    return step.lower(*kept, arrays.batch)


def row(
    name: str, model: Model, sides: Sequence[int], sharding: Any, samples: int, *, alone: bool = False
) -> dict[str, Any]:
    """Everything that is said of a network on a mesh, all of whose axes are the data's, with so many samples a device.
    alone: not by hand."""
    devices = prod(sides)
    mesh = jax.make_mesh(tuple(sides), tuple(f"data{i}" for i in range(len(sides))), devices=jax.devices()[:devices])
    arrays = Abstracts(model, make_placement(mesh, sharding, mesh.axis_names), devices * samples)
    found: dict[str, Any] = {"model": name, "devices": "x".join(map(str, sides)), "sharding": sharding}
    for who, make in (("ours", ours), ("by hand", by_hand))[: 1 if alone else 2]:
        start = time.process_time()
        lowered = make(model, mesh, sharding, devices * samples)
        traced = time.process_time()
        compiled = lowered.compile()
        seconds = {"trace": traced - start, "compile": time.process_time() - traced}
        cost: Any = compiled.cost_analysis() or {}
        found[who] = {
            "collectives": {kind: each._asdict() for kind, each in collectives(compiled.as_text()).items()},
            "flops per device": cost.get("flops"),
            **{key: round(value, 2) for key, value in seconds.items()},
        }
    found["parameters"], found["optimiser"] = held(arrays.params), held(arrays.momenta)
    return found


def show(found: Mapping[str, Any]) -> str:
    """A row as lines of text."""
    lines = [f"{found['model']}, {found['devices']} devices, {found['sharding']}"]
    for what in ("parameters", "optimiser"):
        one, whole = found[what]
        lines.append(f"  {what:10}  {one / 1e6:9.2f} MB on a device of {whole / 1e6:.2f} MB: 1/{whole / one:.1f}")
    for who in (who for who in ("ours", "by hand") if who in found):
        sent = {kind: Sent(**each) for kind, each in found[who]["collectives"].items()}
        said = "; ".join(f"{k}: {s.instructions} of {s.arrays} arrays, {s.bytes / 1e6:.2f} MB" for k, s in sent.items())
        lines.append(f"  {who:10}  {said}")
        lines.append(f"  {'':10}  traced in {found[who]['trace']:.1f} s, compiled in {found[who]['compile']:.1f} s")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", default="8,64,256", help="how many, or the sides of a mesh: 4x8x8")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--words", default="replicate,fsdp")
    parser.add_argument("--samples", type=int, default=8, help="of the batch, on each device")
    parser.add_argument("--ours", action="store_true", help="not by hand")
    parser.add_argument("--out", help="a file for the rows, as JSON")
    given = parser.parse_args()
    meshes = [[int(side) for side in mesh.split("x")] for mesh in given.devices.split(",")]
    jax.config.update("jax_num_cpu_devices", max(map(prod, meshes)))
    rows = []
    for name in given.models.split(","):
        model = MODELS[name]()
        for word in given.words.split(","):
            for sides in meshes:
                rows.append(row(name, model, sides, word, given.samples, alone=given.ours))
                print(show(rows[-1]), flush=True)
    if given.out:
        Path(given.out).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    lowering.keep_memory()
    main()
