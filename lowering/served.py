"""`serve`: what runs a network with constant parameters for inputs of given shapes; a predictor compiles it, a file has
it.

The algorithms are those that are fastest for the shapes, and a CPU runs a large batch a few samples at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import jax

from lowering.chunks import Arrays, chunk_size, in_chunks, with_batch
from lowering.kept import Kept, Wanted
from lowering.programs import Programs
from symjax_nnvm.pipeline import Options


class Served(NamedTuple):
    """run(inputs, held, key) → outputs, arrays by name; what it takes besides inputs; whether it reads the key."""

    run: Callable[[Mapping[str, jax.Array], Mapping[str, jax.Array], jax.Array | None], list[jax.Array]]
    wanted: Wanted
    needs_key: bool


def serve(programs: Programs, kept: Kept, options: Options, inputs: Arrays | None) -> Served:
    """What runs inputs of these shapes and dtypes; None: of any."""
    chunk = None
    if inputs is not None:
        chunk = chunk_for(programs, kept, options, inputs)
        options = for_inputs(options, kept, inputs if chunk is None else with_batch(inputs, chunk))
    program = programs.forward(options)

    def run(inputs: Mapping[str, Any], held: Mapping[str, Any], key: jax.Array | None) -> list[jax.Array]:
        given = {**held, **inputs}
        args, aux = ({name: given[name] for name in names} for names in (program.arg_names, program.aux_names))
        return program.collect(program.run(program.bind(args, aux), key))[0]

    run = run if chunk is None else in_chunks(run, chunk)
    return Served(run, kept.wanted(programs, options), program.needs_key)


def for_inputs(options: Options, kept: Kept, inputs: Arrays) -> Options:
    """Options that know the shapes and dtypes of the inputs, as each device has them, and of the constants."""
    shapes = kept.shapes | {name: kept.home.part(name, shape) for name, (shape, _) in inputs.items()}
    dtypes = kept.dtypes | {name: dtype for name, (_, dtype) in inputs.items()}
    return replace(options, shapes=tuple(shapes.items()), dtypes=tuple(dtypes.items()))


def chunk_for(programs: Programs, kept: Kept, options: Options, inputs: Arrays) -> int | None:
    """How many samples run at a time, where those are not all. On a mesh they all do: chunks of a batch that is split
    over devices would be sent from one to another."""
    if kept.home.mesh is not None:
        return None
    shapes, dtypes = kept.shapes, kept.dtypes
    whole = programs.forward(replace(options, constants=None))
    return chunk_size(whole, inputs, {name: (shape, dtypes[name]) for name, shape in shapes.items()})
