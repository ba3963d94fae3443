"""Training on n devices: what a step sends and holds, and how long it would take.

    python benchmarks/scaling.py sent [--devices 8,64,4x8x8] [--models resnet50,transformer24] [--words replicate,fsdp]
    python benchmarks/scaling.py predict --model resnet50 --samples 128 --flops 150e12 --link 300e9 --hosts-link 25e9

sent: the Trainer's program beside one written by hand in JAX. Everything is compiled and nothing runs: devices are
forced on one CPU (`jax_num_cpu_devices`), arrays are abstract. A row: kind, count and bytes of collectives in the
compiled HLO, ours and by hand; bytes of parameters and of the optimiser's state that one device holds, against all;
processor seconds to trace and to compile. XLA:CPU writes a reduce-scatter as an all-reduce of which each device keeps
its part; GPUs and TPUs send half of that.

predict: from arithmetic, bytes and the rates that you give. Weak scaling: every device has as many samples, whatever n.
Computing is the step's arithmetic over the rate at which a device does it, which you measure on one (`trainer.step`);
sending is that of rings, as XLA's collectives are: a sum of B bytes over n devices sends 2 (n-1)/n B through each link,
a gather or a scattered sum half of that. Devices of one host have a fast link, hosts a slow one: the sum over hosts is
of what each device of a host has of it. What may be sent while there is something to compute, gradients during the
backward pass, is hidden up to the share `--overlap`.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

sys.path.insert(0, str(Path(__file__).parents[1]))

import lowering
import symjax_nnvm
from benchmarks import by_hand as plain
from benchmarks import networks
from benchmarks.contenders import run
from lowering.sharding.placement import Placement, make_placement
from lowering.training.state import TrainState
from symjax_nnvm import symbol as sym

# -- the networks ------------------------------------------------------------------------------------------------------

Arrays = Mapping[str, jax.Array]
Loss = Callable[[Arrays, Arrays, Arrays], tuple[jax.Array, dict[str, jax.Array]]]

RATE, MOMENTUM = 0.1, 0.9


@dataclass(frozen=True)
class Model:
    """net: under its loss head. data, label: shapes of one sample, after the batch. loss: (parameters, states, batch) →
    (the loss of which the head's gradient is that of a batch's sum, new states), as an expert writes it in JAX; the two
    have the same parameters, by name and shape."""

    net: sym.Symbol
    data: tuple[int, ...]
    label: tuple[int, ...]
    loss: Loss


def resnet(stages: tuple[int, ...] = (3, 4, 6, 3), width: int = 64, size: int = 224, classes: int = 1000) -> Model:
    """ResNet-50 by default: images (3, size, size)."""

    def loss(w: Arrays, states: Arrays, batch: Arrays) -> tuple[jax.Array, dict[str, jax.Array]]:
        logits, moved = plain.resnet(w, states, batch["data"], stages)
        return _cross_entropy(logits, batch["softmax_label"]), moved

    return Model(networks.resnet(sym, stages, width, classes), (3, size, size), (), loss)


def transformer(layers: int = 24, width: int = 1024, heads: int = 16, length: int = 128) -> Model:
    """Blocks with LayerNorm on the branches, as in GPT-2; 24 of width 1024 by default: 302 million parameters."""
    net = sym.LinearRegressionOutput(networks.blocks(sym, layers, width, heads, pre_norm=True), name="head")

    def loss(w: Arrays, states: Arrays, batch: Arrays) -> tuple[jax.Array, dict[str, jax.Array]]:
        turned = {name: value.T if name.endswith("weight") else value for name, value in w.items()}
        difference = plain.pre_norm(turned, batch["data"], layers, heads) - batch["head_label"]
        return jnp.square(difference).sum() / 2 / (length * width), {}

    return Model(net, (length, width), (length, width), loss)


def perceptron(width: int = 32) -> Model:
    """Two dense layers, (width,) → 8 classes."""

    def loss(w: Arrays, states: Arrays, batch: Arrays) -> tuple[jax.Array, dict[str, jax.Array]]:
        return _cross_entropy(plain.perceptron(w, batch["data"], 2), batch["softmax_label"]), {}

    return Model(networks.perceptron(sym, (2 * width, 8)), (width,), (), loss)


def _cross_entropy(logits: jax.Array, label: jax.Array) -> jax.Array:
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), label.astype(int)[:, None], 1).sum()


MODELS: dict[str, Callable[[], Model]] = {"resnet50": resnet, "transformer24": transformer}


# -- what is sent ------------------------------------------------------------------------------------------------------

KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")

_INSTRUCTION = re.compile(
    rf"= (?P<result>\([^=]*?\)|\S+) (?P<kind>{'|'.join(KINDS)})(?P<start>-start)?\((?P<operands>[^)]*)\)"
)
_COMMENT = re.compile(r"/\*.*?\*/")
_ARRAY = re.compile(r"(?P<dtype>[a-z]+\d*)\[(?P<shape>[\d,]*)\]")
_BITS = {"pred": 8, "bf16": 16, "f16": 16, "f32": 32, "f64": 64, "c64": 64}


class Sent(NamedTuple):
    """Of one kind of collective: instructions, the arrays in them (XLA sends several at once), and bytes of results."""

    instructions: int
    arrays: int
    bytes: int


def collectives(hlo: str | None) -> dict[str, Sent]:
    """Kind → what is sent, of the text of an optimised program (`compiled.as_text()`).

    An instruction counts once, also inside a loop. XLA:CPU has no reduce-scatter: it writes an all-reduce, of which
    each device keeps a part.
    """
    counts: Counter[str] = Counter()
    arrays: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for match in _INSTRUCTION.finditer(_COMMENT.sub("", hlo or "")):
        found = _ARRAY.findall(match["result"])
        if match["start"] and match["kind"] != "all-reduce":  # (operand, result)
            found = found[len(found) // 2 :]
        counts[match["kind"]] += 1
        arrays[match["kind"]] += len(found)
        sizes[match["kind"]] += sum(_bytes(dtype, shape) for dtype, shape in found)
    return {kind: Sent(counts[kind], arrays[kind], sizes[kind]) for kind in KINDS if counts[kind]}


def _bytes(dtype: str, shape: str) -> int:
    elements = 1
    for size in filter(None, shape.split(",")):
        elements *= int(size)
    return elements * (_BITS.get(dtype) or int(re.sub(r"\D", "", dtype))) // 8


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
    """The step by hand, with the same shardings of what goes in and comes out."""
    arrays = Abstracts(model, make_placement(mesh, sharding, mesh.axis_names), batch)

    def step(params: Arrays, momenta: Arrays, states: Arrays, samples: Arrays) -> Any:
        (_, moved), grads = jax.value_and_grad(model.loss, has_aux=True)(params, states, samples)
        momenta = {n: MOMENTUM * momenta[n] - RATE / batch * grads[n] for n in params}
        return {n: params[n] + momenta[n] for n in params}, momenta, moved

    state = (arrays.params, arrays.momenta, arrays.states)
    where = jax.tree.map(lambda x: x.sharding, state)
    return jax.jit(step, out_shardings=where, donate_argnums=(0, 1, 2)).lower(*state, arrays.batch)


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


def sent(
    devices: str = "8,64,256",
    models: str = "resnet50,transformer24",
    words: str = "replicate,fsdp",
    samples: int = 8,
    ours: bool = False,
    out: str | None = None,
) -> None:
    """Print what a step sends and holds. devices: how many, or the sides of a mesh; ours: not by hand; out: a file for
    the rows, as JSON."""
    # Nothing runs: code need not be fast, and compiles in half the time.
    os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
    meshes = [[int(side) for side in mesh.split("x")] for mesh in devices.split(",")]
    jax.config.update("jax_num_cpu_devices", max(map(prod, meshes)))
    rows = []
    for name in models.split(","):
        model = MODELS[name]()
        for word in words.split(","):
            for sides in meshes:
                rows.append(row(name, model, sides, word, samples, alone=ours))
                print(show(rows[-1]), flush=True)
    if out:
        Path(out).write_text(json.dumps(rows, indent=1) + "\n")


# -- the cost model ----------------------------------------------------------------------------------------------------

SENT = {"replicate": 1.0, "zero1": 1.0, "fsdp": 1.0, "fsdp, gathered again": 1.5}
"""Sharding → what a step sends, in sums of the parameters' bytes: a scattered sum and a gather are together one. XLA
may gather parameters for the backward pass again where memory is scarce."""


@dataclass(frozen=True)
class Machine:
    """Rates, of one device. flops: floating-point operations a second, as measured, not as advertised. link: bytes a
    second to the others of its host; hosts_link: its share of what its host sends to other hosts. per_host: devices.
    latency: seconds that a step of a ring takes beside its bytes. overlap: the share of computing under which sending
    is hidden."""

    flops: float
    link: float
    hosts_link: float
    per_host: int = 8
    latency: float = 5e-6
    overlap: float = 0.5


@dataclass(frozen=True)
class Work:
    """A step. flops: of one device. bytes: of all parameters. sums: how often they are sent, see `SENT`."""

    flops: float
    bytes: float
    sums: float = 1.0


def sum_seconds(size: float, devices: int, machine: Machine) -> float:
    """A sum of arrays of so many bytes over all devices, which each then has."""
    within = min(devices, machine.per_host)
    hosts = -(-devices // machine.per_host)
    inside = 2 * (within - 1) * (size / within / machine.link + machine.latency)
    between = 2 * (hosts - 1) * (size / within / hosts / machine.hosts_link + machine.latency)
    return inside + between


def step_seconds(work: Work, devices: int, machine: Machine) -> tuple[float, float]:
    """(a whole step, the part of it in which nothing is computed)."""
    computing = work.flops / machine.flops
    sending = work.sums * sum_seconds(work.bytes, devices, machine)
    waiting = max(0.0, sending - machine.overlap * computing)
    return computing + waiting, waiting


def efficiency(work: Work, devices: int, machine: Machine) -> float:
    """Samples a second of n devices, over n times those of one."""
    return step_seconds(work, 1, machine)[0] / step_seconds(work, devices, machine)[0]


def predict(
    *,
    flops: float,
    link: float,
    hosts_link: float,
    model: str = "resnet50",
    samples: int = 128,
    sharding: str = "replicate",
    per_host: int = 8,
    latency: float = 5e-6,
    overlap: float = 0.5,
) -> None:
    """Print how long a step takes on n devices, each with so many samples: three times the forward arithmetic."""
    made = MODELS[model]()
    shapes = {"data": (1, *made.data)}
    named = zip(made.net.list_arguments(), made.net.infer_shape(**shapes)[0], strict=True)
    parameters = sum(prod(shape) for name, shape in named if name != "data" and not name.endswith("label"))
    arithmetic = 3.0 * samples * symjax_nnvm.estimate(made.net, shapes).flops
    work, machine = Work(arithmetic, 4.0 * parameters, SENT[sharding]), Machine(flops, link, hosts_link)
    machine = replace(machine, per_host=per_host, latency=latency, overlap=overlap)
    print(f"{model}: {work.flops / 1e12:.2f} TFLOP a step and device, {work.bytes / 1e6:.1f} MB of parameters")
    print(" devices  ms a step  of it waiting  efficiency")
    for devices in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024):
        whole, waiting = step_seconds(work, devices, machine)
        share = efficiency(work, devices, machine)
        print(f"{devices:8} {whole * 1e3:10.1f} {waiting * 1e3:14.1f} {share:10.1%}")


if __name__ == "__main__":
    run(__doc__, sent, predict)
