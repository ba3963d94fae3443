"""JAX rule of `_cond`: `lax.cond` over its branches."""

from __future__ import annotations

from jax import Array

from lowering.core.program import Program
from lowering.core.python_calls import computing_again, in_step
from lowering.core.rules import lowers
from lowering.ops.control.flow import flow_for
from symjax_nnvm.ops.control import cond as ops


@lowers("_cond", needs=("key", "programs"))
def _cond(p: ops.CondParams, *inputs: Array, key: Array | None, programs: tuple[Program, ...]):
    test, then_branch, else_branch = programs
    with in_step(0):
        (predicate,) = test.call([inputs[i] for i in p.cond_input_locs], key)
        return flow_for(programs, inputs, key).cond(
            predicate.reshape(()) != 0,
            lambda: tuple(then_branch.call([inputs[i] for i in p.then_input_locs], key)),
            lambda: tuple(else_branch.call([inputs[i] for i in p.else_input_locs], key)),
        )


@lowers("_backward_cond", needs=("key", "programs"))
def _backward_cond(p: ops.CondParams, *inputs: Array, key: Array | None, programs: tuple[Program, ...]):
    with computing_again(True):
        return _cond(p, *inputs, key=key, programs=programs)
