"""Build the function that runs a network with constant parameters for one signature: inputs of given shapes, dtypes.

`Predictor` compiles it, `export_program` writes it to a file.

The algorithms are those that are fastest for the shapes, and a CPU runs a large batch a few samples at a time. A
predictor's cores compute samples of their own, where they need not wait for each other: `serve_parts`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import jax

from lowering.convolutions.backends import ONE_CORE
from lowering.convolutions.ops.fused import uses_layout
from lowering.core.cache import Programs
from lowering.serving.constants import ConstantStore, Wanted
from lowering.serving.microbatch import Arrays, chunk_size, in_chunks, part_size, with_batch
from lowering.xla import cpu_streams
from symjax_nnvm.pipeline import Options


class Served(NamedTuple):
    """A function for one signature. run: (inputs, held, key) → outputs, arrays by name; the arrays it takes
    besides inputs; whether it reads the key."""

    run: Callable[[Mapping[str, jax.Array], Mapping[str, jax.Array], jax.Array | None], list[jax.Array]]
    wanted: Wanted
    needs_key: bool


def build_signature(programs: Programs, store: ConstantStore, options: Options, inputs: Arrays | None) -> Served:
    """Return the function for inputs of these shapes and dtypes; None: for any."""
    chunk = None
    if inputs is not None:
        chunk, options = _for_chunks(programs, store, options, inputs)
    program = programs.forward(options)

    def run(inputs: Mapping[str, Any], held: Mapping[str, Any], key: jax.Array | None) -> list[jax.Array]:
        arrays = {**held, **inputs}
        args, aux = ({name: arrays[name] for name in names} for names in (program.arg_names, program.aux_names))
        return program.collect(program.run(program.bind(args, aux), key))[0]

    run = run if chunk is None else in_chunks(run, chunk)
    return Served(run, store.wanted(programs, options), program.needs_key)


def _for_chunks(
    programs: Programs, store: ConstantStore, options: Options, inputs: Arrays
) -> tuple[int | None, Options]:
    """Return how many samples run at a time, and options that know their shapes."""
    chunk = chunk_for(programs, store, options, inputs)
    return chunk, for_inputs(options, store, inputs if chunk is None else with_batch(inputs, chunk))


class Parts(NamedTuple):
    """The executable that each stream runs, and for how many samples; None: for all."""

    served: Served
    rows: int | None


def serve_parts(
    programs: Programs, store: ConstantStore, options: Options, inputs: Arrays, one_core: bool = False
) -> Parts | None:
    """Split the batch over the cores: return a single-threaded function for the part of each core.

    one_core: return one that a single core runs for all samples. None: one multi-threaded function is faster
    (`build_signature`), or there is no client of one core.
    """
    if store.placement.platform != "cpu" or store.placement.mesh is not None or cpu_streams.one_core() is None:
        return None
    program, on_one = programs.forward(replace(options, constants=None)), replace(options, backend=ONE_CORE)
    if one_core:
        alone = not program.needs_key and program.segments is None
        return Parts(build_signature(programs, store, on_one, inputs), None) if alone else None
    rows = part_size(program, inputs, _constants(store), cpu_streams.count())
    if rows is None:
        return None
    options, part = on_one, with_batch(inputs, rows)
    graph = programs.plan(_for_chunks(programs, store, options, part)[1]).graph
    calls = any(uses_layout(node) for node in graph.nodes())
    return Parts(build_signature(programs, store, options, part), rows) if calls else None


def for_inputs(options: Options, store: ConstantStore, inputs: Arrays) -> Options:
    """Return options that know the shapes and dtypes of the inputs, as each device has them, and of the constants."""
    placed = {name: store.placement.input(name, shape).shard_shape(shape) for name, (shape, _) in inputs.items()}
    shapes = store.shapes | placed
    dtypes = store.dtypes | {name: dtype for name, (_, dtype) in inputs.items()}
    return replace(options, shapes=tuple(shapes.items()), dtypes=tuple(dtypes.items()))


def chunk_for(programs: Programs, store: ConstantStore, options: Options, inputs: Arrays) -> int | None:
    """Return how many samples run at a time, where those are not all. On a mesh they all do: chunks of a batch that is
    split over devices would be sent from one to another."""
    if store.placement.mesh is not None:
        return None
    return chunk_size(programs.forward(replace(options, constants=None)), inputs, _constants(store))


def _constants(store: ConstantStore) -> Arrays:
    dtypes = store.dtypes
    return {name: (shape, dtypes[name]) for name, shape in store.shapes.items()}
