"""The head gradients that `Executor.backward` is given, in any of MXNet's forms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lowering.executor.bound_arrays import array_like
from symjax_nnvm.errors import ExecutorTypeError, ExecutorValueError, GradientError, listed


def head_gradients(out_grads: Any, names: Sequence[str], required: Sequence[bool]) -> list[Any]:
    """Return one head gradient per output; None where the gradients depend on none.

    out_grads: an array, a list by number (a surplus is ignored) or a dict by output name. names: the names of the
    outputs. Raises GradientError when one is missing, ExecutorTypeError for anything that is not an array,
    ExecutorValueError for an unknown name.
    """
    match out_grads:
        case None:
            gradients: list[Any] = []
        case Mapping():
            unknown = [name for name in out_grads if name not in names]
            if unknown:
                raise ExecutorValueError(
                    f"There are head gradients for unknown outputs {listed(unknown)}",
                    expected=f"names among {listed(names)}",
                )
            gradients = [out_grads.get(name) for name in names]
        case list() | tuple():
            gradients = list(out_grads[: len(names)])
        case _:
            gradients = [out_grads]
    gradients += [None] * (len(names) - len(gradients))
    for name, needed, head in zip(names, required, gradients, strict=True):
        if head is not None and not array_like(head):
            raise ExecutorTypeError(f"inputs must be NDArray, got {type(head).__name__} for output {name}")
        if needed and head is None:
            raise GradientError(
                "Because the last operator is not Loss function, head_gradient is required when calling backward",
                node=name,
                fix="If you are attempting to minimize the output as an objective, please modify your network "
                "and pass it through the make_loss symbol.",
            )
    return [head if needed else None for needed, head in zip(required, gradients, strict=True)]
