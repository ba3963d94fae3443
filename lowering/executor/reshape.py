"""The arrays of an executor for other input shapes: shared where the shape stays, new where it does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from lowering.executor.bound_arrays import ArrayCell, OwnCell
from lowering.xla.out_of_memory import read
from symjax_nnvm.errors import BindError, InferenceError, refuse_unknown
from symjax_nnvm.ir.types import is_known
from symjax_nnvm.symbol.inference_calls import infer_shapes
from symjax_nnvm.symbol.symbol import Symbol

Cells = Sequence[ArrayCell]
Shapes = Sequence[tuple[int, ...]]


def reshaped_arrays(
    symbol: Symbol,
    arrays: tuple[Cells, Sequence[ArrayCell | None] | None, Cells],
    shapes: Mapping[str, Any],
    partial_shaping: bool,
    allow_up_sizing: bool,
) -> tuple[list[ArrayCell], list[ArrayCell | None] | None, list[ArrayCell]]:
    """Return (arguments, gradients, states) of `Executor.reshape`. Raises BindError."""
    args, grads, aux = arrays
    refuse_unknown(BindError, "reshape: the graph has no", shapes, symbol.list_inputs(), "names")
    arg_shapes, aux_shapes = _infer(symbol, args, aux, shapes)
    changed = {}
    for what, cells, shapes_found in (("arg", args, arg_shapes), ("aux", aux, aux_shapes)):
        for cell, shape in zip(cells, shapes_found, strict=True):
            _check(what, cell, shape, cell.name in shapes, partial_shaping, allow_up_sizing)
            changed[cell] = cell if shape == cell.shape else _resized(cell, shape)

    def gradient(cell: ArrayCell | None, arg: ArrayCell) -> ArrayCell | None:
        if cell is None or changed[arg] is arg:
            return cell
        return OwnCell.zeros(cell.name, changed[arg].shape, cell.dtype, cell.place)

    new_grads = None if grads is None else [gradient(cell, arg) for cell, arg in zip(grads, args, strict=True)]
    return [changed[cell] for cell in args], new_grads, [changed[cell] for cell in aux]


def _infer(symbol: Symbol, args: Cells, aux: Cells, shapes: Mapping[str, Any]) -> tuple[Shapes, Shapes]:
    """Return shapes of arguments and states that follow from the given ones; what they do not decide stays."""
    try:
        _, inferred, _, _ = infer_shapes(symbol.outputs, (), shapes, symbol.numpy_shapes)
        stay = {cell.name: cell.shape for cell, shape in zip(args, inferred, strict=True) if not is_known(shape)}
        _, arg_shapes, _, aux_shapes = infer_shapes(symbol.outputs, (), {**stay, **shapes}, symbol.numpy_shapes)
    except InferenceError as error:
        listing = "".join(f"{name}: {shape}\n" for name, shape in shapes.items())
        raise BindError(f"reshape error. Arguments:\n{listing}{error}") from error
    return arg_shapes, aux_shapes


def _check(
    what: str, cell: ArrayCell, shape: tuple[int, ...], is_given: bool, partial_shaping: bool, allow_up_sizing: bool
) -> None:
    if shape == cell.shape:
        return
    if not is_given and not partial_shaping:
        raise BindError(
            f"Shape of unspecifie {what}: {cell.name} changed, from {cell.shape} to {shape}. This can cause the new "
            "executor to not share parameters with the old one. Please check for error in network. If this is "
            "intended, set partial_shaping=True to suppress this warning."
        )
    if np.prod(shape, dtype=np.int64) > cell.value.size and not allow_up_sizing:
        raise BindError(
            f"New shape of {what}: {cell.name} is larger than original, {shape} after {cell.shape}. First making a "
            "big executor and then down sizing it is more efficient than the reverse. If you really want to up size, "
            "set allow_up_sizing=True to enable allocation of new arrays."
        )


def _resized(cell: ArrayCell, shape: tuple[int, ...]) -> ArrayCell:
    size = int(np.prod(shape, dtype=np.int64))
    if size > cell.value.size:
        return OwnCell.zeros(cell.name, shape, cell.dtype, cell.place)
    # Through NumPy: JAX would compile a program for every pair of shapes.
    value = np.ravel(read(cell.value))[:size].reshape(shape)
    return OwnCell(cell.name, jax.device_put(value.copy(), cell.place), cell.place, shown=False)
