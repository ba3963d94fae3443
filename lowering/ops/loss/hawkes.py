"""JAX rules of hawkesll and of its derivatives.

With s(t) the memory of the processes, nₖ the number of events of one and T = max_time, the log-likelihood is

    Σᵢ log λ(tᵢ) - Σₖ [ldaₖ T + αₖ (sₖ(0) + nₖ - sₖ(T))],

because what a process adds to its compensator between two events is what its memory loses. Only the memory is a
recurrence, and a linear one: it decays from event to event, and each event adds 1 to that of its process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.ops import dual
from lowering.ops.dual import Number, exp, linear, log, reciprocal, select
from lowering.ops.nn.sequence import whole_lengths
from symjax_nnvm.ops.loss import hawkes as ops


@dataclass(frozen=True)
class Events:
    """The events, time first. hits: (t, n, k) 1 for the process of a valid event. valid: (t, n, 1). lags: (t, n, 1), 0
    where there is no event. decays: (t, n, k). rest: (n, 1), time after the last event. last: (n, k), decay by then."""

    hits: Array
    valid: Array
    lags: Any
    decays: Any
    rest: Any
    last: Any


def _wide(inputs: Sequence[Number]) -> list[Any]:
    return [linear(lambda a: a.astype(jnp.promote_types(a.dtype, jnp.float32)), x) for x in inputs]


def _summed(x: Number, axis: int | tuple[int, ...], *, keepdims: bool = False) -> Any:
    return linear(lambda a: jnp.sum(a, axis, keepdims=keepdims), x)


def _events(beta: Number, lags: Number, max_time: Number, marks: Array, valid_length: Array) -> Events:
    times = linear(lambda a: a.T[:, :, None], lags)
    processes = lax.iota(jnp.int32, dual.plain(beta).shape[0])
    steps = lax.iota(jnp.int32, marks.shape[1])
    valid = (steps[:, None] < whole_lengths(valid_length)[None, :])[:, :, None]
    marks = jnp.clip(whole_lengths(marks), 0, processes.shape[0] - 1)
    hits = jnp.where(valid & (marks.T[:, :, None] == processes), 1, 0).astype(dual.plain(beta).dtype)
    times = select(valid, times, 0.0)
    time_left = linear(lambda a: a[:, None], max_time) - _summed(times, 0)
    return Events(hits, valid, times, exp(-(times * beta)), time_left, exp(-(time_left * beta)))


def _memory(events: Events, state: Number) -> Any:
    """Return memory at each event (t, n, k), before the event adds to it."""

    def step(memory: Any, at: tuple[Any, Array]) -> tuple[Any, Any]:
        decay, hit = at
        before = memory * decay
        return before + hit, before

    return lax.scan(step, state, (events.decays, events.hits))[1]


def _intensities(events: Events, lda: Number, alpha: Number, beta: Number, memory: Number) -> Any:
    """Return (t, n, 1): that of each event's process; 1 where there is no event."""
    chosen = _summed((alpha * beta * memory + lda) * events.hits, 2, keepdims=True)
    return select(events.valid, chosen, 1.0)


def _outputs(inputs: Sequence[Number], marks: Array, valid_length: Array) -> list[Any]:
    """Return [log-likelihood (n,), memory at max_time (n, k), memory at each event (t, n, k)]."""
    lda, alpha, beta, state, lags, max_time = _wide(inputs)
    events = _events(beta, lags, max_time, marks, valid_length)
    memory = _memory(events, state)
    final = linear(lambda a: a[-1], memory + events.hits) * events.last
    logs = _summed(log(_intensities(events, lda, alpha, beta, memory)), (0, 2))
    background = lda * linear(lambda a: a[:, None], max_time)
    lost = state + jnp.sum(events.hits, 0) - final
    return [logs - _summed(background + lost * alpha, 1), final, memory]


def _gradients(
    heads: Sequence[Array], inputs: Sequence[Number], marks: Array, valid_length: Array, stored_memory: Number | None
) -> list[Any]:
    """Return gradients of the differentiable inputs; stored_memory: that of a forward pass, if there was one."""
    lda, alpha, beta, state, lags, max_time = _wide(inputs)
    dlikelihood, dfinal = (head.astype(dual.plain(lda).dtype) for head in heads)
    dlikelihood = dlikelihood[:, None]
    events = _events(beta, lags, max_time, marks, valid_length)
    memory = _memory(events, state) if stored_memory is None else stored_memory
    after = memory + events.hits
    before = linear(lambda a, b: jnp.concatenate([a[None], b[:-1]]), state, after)
    final = linear(lambda a: a[-1], after) * events.last

    dchosen = reciprocal(_intensities(events, lda, alpha, beta, memory)) * events.hits * dlikelihood
    dfinal = alpha * dlikelihood + dfinal

    def step(grad: Any, at: tuple[Any, Any]) -> tuple[Any, Any]:
        direct, decay = at
        state_gradient = grad + direct
        return state_gradient * decay, state_gradient

    dfirst, dmemory = lax.scan(step, dfinal * events.last, (dchosen * alpha * beta, events.decays), reverse=True)
    ddecays = dmemory * before * events.decays
    drest = dfinal * final
    lost = state + jnp.sum(events.hits, 0) - final
    drest_time = -_summed(drest * beta, 1, keepdims=True)
    dlags = -_summed(ddecays * beta, 2, keepdims=True) - drest_time
    time = linear(lambda a: a[:, None], max_time)
    return [
        _summed(dchosen, 0) - time * dlikelihood,
        _summed(dchosen * beta * memory, (0, 1)) - _summed(lost * dlikelihood, 0),
        _summed(dchosen * alpha * memory - ddecays * events.lags, (0, 1)) - _summed(drest * events.rest, 0),
        dfirst - alpha * dlikelihood,
        linear(lambda a: a[:, :, 0].T, select(events.valid, dlags, 0.0)),
        linear(lambda a: a[:, 0], drest_time - _summed(lda * dlikelihood, 1, keepdims=True)),
    ]


@lowers("_contrib_hawkesll")
def _hawkesll(p: Any, *inputs: Array) -> list[Array]:
    *smooth, marks, valid_length, max_time = inputs
    outputs = _outputs([*smooth, max_time], marks, valid_length)
    return [output.astype(inputs[0].dtype) for output in outputs]


@lowers("_backward_hawkesll")
def _backward_hawkesll(p: ops.HawkesGradientParams, *operands: Array) -> list[Array]:
    at = ops.DERIVATIVES.split(p, operands, heads=True)
    marks, valid_length, memory = at.fixed
    inputs = dual.with_directions(at.smooth, at.directions)
    stored_memory = None if p.order else _wide([memory])[0]  # the stored memory lacks the directions
    grads = _gradients(at.heads, inputs, marks, valid_length, stored_memory)
    return [dual.mixed_slope(grad).astype(x.dtype) for grad, x in zip(grads, at.smooth, strict=True)]


@lowers("_backward_hawkesll_tangent")
def _hawkesll_tangent(p: ops.HawkesGradientParams, *operands: Array) -> list[Array]:
    at = ops.DERIVATIVES.split(p, operands, heads=False)
    outputs = _outputs(dual.with_directions(at.smooth, at.directions), at.fixed[0], at.fixed[1])[:2]
    return [dual.mixed_slope(output).astype(at.smooth[0].dtype) for output in outputs]
