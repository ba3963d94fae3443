"""Gradient accumulation: a batch in several micro-batches inside one step, in the memory of one.

The micro-batches run one after the other in a `lax.scan`; auxiliary states pass from each to the next. Without batch
statistics the result is that of the whole batch: gradients of loss heads that sum over the batch are added, those of
heads that average over it are averaged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp

from lowering.core.gradient_program import GradientProgram
from lowering.ops.control.flow import Here
from lowering.sharding.placement import DEFAULT_PLACEMENT, Placement
from lowering.training.placing import split_batch
from symjax_nnvm.errors import TrainingError, cut
from symjax_nnvm.ir.attributes import TStopsGradient
from symjax_nnvm.ir.types import whole_number
from symjax_nnvm.symbol.symbol import Symbol

Arrays = Mapping[str, jax.Array]
Reduction = Literal["sum", "mean"]
ProgramFor = Callable[[Arrays], GradientProgram]
"""The program for these arguments, or arrays of their shapes."""


@dataclass(frozen=True)
class Accumulation:
    """Describes the micro-batches of a step. count: how many there are. reduction: how their gradients combine; None to
    find it from the loss heads."""

    count: int
    reduction: Reduction | None

    def run(
        self,
        program_for: ProgramFor,
        constants: Arrays,
        batch: Arrays,
        aux: Arrays,
        key: jax.Array,
        placement: Placement = DEFAULT_PLACEMENT,
    ) -> tuple[list[jax.Array], dict[str, jax.Array], dict[str, jax.Array]]:
        """Return (outputs, gradients, new auxiliary states) of a batch.

        Outputs of the micro-batches are joined along axis 0. placement: each of them is split over its devices.
        Raises TrainingError where the batch cannot be split.
        """
        if self.count == 1:
            return program_for({**constants, **batch})({**constants, **batch}, aux, key, None)
        sizes = {name: array.shape[0] for name, array in batch.items()}
        size = next(iter(sizes.values()))
        if len(set(sizes.values())) > 1 or size % self.count:
            expected = f"arrays of the same length, a multiple of {self.count}"
            raise TrainingError("The batch cannot be split for accumulate", expected=expected, got=sizes)
        micro = size // self.count
        first = {name: array[:micro] for name, array in batch.items()}
        program = program_for({**constants, **first})
        reduction = self.reduction_of(program, {**constants, **first}, micro)
        parts = {name: array.reshape(self.count, micro, *array.shape[1:]) for name, array in batch.items()}
        parts = split_batch(placement, parts, axis=1)

        def body(carry: Any, part: Any) -> Any:
            sums, aux = carry
            number, arrays = part
            outputs, grads, aux = program({**constants, **arrays}, aux, jax.random.fold_in(key, number), None)
            return ({name: sums[name] + grads[name] for name in sums}, aux), outputs

        zeros = {name: jnp.zeros_like(constants[name]) for name in program.wrt}
        steps: Any = jax.lax.scan if program.program.segments is None else Here.scan
        (grads, new_aux), outputs = steps(body, (zeros, dict(aux)), (jnp.arange(self.count), parts))
        if reduction == "mean":
            grads = {name: grad / self.count for name, grad in grads.items()}
        return [output.reshape(-1, *output.shape[2:]) for output in outputs], grads, new_aux

    def reduction_of(self, program: GradientProgram, arrays: Arrays, rows: int) -> Reduction:
        """Return how the gradients of a batch's parts combine. arrays: all arguments, with the rows of one part.

        Raises TrainingError where this cannot be found out.
        """
        return self.reduction or _reduction(program.symbol, {name: a.shape for name, a in arrays.items()}, rows)


def parse_accumulate(value: int | tuple[int, Reduction]) -> Accumulation:
    """Parse `accumulate=` of the Trainer. Raises TrainingError."""
    count_given, reduction = value if isinstance(value, tuple | list) and len(value) == 2 else (value, None)
    try:
        count = whole_number(count_given)
    except TypeError:
        count = 0
    if count < 1 or reduction not in (None, "sum", "mean"):
        expected = 'a number of micro-batches, or (number, "sum"), or (number, "mean")'
        raise TrainingError("Wrong accumulate", expected=expected, got=cut(repr(value), 100))
    return Accumulation(count, reduction)


def _reduction(symbol: Symbol, shapes: Mapping[str, tuple[int, ...]], micro: int) -> Reduction:
    """Return whether the loss heads sum over the batch or average over it. Raises TrainingError where that is open."""
    _, output_shapes, _ = symbol.infer_shape_partial(**shapes)
    reductions: dict[str, Reduction] = {}
    for entry, name, shape in zip(symbol.outputs, symbol.list_outputs(), output_shapes, strict=True):
        op = entry.node.op
        if TStopsGradient.get(op):
            continue
        normalization = getattr(entry.node.attrs.parsed, "normalization", "null")
        by_row = bool(shape) and micro > 1 and shape[0] % micro == 0
        if normalization == "valid" or not by_row:
            raise TrainingError(
                "accumulate cannot find out whether this loss sums or averages over the batch",
                op=op,
                node=name,
                expected='accumulate=(number, "sum") or accumulate=(number, "mean")',
            )
        reductions[name] = "mean" if normalization == "batch" else "sum"
    if len(set(reductions.values())) > 1:
        raise TrainingError("Some losses sum over the batch and others average over it", got=reductions)
    return "mean" if "mean" in reductions.values() else "sum"
