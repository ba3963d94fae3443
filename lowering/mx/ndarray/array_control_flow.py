"""`mx.nd.contrib.foreach`, `while_loop` and `cond`: Python's loops and branches, over arrays that have values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lowering.mx.ndarray.array import NDArray, invoke, require_arrays
from lowering.mx.ndarray.creation import zeros
from symjax_nnvm.errors import CallError
from symjax_nnvm.symbol import function_named


def _listed(arrays: Any) -> list[NDArray]:
    if arrays is None:
        return []
    return [arrays] if isinstance(arrays, NDArray) else list(arrays)


def _stacked(steps: Sequence[list[NDArray]], length: int) -> list[NDArray]:
    """Return the outputs of all steps, each in one array of `length` rows, zeros where there was no step."""
    stacks = []
    for parts in zip(*steps, strict=True):
        rows = [invoke(function_named("expand_dims"), part, axis=0) for part in parts]
        if len(rows) < length:
            rows.append(zeros((length - len(rows), *parts[0].shape), parts[0].context, parts[0].dtype))
        stacks.append(invoke(function_named("concat"), *rows, dim=0))
    return stacks


def foreach(body: Callable[..., Any], data: Any, init_states: Any) -> tuple[Any, Any]:
    """(outputs of all steps, last states) of body(row, states) → (output, states) over the rows of data.

    Each of data, states and outputs is an NDArray or a list of them.
    """
    states, steps, alone = init_states, [], True
    require_arrays(data if isinstance(data, list | tuple) else [data], "data of foreach, or each array in its list,")
    for i in range(len(_listed(data)[0])):
        row = data[i] if isinstance(data, NDArray) else [array[i] for array in data]
        output, states = body(row, states)
        alone = isinstance(output, NDArray)
        steps.append(_listed(output))
    outputs = _stacked(steps, len(steps))
    return outputs[0] if alone and outputs else outputs, states


def while_loop(
    cond: Callable[..., Any], func: Callable[..., Any], loop_vars: Any, max_iterations: int | None = None
) -> tuple[Any, Any]:
    """(outputs of all steps, last variables): func(*variables) → (output, variables) while cond(*variables) holds.

    max_iterations: the most steps, and the rows of the outputs: zeros after the last step. Raises CallError without it.
    """
    if max_iterations is None:
        raise CallError("max_iterations should be specified", fix="while_loop(cond, func, loop_vars, max_iterations=9)")
    variables, steps, alone = _listed(loop_vars), [], False
    while len(steps) < int(max_iterations) and bool(cond(*variables)):
        output, new = func(*variables)
        variables, alone = _listed(new), isinstance(output, NDArray)
        steps.append(_listed(output))
    outputs = _stacked(steps, int(max_iterations))
    return outputs[0] if alone else outputs, variables[0] if isinstance(loop_vars, NDArray) else variables


def cond(pred: Any, then_func: Callable[[], Any], else_func: Callable[[], Any]) -> Any:
    """Return the result of one of two functions."""
    return then_func() if bool(pred) else else_func()
