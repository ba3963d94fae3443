"""JAX rules of CTCLoss and of its derivatives: the forward-backward recursions of CTC, in log space.

Labels l1 l2 … are extended with blanks to - l1 - l2 … -, s = 2 l + 1 positions. From one step to the next a path stays,
moves on, or skips a blank between two different labels. Log-probabilities that are impossible are a large negative
number and not -inf, so that no derivative meets inf - inf.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.ops import dual
from lowering.ops.dual import Number, exp, linear, log, logsumexp, select
from lowering.ops.nn.sequence import whole_lengths
from symjax_nnvm.ops.loss import ctc_loss as ops

_IMPOSSIBLE = -1e30


@dataclass(frozen=True)
class CTCProblem:
    """The inputs of the recursions besides the activations.

    extended: (n, s) classes of the positions. skips: (n, s) whether a path may come from two positions before.
    final: (n, s) where paths may end. inside: (t, n) steps that are a sequence's own. blank: the blank's class.
    """

    extended: Array
    skips: Array
    final: Array
    inside: Array
    blank: int


def _problem(p: ops.CTCLossParams, shape: tuple[int, ...], label: Array, *lengths: Array) -> CTCProblem:
    steps, batch, classes = shape
    blank, padding = (0, 0) if p.blank_label == "first" else (classes - 1, -1)
    label = whole_lengths(label)
    lengths_iter = iter(lengths)
    data_lengths = whole_lengths(next(lengths_iter)) if p.use_data_lengths else jnp.full((batch,), steps, jnp.int32)
    if p.use_label_lengths:
        count = jnp.clip(whole_lengths(next(lengths_iter)), 0, label.shape[1])
    else:
        count = jnp.sum(lax.cumprod((label != padding).astype(jnp.int32), 1), 1)
    label = jnp.clip(label, 0, classes - 1)
    pairs = jnp.stack([jnp.full_like(label, blank), label], 2).reshape(batch, -1)
    extended = jnp.pad(pairs, ((0, 0), (0, 1)), constant_values=blank)
    position = lax.broadcasted_iota(jnp.int32, extended.shape, 1)
    before = jnp.pad(extended, ((0, 0), (2, 0)), constant_values=-1)[:, :-2]
    end = 2 * count[:, None]
    return CTCProblem(
        extended,
        (position % 2 == 1) & (extended != before),
        (position == end) | (position == end - 1),
        lax.iota(jnp.int32, steps)[:, None] < data_lengths[None, :],
        blank,
    )


def _log_total(x: Number) -> Any:
    """Return log Σ exp over the last axis, which keeps its place."""
    largest = lax.stop_gradient(jnp.max(dual.plain(x), -1, keepdims=True))
    return log(linear(lambda a: jnp.sum(a, -1, keepdims=True), exp(x - largest))) + largest


def _shifted(x: Number, by: int) -> Any:
    """Return positions moved right by a number (left, if negative); what comes in is impossible."""
    margins = (by, 0) if by > 0 else (0, -by)
    piece = slice(None, -by) if by > 0 else slice(-by, None)

    def shift(a: Array, fill: float = 0.0) -> Array:
        return jnp.pad(a, ((0, 0), margins), constant_values=fill)[:, piece]

    inside = shift(jnp.ones_like(dual.plain(x))) > 0
    return select(inside, linear(shift, x), _IMPOSSIBLE)


def _forward_variables(problem: CTCProblem, emitted: Number) -> Any:
    """Return (t, n, s): log-probability of reaching each position, its step included; past the end the last again."""
    position = lax.broadcasted_iota(jnp.int32, problem.extended.shape, 1)
    at_first = select(position < 2, linear(lambda e: e[0], emitted), _IMPOSSIBLE)

    def step(alpha: Any, at: tuple[Any, Array]) -> tuple[Any, Any]:
        emitted, inside = at
        skipping = select(problem.skips, _shifted(alpha, 2), _IMPOSSIBLE)
        new = logsumexp(alpha, _shifted(alpha, 1), skipping) + emitted
        alpha = select(inside[:, None], new, alpha)
        return alpha, alpha

    later = linear(lambda e: e[1:], emitted)
    _, following = lax.scan(step, at_first, (later, problem.inside[1:]))
    return linear(lambda a, b: jnp.concatenate([a[None], b]), at_first, following)


def _backward_variables(problem: CTCProblem, emitted: Number) -> Any:
    """Return (t, n, s): log-probability of completing the labels from each position, its step not included."""
    at_last = select(
        problem.final, dual.lift(jnp.zeros(problem.final.shape, dual.plain(emitted).dtype), emitted), _IMPOSSIBLE
    )
    leaving = jnp.pad(problem.skips, ((0, 0), (0, 2)))[:, 2:]

    def step(beta: Any, at: tuple[Any, Array]) -> tuple[Any, Any]:
        emitted, inside = at
        going = beta + emitted
        skipping = select(leaving, _shifted(going, -2), _IMPOSSIBLE)
        before = logsumexp(going, _shifted(going, -1), skipping)
        return select(inside[:, None], before, beta), beta

    _, betas = lax.scan(step, at_last, (emitted, problem.inside), reverse=True)
    return betas


def _loss(problem: CTCProblem, data: Number) -> tuple[Any, Any]:
    """Return (loss (n,), its gradient (t, n, c)): softmax minus the share of each class in all alignments."""
    logits = linear(lambda a: a.astype(jnp.promote_types(a.dtype, jnp.float32)), data)
    log_probs = logits - _log_total(logits)
    places = problem.extended[None]
    emitted = linear(lambda a: jnp.take_along_axis(a, places, 2, mode="promise_in_bounds"), log_probs)
    alphas = _forward_variables(problem, emitted)
    total = _log_total(select(problem.final, linear(lambda a: a[-1], alphas), _IMPOSSIBLE))
    possible = (dual.plain(total) > _IMPOSSIBLE / 2) & problem.inside[0][:, None]
    shares = exp(alphas + _backward_variables(problem, emitted) - total)
    gradient = exp(log_probs) - linear(lambda a: _by_class(problem, a, dual.plain(data).shape), shares)
    gradient = select((possible & problem.inside[:, :, None]), gradient, 0.0)
    return linear(lambda a: a[:, 0], select(possible, -total, 0.0)), gradient


def _by_class(problem: CTCProblem, shares: Array, shape: tuple[int, ...]) -> Array:
    """Map (t, n, s) → (t, n, c): shares of the positions added up by class; blanks without a scatter."""
    t, n = lax.broadcasted_iota(jnp.int32, shares[:, :, 1::2].shape, 0), problem.extended[None, :, 1::2]
    rows = lax.broadcasted_iota(jnp.int32, t.shape, 1)
    labels = jnp.zeros(shape, shares.dtype).at[t, rows, n].add(shares[:, :, 1::2], mode="promise_in_bounds")
    return labels.at[:, :, problem.blank].add(jnp.sum(shares[:, :, ::2], -1))


@lowers("CTCLoss")
def _ctc_loss(p: ops.CTCLossParams, data: Array, *labelling: Array) -> list[Array]:
    loss, gradient = _loss(_problem(p, data.shape, *labelling), data)
    # Nothing flows into the hidden output.
    return [loss.astype(data.dtype), lax.stop_gradient(gradient).astype(data.dtype)]


def _along_directions(p: ops.CTCLossGradientParams, at: Any) -> tuple[Any, Any]:
    (data,) = dual.with_directions(at.smooth, at.directions)
    return _loss(_problem(p, at.smooth[0].shape, *at.fixed[:-1]), data)


@lowers("_backward_CTCLoss")
def _backward_ctc_loss(p: ops.CTCLossGradientParams, *operands: Array) -> Array:
    at = ops.DERIVATIVES.split(p, operands, heads=True)
    gradient = dual.mixed_slope(_along_directions(p, at)[1]) if p.order else at.fixed[-1]
    return (at.heads[0][None, :, None] * gradient).astype(at.smooth[0].dtype)


@lowers("_backward_CTCLoss_tangent")
def _ctc_loss_tangent(p: ops.CTCLossGradientParams, *operands: Array) -> Array:
    at = ops.DERIVATIVES.split(p, operands, heads=False)
    return dual.mixed_slope(_along_directions(p, at)[0]).astype(at.smooth[0].dtype)
