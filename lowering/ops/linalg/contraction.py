"""JAX rules of the sums of products over named axes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.jax_casts import cast
from symjax_nnvm.ops.linalg.contraction import LABELS, Contraction, Labels

Operand = tuple[Any, Labels]
"""An array and the labels of its axes."""


def _unstretched(array: Array, labels: Labels, sizes: dict[Hashable, Any]) -> Operand:
    """Return an operand without its axes of size 1 that others repeat."""
    axes = [i for i, label in enumerate(labels) if array.shape[i] == sizes[label]]
    return array.reshape([array.shape[i] for i in axes]), tuple(labels[i] for i in axes)


def _summed(operands: Sequence[Operand], target: Labels, sizes: dict[Hashable, Any]) -> Array:
    """Return the sum of products whose axes are `target`; along labels that no operand has it is repeated."""
    numbers = {label: i for i, label in enumerate(sizes)}
    there = {label for _, labels in operands for label in labels}
    present_labels = [label for label in target if label in there]
    dtype = operands[0][0].dtype
    named: list[Any] = []
    for array, labels in operands:
        named += [array.astype(np.int32) if dtype == np.bool_ else array, [numbers[label] for label in labels]]
    result = cast(jnp.einsum(*named, [numbers[label] for label in present_labels]), dtype)
    axes = [i for i, label in enumerate(target) if label in there]
    return lax.broadcast_in_dim(result, [sizes[label] for label in target], axes)


def _forward(labels: Callable[..., Contraction]) -> Callable[..., Array]:
    def rule(p: Any, *arrays: Array) -> Array:
        contraction = labels(p, *(array.ndim for array in arrays))
        sizes = contraction.sizes([array.shape for array in arrays])
        pairs = zip(arrays, contraction.inputs, strict=True)
        return _summed([_unstretched(*pair, sizes) for pair in pairs], contraction.output, sizes)

    return rule


def _backward(labels: Callable[..., Contraction]) -> Callable[..., Array]:
    def rule(p: Any, ograd: Array, *arrays: Array) -> Array:
        """The sum of products of ograd and the other operands, whose axes are the operand's; where that has an axis
        twice, on their diagonal."""
        contraction = labels(p, *(array.ndim for array in arrays))
        sizes = contraction.sizes([array.shape for array in arrays])
        operands: list[Operand] = [(ograd, contraction.output)]
        pairs = enumerate(zip(arrays, contraction.inputs, strict=True))
        operands += [_unstretched(*pair, sizes) for i, pair in pairs if i != p.number]
        whole = arrays[p.number]
        _, target = _unstretched(whole, contraction.inputs[p.number], sizes)
        distinct: list[Hashable] = []
        for i, label in enumerate(target):
            again = ("again", i)
            if label in distinct:
                sizes[again] = sizes[label]
                operands.append((np.eye(int(sizes[label] or 0), dtype=ograd.dtype), (label, again)))
            distinct.append(again if label in distinct else label)
        return _summed(operands, tuple(distinct), sizes).reshape(whole.shape)

    return rule


for _name, _labels in LABELS.items():
    lowers(_name)(_forward(_labels))
    lowers(f"_backward{_name}")(_backward(_labels))
