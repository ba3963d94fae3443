"""JAX rules of loops over subgraphs: `lax.scan`, and `lax.while_loop` where the loop is not differentiated in
reverse."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import Array, lax

from lowering.core.program import Program
from lowering.core.python_calls import computing_again
from lowering.core.rules import lowers
from lowering.ops.control.flow import flow_for
from symjax_nnvm.errors import LoweringError
from symjax_nnvm.ops.control import loops as ops

Arrays = Sequence[Array]


def _step_key(key: Array | None, step: Array) -> Array | None:
    """A key for each step, from its number; the same whichever way the loop runs."""
    return None if key is None else jax.random.fold_in(key, step)


def _checked(new: Arrays, old: Arrays) -> tuple[Array, ...]:
    """Return states as the body leaves them. Raises LoweringError when one changes its type."""
    for i, (after, before) in enumerate(zip(new, old, strict=True)):
        if after.shape != before.shape or after.dtype != before.dtype:
            raise LoweringError(
                f"The body changes the shape or dtype of state {i}",
                expected=f"{before.dtype}{before.shape}",
                got=f"{after.dtype}{after.shape}",
                fix="Cast or reshape it in the body.",
            )
    return tuple(new)


def _results(
    p: ops.ForeachParams | ops.WhileLoopParams, heads: Arrays, states: Arrays
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Return the new states of a step, and what is stacked of it: outputs, then inner values. heads: the heads of the
    body."""
    outputs, new, inner = heads[: p.num_out_data], heads[p.num_out_data : p.num_outputs], heads[p.num_outputs :]
    return _checked(new, states), (*outputs, *inner)


def _scan(p: ops.ForeachParams, inputs: Arrays, key: Array | None, body: Program) -> list[Array]:
    """Return stacked outputs, final states, the states before each step, and the inner values that are kept of each."""
    mask, inputs = inputs[: p.masked], inputs[p.masked :]
    data, states = inputs[: len(p.in_data_locs)], inputs[len(p.in_data_locs) :][: p.num_states]
    other_inputs = inputs[len(data) + len(states) :]
    stacked = (*mask, *data)
    if not stacked:
        raise LoweringError(
            "foreach needs data, which give it its length", fix="Pass at least one data array to foreach."
        )
    locs = (*p.in_data_locs, *p.in_state_locs, *p.remain_locs)
    flow = flow_for([body], inputs, key)

    def run(number: Array, states: Arrays, slices: Arrays) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        slices = [piece if piece.ndim else piece.reshape(1) for piece in slices]
        values: list[Array | None] = [None] * len(locs)
        for loc, value in zip(locs, (*slices, *states, *other_inputs), strict=True):
            values[loc] = value
        return _results(p, body.call(values, _step_key(key, number)), states)

    def step(states: tuple[Array, ...], x: tuple[Array, ...]):
        number, *slices = x
        if not mask:
            new, outputs = run(number, states, slices)
            return new, (outputs, states)
        active, *slices = slices
        shapes = flow.shapes(lambda: run(number, states, slices)[1])
        zeros = tuple(jnp.zeros(s.shape, s.dtype) for s in shapes)
        new, outputs = flow.cond(active != 0, lambda: run(number, states, slices), lambda: (states, zeros))
        return new, (outputs, states)

    numbers = jnp.arange(stacked[0].shape[0])
    final, (outputs, history) = flow.scan(step, tuple(states), (numbers, *stacked), reverse=p.reverse)
    return [*outputs[: p.num_out_data], *final, *history, *outputs[p.num_out_data :]]


@lowers("_foreach", needs=("key", "programs"))
def _foreach(p: ops.ForeachParams, *inputs: Array, key: Array | None, programs: tuple[Program, ...]):
    return _scan(p, inputs, key, programs[0])[: p.num_outputs]


@lowers("_backward_foreach_history", "_backward_foreach", needs=("key", "programs"))
def _foreach_history(p: ops.ForeachParams, *inputs: Array, key: Array | None, programs: tuple[Program, ...]):
    with computing_again(isinstance(p, ops.BackwardForeachParams)):
        return _scan(p, inputs, key, programs[0])


def _bounded(
    p: ops.WhileLoopParams, inputs: Arrays, key: Array | None, programs: tuple[Program, ...], reversible: bool
) -> list[Array]:
    """Return stacked outputs, final variables, the variables before each step, which steps ran, and the inner values
    that are kept of each."""
    test, body = programs
    flow = flow_for(programs, inputs, key)
    first = tuple(inputs[i] for i in p.var_inputs)

    def holds(number: Array, variables: Arrays) -> Array:
        values = dict(zip(p.var_inputs, variables, strict=True))
        (value,) = test.call([values.get(i, inputs[i]) for i in p.cond_input_locs], _step_key(key, number))
        return value.reshape(()) != 0

    def run(number: Array, variables: Arrays) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        values = [inputs[i] for i in p.func_input_locs]
        for loc, value in zip(p.func_var_locs, variables, strict=True):
            values[loc] = value
        return _results(p, body.call(values, _step_key(key, number)), variables)

    shapes = flow.shapes(lambda: run(jnp.zeros((), jnp.int32), first)[1])
    nothing = tuple(jnp.zeros(s.shape, s.dtype) for s in shapes)
    if reversible:
        # JAX cannot differentiate a while_loop in reverse: the same as a scan whose steps stop doing anything.
        def scanned(carry: tuple[Array, tuple[Array, ...]], number: Array):
            going, variables = carry
            going = going & holds(number, variables)
            new, outputs = lax.cond(going, lambda: run(number, variables), lambda: (variables, nothing))
            return (going, new), (outputs, variables, going.astype(jnp.int32))

        start = (jnp.ones((), bool), first)
        (_, final), (outputs, history, ran) = lax.scan(scanned, start, jnp.arange(p.max_iterations))
        return [*outputs[: p.num_out_data], *final, *history, ran, *outputs[p.num_out_data :]]

    def stacked(value: Array) -> Array:
        return jnp.zeros((p.max_iterations, *value.shape), value.dtype)

    def going(carry: tuple[Array, tuple[Array, ...], tuple[Array, ...]]) -> Array:
        number, variables, _ = carry
        return (number < p.max_iterations) & holds(number, variables)

    def advance(carry: tuple[Array, tuple[Array, ...], tuple[Array, ...]]):
        number, variables, stacks = carry
        new, outputs = run(number, variables)
        rows = (*outputs, *variables)
        stacks = tuple(lax.dynamic_update_index_in_dim(s, r, number, 0) for s, r in zip(stacks, rows, strict=True))
        return number + 1, new, stacks

    start = (jnp.zeros((), jnp.int32), first, tuple(map(stacked, (*nothing, *first))))
    steps, final, stacks = flow.while_loop(going, advance, start)
    ran = (jnp.arange(p.max_iterations) < steps).astype(jnp.int32)
    outputs, history = stacks[: len(nothing)], stacks[len(nothing) :]
    return [*outputs[: p.num_out_data], *final, *history, ran, *outputs[p.num_out_data :]]


@lowers("_while_loop", needs=("key", "programs", "reversible"))
def _while_loop(
    p: ops.WhileLoopParams, *inputs: Array, key: Array | None, programs: tuple[Program, ...], reversible: bool
):
    return _bounded(p, inputs, key, programs, reversible)[: p.num_outputs]


@lowers("_backward_while_loop_history", needs=("key", "programs", "reversible"))
def _while_loop_history(
    p: ops.WhileLoopParams, *inputs: Array, key: Array | None, programs: tuple[Program, ...], reversible: bool
):
    return _bounded(p, inputs, key, programs, reversible)
