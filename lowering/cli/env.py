"""The command prints this installation: versions, devices, and which native help is in use, or why it is not.

Convolutions are computed by oneDNN where jaxlib has it and a child process computed them right; batches are shared out
sample by sample where a second client of XLA's CPU can be made. Without either the numbers are the same.
"""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Iterator
from importlib import metadata

import jax

from lowering.convolutions import backends
from lowering.convolutions.timings_table import user_table
from lowering.native.ask import answers_file
from lowering.xla import cpu_streams
from lowering.xla.compile_options import options_for
from symjax_nnvm import __version__
from symjax_nnvm.cli.console import print_json, show
from symjax_nnvm.errors import printable

_PACKAGES = ("jax", "jaxlib", "numpy", "onnx", "onnxruntime", "orbax-checkpoint", "optax", "safetensors", "mxnet")
_SETTINGS = ("SYMJAX_NNVM_", "XLA_", "JAX_", "ONEDNN_", "DNNL_", "OMP_NUM_THREADS", "NPROC", "PJRT_")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add no arguments: the command has none."""
    del parser


def run(options: argparse.Namespace) -> int:
    """Print a fact a line."""
    facts = dict(_facts())
    if options.json:
        print_json(facts)
        return 0
    width = max(map(len, facts))
    show("\n".join(f"{name:{width}}  {printable(value)}" for name, value in facts.items()))
    return 0


def _facts() -> Iterator[tuple[str, str]]:
    yield "symjax-nnvm", __version__
    yield "Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    for name in _PACKAGES:
        try:
            yield name, metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    yield "devices", ", ".join(f"{device.platform}:{device.id} {device.device_kind}" for device in jax.devices())
    yield "cores", str(cpu_streams.count())
    yield "oneDNN", backends.described()
    yield "streams", cpu_streams.why_not() or f"{cpu_streams.count()}, for batches"
    yield "compile options", ", ".join(f"{n}={v}" for n, v in (options_for(jax.default_backend()) or {}).items()) or "-"
    for what, path in (("algorithms", user_table(jax.default_backend())), ("answers", answers_file())):
        yield what, f"{path}{'' if path and path.is_file() else ' (not there)'}" if path else "not kept"
    for name in sorted(os.environ):
        if name.startswith(_SETTINGS):
            yield name, os.environ[name]
