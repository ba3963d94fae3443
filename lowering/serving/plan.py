"""How a predictor runs one signature, inputs of given shapes and dtypes: chosen once, as a value.

`Predictor` compiles it, `explain` prints it, and `export_program` writes the function of one to a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import jax

from lowering.convolutions.backends import ONE_CORE
from lowering.convolutions.ops.fused import uses_layout
from lowering.core.cache import Programs
from lowering.serving.constant_store import ConstantStore, Wanted
from lowering.serving.microbatch import Arrays, Batch, batch_of, in_chunks, with_batch
from lowering.xla import cpu_streams
from symjax_nnvm.pipeline import Options

__all__ = ["Served", "ServingPlan", "served", "serving_plan", "whole_plan"]


class ServingPlan(NamedTuple):
    """How a signature runs.

    options: the options of the pipeline, with the shapes that the program sees: algorithms are chosen by them. chunk:
    samples that the program computes at a time, one chunk after the other; None: all. one_core: whether a single core
    runs the program, in the thread that calls. rows: samples that each core has, where a batch is split over them.
    """

    options: Options
    chunk: int | None = None
    one_core: bool = False
    rows: int | None = None

    def __str__(self) -> str:
        cores = f"{self.rows} samples by each core" if self.rows else "by one core" if self.one_core else ""
        return ", ".join(filter(None, (cores, f"{self.chunk} samples at a time" if self.chunk else "")))


def serving_plan(
    programs: Programs, store: ConstantStore, options: Options, inputs: Arrays, one_core: bool = False
) -> ServingPlan:
    """Choose how inputs of these shapes and dtypes run fastest.

    A CPU's cores compute samples of their own where a library has the convolutions: it would share each out over the
    cores, which then wait for each other. one_core: a single core computes all samples, if the network can run so.
    """
    whole = whole_plan(programs, store, options, inputs)
    if store.placement.platform != "cpu" or store.placement.mesh is not None:
        return whole
    batch = None if one_core else _batch(programs, store, options, inputs)
    rows = None if batch is None else batch.part(cpu_streams.count())
    if (rows is None and not one_core) or cpu_streams.one_core() is None:  # which makes a client at its first call
        return whole
    single = replace(options, backend=ONE_CORE)
    if rows is None:
        network = _network(programs, options)
        alone = not network.needs_key and network.segments is None
        return whole_plan(programs, store, single, inputs)._replace(one_core=True) if alone else whole
    split = whole_plan(programs, store, single, with_batch(inputs, rows))._replace(one_core=True, rows=rows)
    calls_library = any(uses_layout(node) for node in programs.plan(split.options).graph.nodes())
    return split if calls_library else whole


def whole_plan(programs: Programs, store: ConstantStore, options: Options, inputs: Arrays) -> ServingPlan:
    """Plan one program for all samples, a chunk at a time where that is faster. On a mesh there are no chunks: those of
    a batch that is split over devices would be sent from one to another."""
    chunk = None
    if store.placement.mesh is None:
        batch = _batch(programs, store, options, inputs)
        chunk = None if batch is None else batch.chunk
    if chunk is not None:
        inputs = with_batch(inputs, chunk)
    placed = {name: store.placement.input(name, shape).shard_shape(shape) for name, (shape, _) in inputs.items()}
    dtypes = store.dtypes | {name: dtype for name, (_, dtype) in inputs.items()}
    shapes = store.shapes | placed  # as each device has them
    return ServingPlan(replace(options, shapes=tuple(shapes.items()), dtypes=tuple(dtypes.items())), chunk)


def _batch(programs: Programs, store: ConstantStore, options: Options, inputs: Arrays) -> Batch | None:
    """Return the batch of inputs; None where samples may mix, and of one sample, which has no parts."""
    if all(shape[:1] == (1,) for shape, _ in inputs.values()):
        return None
    return batch_of(_network(programs, options), inputs, store.kinds)


def _network(programs: Programs, options: Options):
    """Return the program without values that are computed once."""
    return programs.forward(replace(options, constants=None))


class Served(NamedTuple):
    """The function of a plan. run: (inputs, held, key) → outputs, arrays by name; the arrays it takes besides inputs;
    whether it reads the key."""

    run: Callable[[Mapping[str, jax.Array], Mapping[str, jax.Array], jax.Array | None], list[jax.Array]]
    wanted: Wanted
    needs_key: bool


def served(programs: Programs, store: ConstantStore, plan: ServingPlan) -> Served:
    """Return the function of a plan, for the samples that its program has."""
    program = programs.forward(plan.options)

    def run(inputs: Mapping[str, Any], constants: Mapping[str, Any], key: jax.Array | None) -> list[jax.Array]:
        arrays = {**constants, **inputs}
        args, aux = ({name: arrays[name] for name in names} for names in (program.arg_names, program.aux_names))
        return program.collect(program.run(program.bind(args, aux), key))[0]

    run = run if plan.chunk is None else in_chunks(run, plan.chunk)
    return Served(run, store.wanted(programs, plan.options), program.needs_key)
