"""Sequences as one array or symbol, or as a list with one for each step; steps after a sequence's end."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from lowering.mx import ndarray, symbol
from lowering.mx.gluon.gluon_errors import BlockValueError
from lowering.mx.ndarray.array import NDArray, invoke
from symjax_nnvm.symbol import function_named
from symjax_nnvm.symbol.symbol import Symbol

TENSORS = (Symbol, NDArray)


def namespace_of(sequence: Any) -> Any:
    """`mx.sym` for symbols, `mx.nd` for arrays: of one, or of a list."""
    if not isinstance(sequence, TENSORS) and not (isinstance(sequence, list | tuple) and sequence):
        problem = "A sequence must be one array or symbol of all steps, or a list with one for each step"
        raise BlockValueError(problem, got=f"{sequence!r:.80}")
    first = sequence if isinstance(sequence, TENSORS) else sequence[0]
    return symbol if isinstance(first, Symbol) else ndarray


def joined(F: Any, vectors: Sequence[Any]) -> Any:
    """The operator RNN's parameters as one vector."""
    concat: Any = function_named("_rnn_param_concat")
    return invoke(concat, *vectors, dim=0) if F is ndarray else concat(*vectors, dim=0)


def listed(outputs: Any) -> list[Any]:
    """The outputs of an operator as a list: an operator with one output gives that."""
    return [outputs] if isinstance(outputs, NDArray) else list(outputs)


def format_sequence(
    length: int | None, inputs: Any, layout: str, merge: bool | None, in_layout: str | None = None
) -> tuple[Any, int, Any, int]:
    """(the sequence, its axis of steps, its namespace, the size of the batch; 0 for symbols).

    merge: True for one tensor, False for a list with one for each step, None for what it is. in_layout: the layout of
    the sequence, where it is another.
    """
    assert inputs is not None, "unroll(inputs=None) has been deprecated. Please create input variables outside unroll."
    axis, batch_axis = layout.find("T"), layout.find("N")
    in_axis = axis if in_layout is None else in_layout.find("T")
    F = namespace_of(inputs)
    batch_size = 0
    if isinstance(inputs, Symbol):
        if merge is False:
            assert len(inputs.list_outputs()) == 1, (
                "unroll doesn't allow grouped symbol as input. Please convert to list with list(inputs) first or let "
                "unroll handle splitting."
            )
            inputs = list(symbol.split(inputs, axis=in_axis, num_outputs=length, squeeze_axis=1))
    elif isinstance(inputs, NDArray):
        batch_size = inputs.shape[batch_axis]
        if merge is False:
            steps = inputs.shape[in_axis]
            assert length is None or length == steps, (
                f"The sequence has {steps} steps, but unroll was called with length={length}"
            )
            inputs = listed(ndarray.split(inputs, axis=in_axis, num_outputs=steps, squeeze_axis=1))
    else:
        assert length is None or len(inputs) == length, (
            f"The sequence has {len(inputs)} steps, but unroll was called with length={length}"
        )
        batch_size = inputs[0].shape[0] if F is ndarray else 0
        if merge is True:
            inputs = F.stack(*inputs, axis=axis)
            in_axis = axis
    if isinstance(inputs, TENSORS) and axis != in_axis:
        inputs = F.swapaxes(inputs, dim1=axis, dim2=in_axis)
    return inputs, axis, F, batch_size


def mask_sequence(F: Any, data: Any, length: int, valid_length: Any, time_axis: int, merge: bool | None) -> Any:
    """A sequence with zeros in the steps after each sample's end. merge: one tensor, else a list of the steps."""
    data = data if isinstance(data, TENSORS) else F.stack(*data, axis=time_axis)
    masked = F.SequenceMask(data, sequence_length=valid_length, use_sequence_length=True, axis=time_axis)
    return masked if merge else listed(F.split(masked, num_outputs=length, axis=time_axis, squeeze_axis=True))


def reverse_sequences(sequences: Any, unroll_step: int, valid_length: Any = None) -> list[Any]:
    """A list of steps backwards; valid_length: each sample's from its own end on."""
    if valid_length is None:
        return list(reversed(sequences))
    F = namespace_of(sequences)
    turned = F.SequenceReverse(F.stack(*sequences, axis=0), sequence_length=valid_length, use_sequence_length=True)
    if unroll_step == 1 and F is ndarray:
        return [turned[0]]
    return listed(F.split(turned, axis=0, num_outputs=unroll_step, squeeze_axis=True))


def begin_state_of(cell: Any, F: Any, begin_state: Any, inputs: Any, batch_size: int) -> Any:
    """The states that were given, or zeros, on the inputs' context."""
    if begin_state is not None:
        return begin_state
    first: Any = inputs if isinstance(inputs, TENSORS) else inputs[0]
    with first.context if F is ndarray else nullcontext():
        return cell.begin_state(func=F.zeros, batch_size=batch_size)
