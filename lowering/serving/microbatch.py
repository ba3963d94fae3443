"""Run a few samples at a time, so that what passes between operators stays in the caches.

The convolutions of a large batch write their results to memory, and bias, activation and sum read them from there. A
CPU runs the whole network faster on chunks of the batch, one after the other, as long as reading the parameters again
for each costs less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isqrt, prod
from typing import Any, NamedTuple

import jax

from lowering.core.program import Program
from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.attributes import FSamples
from symjax_nnvm.ir.types import DType, Shape

CHUNK_BYTES = 16 << 20
"""Bytes of the largest array that passes between operators: what two cores' caches hold, and a little more."""

FOR_CHUNKS, FOR_PARTS = 8, 2
"""A batch is cut into chunks (or parts that run side by side) only if the arrays between operators have this many times
the bytes of the parameters, which each chunk (or part) reads again. Batches of 16, in chunks and not, milliseconds:
ResNet-18 (2.9 times) 129 and 110, ResNet-50 (5.7) 300 and 267, MobileNet v2 (12) 45 and 54, MobileNet (14) 52 and 59,
DenseNet-121 (24) 257 and 295."""

Arrays = Mapping[str, tuple[Shape, DType]]
Sizes = dict[int, tuple[int, ...]]
"""Shapes by the number of an entry."""


class Batch(NamedTuple):
    """The samples of a program's inputs, which are independent of each other.

    size: their number. sample: bytes of each array of one sample. may_run: (samples, factor) → whether the program may
    run that many samples at a time, if its arrays have `factor` times the bytes of the parameters.
    """

    size: int
    sample: list[int]
    may_run: Callable[[int, int], bool]

    @property
    def chunk(self) -> int | None:
        """Return how many samples to run at a time; None: all."""
        if self.size * max(self.sample) <= CHUNK_BYTES:
            return None
        size = _largest_divisor(self.size, CHUNK_BYTES // max(self.sample))
        return size if self.may_run(size, FOR_CHUNKS) else None

    def part(self, count: int) -> int | None:
        """Return how many samples each of `count` parts has, which run side by side; None where there are no equal
        parts, or where reading the parameters for each part costs more than that saves."""
        if self.size % count:
            return None
        size = self.size // count
        return size if self.may_run(size, FOR_PARTS) else None


def batch_of(program: Program, inputs: Arrays, constants: Arrays) -> Batch | None:
    """Return the batch of a program's inputs; None where samples may mix, and on what is not a CPU.

    inputs, constants: shape and dtype of the variables by name.
    """
    batches = {shape[:1] for shape, _ in inputs.values()}
    if program.platform != "cpu" or len(batches) != 1 or program.needs_key or program.index.mutable_input_nodes:
        return None
    if program.segments is not None:  # whose Python is called once for all samples
        return None
    size = (next(iter(batches), ()) or (0,))[0] or 0
    whole = _of_data(program, inputs, constants, size) if size else None
    if not whole:
        return None
    sample = [4 * prod(shape[1:]) for shape in whole.values()]
    parameters = sum(4 * prod(d or 1 for d in shape) for shape, _ in constants.values())

    def may_run(size: int, times: int) -> bool:
        if times * parameters > size * sum(sample):
            return False
        parts = _of_data(program, with_batch(inputs, size), constants, size)
        return parts == {eid: (size, *shape[1:]) for eid, shape in whole.items()}

    return Batch(size, sample, may_run)


def _largest_divisor(number: int, most: int) -> int:
    """Return the largest divisor that is not more than `most`, by the lesser of each pair; 1 where there is none."""
    lesser = range(1, min(isqrt(number), most) + 1)
    return max((c for i in lesser if number % i == 0 for c in (i, number // i) if c <= most), default=1)


def with_batch(inputs: Arrays, size: int) -> Arrays:
    """Return shapes and dtypes of the same arrays with `size` samples."""
    return {name: ((size, *shape[1:]), dtype) for name, (shape, dtype) in inputs.items()}


def in_chunks(run: Callable[..., list[jax.Array]], size: int) -> Callable[..., list[jax.Array]]:
    """Return a function (inputs by name, …) → outputs that runs `size` samples at a time, one chunk after the other."""

    def mapped(inputs: Mapping[str, jax.Array], *arguments: Any) -> list[jax.Array]:
        chunks = {name: x.reshape(-1, size, *x.shape[1:]) for name, x in inputs.items()}
        outputs = jax.lax.map(lambda chunk: run(chunk, *arguments), chunks)
        return [x.reshape(-1, *x.shape[2:]) for x in outputs]

    return mapped


def _of_data(program: Program, inputs: Arrays, constants: Arrays, batch: int) -> Sizes | None:
    """Return shapes of entries that depend on inputs; None if samples may mix or an operator changes the batch size."""
    index, sizes_of_data = program.index, Sizes()
    try:
        shapes: Sequence[Shape | None] = program.inference.of_variables({**inputs, **constants}).shapes
    except InferenceError:
        return None
    for nid, node in enumerate(index.nodes):
        first, last = index.entry_rptr[nid : nid + 2]
        ins = [index.entry_id(entry) for entry in node.inputs]
        source = node.source
        if source.name not in inputs if source.is_variable else sizes_of_data.keys().isdisjoint(ins):
            continue
        sizes = [_fixed_sizes(shapes[eid]) for eid in (*ins, *range(first, last))]
        if None in sizes or any(size and size[:1] != (batch,) for size in sizes[len(ins) :]):
            return None
        dims = [size or () for size in sizes]
        rule = FSamples.get(source.attrs.op)
        if not source.is_variable and not (rule and rule(source.attrs, dims[: len(ins)], dims[len(ins) :])):
            return None
        sizes_of_data |= zip(range(first, last), dims[len(ins) :], strict=True)
    return sizes_of_data


def _fixed_sizes(shape: Shape | None) -> tuple[int, ...] | None:
    sizes = tuple(dim for dim in shape or () if dim is not None)
    return sizes if shape is not None and len(sizes) == len(shape) else None
