"""How long a training step takes on n devices, predicted from arithmetic, bytes and the rates that you give.

    python benchmarks/cost_model.py --model resnet50 --samples 128 --flops 150e12 --link 300e9 --hosts-link 25e9

Weak scaling: every device has as many samples, whatever n. Computing is the step's arithmetic over the rate at which a
device does it, which you measure on one (`trainer.step`); sending is that of rings, as XLA's collectives are: a sum of
B bytes over n devices sends 2 (n-1)/n B through each link, a gather or a scattered sum half of that. Devices of one
host have a fast link, hosts a slow one: the sum over hosts is of what each device of a host has of it. What may be sent
while there is something to compute, gradients during the backward pass, is hidden up to the share `--overlap`.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from math import prod
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import symjax_nnvm
from benchmarks.scaling_models import MODELS

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


def work_of(model: str, samples: int, sharding: str = "replicate") -> Work:
    """A model of `scaling_models.py`, with so many samples on each device: three times the forward arithmetic."""
    made = MODELS[model]()
    shapes = {"data": (1, *made.data)}
    names = [name for name in made.net.list_arguments() if name != "data" and not name.endswith("label")]
    known = dict(zip(made.net.list_arguments(), made.net.infer_shape(**shapes)[0], strict=True))
    parameters = sum(prod(known[name]) for name in names)
    return Work(3.0 * samples * symjax_nnvm.estimate(made.net, shapes).flops, 4.0 * parameters, SENT[sharding])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--samples", type=int, default=128, help="on each device")
    parser.add_argument("--sharding", default="replicate", choices=SENT)
    parser.add_argument("--flops", type=float, required=True)
    parser.add_argument("--link", type=float, required=True)
    parser.add_argument("--hosts-link", type=float, required=True)
    parser.add_argument("--per-host", type=int, default=8)
    parser.add_argument("--latency", type=float, default=5e-6)
    parser.add_argument("--overlap", type=float, default=0.5)
    given = parser.parse_args()
    machine = Machine(given.flops, given.link, given.hosts_link, given.per_host, given.latency, given.overlap)
    work = work_of(given.model, given.samples, given.sharding)
    print(f"{given.model}: {work.flops / 1e12:.2f} TFLOP a step and device, {work.bytes / 1e6:.1f} MB of parameters")
    print(" devices  ms a step  of it waiting  efficiency")
    for devices in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024):
        whole, waiting = step_seconds(work, devices, machine)
        share = efficiency(work, devices, machine)
        print(f"{devices:8} {whole * 1e3:10.1f} {waiting * 1e3:14.1f} {share:10.1%}")


if __name__ == "__main__":
    main()
