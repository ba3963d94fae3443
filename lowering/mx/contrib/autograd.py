"""`mx.contrib.autograd`: gradients as MXNet 0.9 had them, over `mx.autograd`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from lowering.mx import autograd
from lowering.mx.ndarray import NDArray, zeros


def set_is_training(is_train: bool) -> bool:
    """Run as in training, and record, or not; whether it was so before."""
    autograd.set_recording(is_train)
    return autograd.set_training(is_train)


@contextmanager
def TrainingStateScope(enter_state: bool) -> Iterator[None]:
    """A block that runs as in training and is recorded, or not."""
    before = set_is_training(enter_state)
    try:
        yield
    finally:
        set_is_training(before)


def train_section() -> Any:
    """A block of training, which is recorded."""
    return TrainingStateScope(True)


def test_section() -> Any:
    """A block of inference, which is not."""
    return TrainingStateScope(False)


test_section.__test__ = False  # pyright: ignore[reportFunctionMemberAccess]  # not for pytest

mark_variables = autograd.mark_variables


def backward(outputs: Sequence[NDArray], out_grads: Any = None, retain_graph: bool = False) -> None:
    """Compute the gradients of outputs into the arrays of `mark_variables`. Raises AssertionError for one array instead
    of a list."""
    assert isinstance(outputs, list | tuple), "outputs must be a list or tuple of NDArrays"
    autograd.backward(outputs, out_grads, retain_graph)


def compute_gradient(outputs: Sequence[NDArray]) -> None:
    """`backward`."""
    backward(outputs)


def grad_and_loss(func: Callable[..., Any], argnum: int | list[int] | None = None) -> Callable[..., Any]:
    """A function that gives (gradients by its arguments, what func gives). argnum: of which arguments; None: all.

    The function raises AssertionError if one of these arguments is not an NDArray.
    """

    @functools.wraps(func)
    def both(*args: Any) -> tuple[list[NDArray], Any]:
        numbers = range(len(args)) if argnum is None else argnum if isinstance(argnum, list) else [argnum]
        variables = [args[i] for i in numbers]
        for variable in variables:
            assert isinstance(variable, NDArray), "type of autograd input should NDArray."
        gradients = [zeros(leaf.shape, leaf.context, leaf.dtype) for leaf in variables]
        mark_variables(variables, gradients)
        with train_section():
            outputs = func(*args)
        compute_gradient([outputs] if isinstance(outputs, NDArray) else outputs)
        return gradients, outputs

    return both


def grad(func: Callable[..., Any], argnum: int | list[int] | None = None) -> Callable[..., list[NDArray]]:
    """A function that returns only the gradients."""
    both = grad_and_loss(func, argnum)

    @functools.wraps(func)
    def gradients(*args: Any) -> list[NDArray]:
        return both(*args)[0]

    return gradients
