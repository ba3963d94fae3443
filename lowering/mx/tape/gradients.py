"""Gradients of a tape: by one program, or call by call, with arrays or with arrays that are on the tape again."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from lowering.host.open_sizes import OpenTraces
from lowering.host.staged import Staged
from lowering.mx.context import check_one_device
from lowering.mx.ndarray.array import NDArray, NotAnArrayError, in_dialect, like_jax, require_arrays, run_symbol
from lowering.mx.tape.backward import Place, Tape, leaf_gradients
from lowering.mx.tape.programs import WaitingCall, short_tape_gradients
from lowering.mx.tape.recording import ByPython, Call, Leaf, Scope
from symjax_nnvm.errors import GradientError
from symjax_nnvm.symbol import Group
from symjax_nnvm.symbol.symbol import Symbol

_ones_like, _zeros_like, _added = (
    Staged(function, open_traces=OpenTraces(), few=True) for function in (jnp.ones_like, jnp.zeros_like, operator.add)
)


def require_array(array: object) -> None:
    """Raise NotAnArrayError for what is no NDArray."""
    if not isinstance(array, NDArray):
        problem = "Gradients are taken only of NDArrays, with respect to NDArrays"
        raise NotAnArrayError(problem, got=type(array).__name__, fix="mx.nd.array(value) makes one.")


def listed_arrays(arrays: Any) -> list[NDArray]:
    """One or several arrays as a list. Raises NotAnArrayError for other values."""
    if not isinstance(arrays, Iterable):
        require_array(arrays)
    listed = [arrays] if isinstance(arrays, NDArray) else list(arrays)
    for array in listed:
        if array is not None:  # a head gradient that is left out
            require_array(array)
    return listed


def computed_gradients(
    heads: Sequence[NDArray],
    head_grads: Any,
    request: Callable[[Leaf], str],
    *,
    retain: bool,
    summed: set[Leaf] | None = None,
) -> Mapping[Leaf, Any]:
    """Return the gradient of each leaf that the heads were computed of, unless it is requested as "null".

    retain: whether the calls can be differentiated again. summed: gradients are kept in the leaves' arrays: they may be
    None, and computed when these are read; receives those leaves of "add" whose old gradient is in the new one, because
    Python has added it.
    """
    ograds, tape = _given(heads, head_grads), Tape([head.entry for head in heads], request)
    values = [None if gradient is None else gradient.value for gradient in ograds]
    gradients = short_tape_gradients(tape, values, retain, may_wait=summed is not None)
    if gradients is None:
        adding, summed = ({}, set()) if summed is None else (_adding(tape), summed)

        def of_call(number: int, wrt: tuple[str, ...], head_grads: Sequence[NDArray]) -> Sequence[NDArray]:
            call, places = tape.calls[number], tape.rows[number].places
            by_python = call.function.summed_by_python(wrt) if adding else ()
            added = {n: adding[at] for n, at in zip(wrt, places, strict=True) if n in by_python and at in adding}
            summed.update(added.values())
            onto = {name: leaf.cell.show() for name, leaf in added.items()}
            states = {name: array.value for name, array in call.states.items()}
            heads = [gradient.value for gradient in head_grads]
            computed, written = call.function.gradients(wrt, call, heads, states, onto)
            for name, value in written.items():
                call.states[name].cell.assign(value)
            return [like_jax(computed[name], head_grads[0].context) for name in wrt]

        add = lambda a, b: like_jax(_added(a.value, b.value), a.context)  # noqa: E731
        arrays = _by_calls(tape, heads, ograds, of_call, add)
        gradients = {leaf: gradient.value for leaf, gradient in arrays.items()}
    if not retain:
        tape.forget()
    return gradients


def recorded_gradients(
    heads: Sequence[NDArray], head_grads: Any, request: Callable[[Leaf], str], *, retain: bool
) -> dict[Leaf, NDArray]:
    """Return the same as arrays that are on the tape."""
    ograds, tape = _given(heads, head_grads), Tape([head.entry for head in heads], request)
    with Scope(True, None):
        gradients = _by_calls(tape, heads, ograds, partial(_recorded_of_call, tape), operator.add)
    if not retain:
        tape.forget()
    return gradients


def _given(heads: Sequence[NDArray], head_grads: Any) -> list[NDArray | None]:
    """Return a head gradient, or None, for each head."""
    ograds = [None] * len(heads) if head_grads is None else listed_arrays(head_grads)
    if not heads:
        raise GradientError("There are no heads to differentiate", fix="mx.autograd.backward([y])")
    if len(ograds) != len(heads):
        problem = "heads and head_grads must be lists of the same length"
        raise GradientError(problem, expected=len(heads), got=len(ograds))
    require_arrays([gradient for gradient in ograds if gradient is not None], "A head gradient")
    for head, gradient in zip(heads, ograds, strict=True):
        if gradient is not None and gradient.dtype != head.dtype:
            dtypes = {"expected": np.dtype(head.dtype).name, "got": np.dtype(gradient.dtype).name}
            raise GradientError("A head gradient must have the dtype of its head", **dtypes)
        if gradient is not None and gradient.context is not head.context:
            check_one_device("backward", [head.context, gradient.context])
    return [*ograds]


def _by_calls(
    tape: Tape,
    heads: Sequence[NDArray],
    ograds: Sequence[NDArray | None],
    of_call: Callable[[int, tuple[str, ...], Sequence[NDArray]], Sequence[NDArray]],
    add: Callable[[NDArray, NDArray], NDArray],
) -> dict[Leaf, NDArray]:
    """Return the gradients, call by call.

    of_call: (number of a call, names of inputs, gradients of its outputs) → gradients of these inputs. add: the sum of
    two.
    """
    for call in tape.calls:
        if isinstance(call, WaitingCall):
            call.run()

    def differentiate(number: int, head_grads: list[NDArray], wrt: tuple[int, ...]) -> Sequence[NDArray]:
        call = tape.calls[number]
        if isinstance(call.function, ByPython):
            return _by_python(call, head_grads, wrt)
        return of_call(number, tuple([call.function.names[i] for i in wrt]), head_grads)

    def zeros(number: int, output: int, beside: NDArray) -> NDArray:
        return like_jax(_zeros_like(tape.calls[number].outputs[output]), beside.context)

    starts = [
        like_jax(_ones_like(head.value), head.context) if gradient is None else gradient
        for head, gradient in zip(heads, ograds, strict=True)
    ]
    gradients = leaf_gradients(tape.rows, [*zip(tape.heads, starts, strict=True)], differentiate, add, zeros)
    return {tape.leaves[number]: gradient for number, gradient in gradients.items()}


def _adding(tape: Tape) -> Mapping[Place, Leaf]:
    """Return the leaves whose gradients are added to old ones, and come from one call alone: it may do so itself."""
    places = Counter(place for row in tape.rows for place in row.places)
    leaves = {(-1, i): leaf for i, leaf in enumerate(tape.leaves) if leaf.grad_req == "add"}
    return {place: leaf for place, leaf in leaves.items() if places[place] == 1 and place not in tape.heads}


def _by_python(call: Call, heads: Sequence[NDArray], wrt: tuple[int, ...]) -> list[NDArray]:
    """Return the gradients that a call's own `backward` computes, of the inputs with these numbers."""
    if (dialect := call.function._dialect) is not None:
        heads = [in_dialect(head, dialect) for head in heads]
    gradients = listed_arrays(call.function.backward(*heads))
    if len(gradients) != len(call.entries):
        problem = f"{type(call.function).__name__}.backward must return one gradient for each input"
        raise GradientError(problem, expected=f"{len(call.entries)} arrays", got=len(gradients))
    return [gradients[position] for position in wrt]


def _recorded_of_call(tape: Tape, number: int, wrt: tuple[str, ...], heads: Sequence[NDArray]) -> list[NDArray]:
    """Return the same as a call on the tape: the gradient of a symbol is a symbol."""
    call = tape.calls[number]
    if call.drawn is not None:
        problem = "create_graph=True cannot differentiate a random operator: its random numbers are not kept"
        raise GradientError(problem, fix="Take it through a symbol: net.gradient(...).gradient(...).")
    names: list[str] = call.function.names
    context = heads[0].context
    cells = [like_jax(value, context).cell for value in call.values]
    inputs = [NDArray(cell, context, entry) for cell, entry in zip(cells, call.entries, strict=True)]
    head_variables = [Symbol.create_variable(f"a{len(names) + i}") for i in range(len(heads))]
    renamed = {name: Symbol.create_variable(f"a{i}") for i, name in enumerate(names)}
    symbol = call.function.symbol(**renamed)
    gradient = symbol.gradient([f"a{names.index(name)}" for name in wrt], head_grads=head_variables)
    return run_symbol(Group(list(gradient)), [*inputs, *heads], context)
