"""`GradientProgram`: outputs and gradients as one program, in two parts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lowering.core.program import Program
from lowering.core.steps import Recomputation, Step
from symjax_nnvm.errors import GradientError, explain, listed
from symjax_nnvm.ir.attributes import TSupersedes
from symjax_nnvm.passes.mirror.recompute import Recomputed
from symjax_nnvm.pipeline import Plan
from symjax_nnvm.symbol.symbol import Symbol

__all__ = ["GradientProgram"]

Arrays = Mapping[str, Any]
_NOTHING: Mapping[str, Any] = {}


class GradientProgram:
    """A symbol with its gradients: one program of the forward outputs followed by the gradients of `wrt`.

    The graph is split where NNVM splits it: forward steps are those that the outputs and states need; backward steps
    read values that the forward part left, or compute them again. program: the program of the plan's whole graph.
    """

    def __init__(self, program: Program, plan: Plan):
        self.program = program
        self.wrt = list(plan.options.wrt or ())
        self.num_outputs = plan.num_outputs
        index, live = program.index, set(program.variables)
        heads = [index.node_id(head) if index.exist(head) else None for head in plan.head_grads]
        self.head_ids = [nid if nid in live else None for nid in heads] or [None] * self.num_outputs
        """The numbers of the head gradients; None where the gradients do not depend on one, as for a loss head."""
        self.symbol = Symbol(plan.graph.outputs[: self.num_outputs])
        forward = self.program.part_of(self.num_outputs)
        self.forward_steps = [step for step in self.program.steps if step.nid in forward]
        self.backward_steps = [step for step in self.program.steps if step.nid not in forward]
        self.states = self._states_after_forward()
        """The slots of the states after the forward steps, by name."""
        self.written_backward = {n: slot for n, slot in program.aux_slots.items() if slot != self.states[n]}
        """The slots of the states that backward steps write, by name."""
        self.residual_slots = self._residual_slots()
        self._backward = _grouped(self.backward_steps, self.program)

    @cached_property
    def forward(self) -> Program:
        """The program of the outputs alone, for runs without gradients."""
        return self.program.forward(self.num_outputs)

    def _residual_slots(self) -> list[int]:
        """Return slots that the backward part, or the gradients themselves, read from the forward part."""
        heads = {self.program.index.entry_rptr[nid] for nid in self.head_ids if nid is not None}
        computed = {slot for step in self.backward_steps for slot in step.outputs} | heads
        read = [slot for step in self.backward_steps for slot in step.inputs]
        read += self.gradient_slots
        return sorted({slot for slot in read if slot not in computed})

    def _states_after_forward(self) -> dict[str, int]:
        mutated, rptr = self.program.index.mutated_inputs, self.program.index.entry_rptr
        before: dict[int, int] = {}
        for step in self.backward_steps:
            new = step.outputs[rptr[step.nid + 1] - rptr[step.nid] :]
            before |= zip(new, [step.inputs[i] for i in mutated.get(step.nid, ())][: len(new)], strict=True)
        slots = dict(self.program.aux_slots)
        for name, slot in slots.items():
            while slot in before:
                slot = before[slot]
            slots[name] = slot
        return slots

    def head_values(self, outputs: Sequence[jax.Array], head_grads: Sequence[Any] | None) -> dict[int, jax.Array]:
        """Return values of the head gradients that the backward part reads, by number. Raises GradientError."""
        if head_grads is not None and len(head_grads) != self.num_outputs:
            raise GradientError(
                explain(
                    "The number of head gradients is wrong",
                    expected=f"{self.num_outputs}, one for each of {listed(self.symbol.list_outputs())}",
                    got=len(head_grads),
                )
            )
        values: dict[int, jax.Array] = {}
        for i, (nid, output) in enumerate(zip(self.head_ids, outputs, strict=True)):
            if nid is None:
                continue
            head_grad = None if head_grads is None else head_grads[i]
            name = self.symbol.list_outputs()[i]
            if head_grad is None:
                if output.size != 1:
                    raise GradientError(
                        explain(
                            "Because the last operator is not Loss function, head_gradient is required when calling "
                            "backward",
                            node=name,
                            expected=f"a head gradient of shape {output.shape}",
                            fix="If you are attempting to minimize the output as an objective, please modify your "
                            "network and pass it through the make_loss symbol.",
                        )
                    )
                head_grad = jnp.ones(output.shape, output.dtype)
            if np.shape(head_grad) != output.shape:
                raise GradientError(
                    explain(
                        "The head gradient has the wrong shape",
                        node=name,
                        expected=output.shape,
                        got=np.shape(head_grad),
                    )
                )
            values[nid] = jnp.asarray(head_grad, output.dtype)
        return values

    def __call__(
        self,
        args: Arrays,
        aux: Arrays,
        key: jax.Array | None,
        head_grads: Sequence[Any] | None,
        onto: Mapping[str, Any] = _NOTHING,
    ) -> tuple[list[jax.Array], dict[str, jax.Array], dict[str, jax.Array]]:
        """Return (outputs, gradients by argument name, new auxiliary states). onto: as in `backward_values`."""
        outputs, new_aux, residuals = self.run_forward(args, aux, key)
        env = self.backward_values(outputs, residuals, key, head_grads, self.written_slots, onto)
        return outputs, self.collect_gradients(env), new_aux | self.collect_states(env)

    def run_forward(
        self, args: Arrays, aux: Arrays, key: jax.Array | None
    ) -> tuple[list[jax.Array], dict[str, jax.Array], dict[int, jax.Array]]:
        """Return (outputs, new auxiliary states, residuals by slot)."""
        env = self.forward_values(args, aux, key, self.kept_slots)
        outputs, new_aux = self.collect_forward(env)
        return outputs, new_aux, {slot: env[slot] for slot in self.residual_slots}

    def collect_forward(self, env: Sequence[Any]) -> tuple[list[jax.Array], dict[str, jax.Array]]:
        """Return (outputs, auxiliary states) from an environment, after the forward steps."""
        outputs = [env[slot] for slot in self.program.output_slots[: self.num_outputs]]
        return outputs, {name: env[slot] for name, slot in self.states.items()}

    @cached_property
    def kept_slots(self) -> list[int]:
        """Return the slots that are read after the forward steps: outputs, states and residuals."""
        return [*self.program.output_slots[: self.num_outputs], *self.states.values(), *self.residual_slots]

    @property
    def gradient_slots(self) -> list[int]:
        """Return the slots of the gradients."""
        return self.program.output_slots[self.num_outputs :]

    def forward_values(
        self, args: Arrays, aux: Arrays, key: jax.Array | None, slots: Collection[int] | None = None
    ) -> list[Any]:
        """Return the environment after the forward steps: a value in each slot filled. slots: as in `run_steps`."""
        env = self.program.environment(self.program.bind(args, aux))
        self.program.run_steps(self.forward_steps, env, key, slots)
        return env

    @property
    def written_slots(self) -> list[int]:
        """Return the slots that are read after the backward steps: gradients and states."""
        return [*self.gradient_slots, *self.written_backward.values()]

    def states_now(self, aux: Arrays) -> dict[int, Any]:
        """Return the residuals by slot that are states, by name, which backward steps will write."""
        return {self.states[name]: aux[name] for name in self.written_backward}

    @cached_property
    def summed_by_python(self) -> dict[str, int]:
        """Return slots of gradients, by argument name, that only Python writes and reads; it may add to old ones."""
        slots, steps = self.gradient_slots, self.backward_steps
        read = [*self.program.output_slots, *(slot for step in self.program.steps for slot in step.inputs)]
        outputs = {slot for step in steps if "requests" in step.rule.needs for slot in step.outputs}
        pairs = zip(self.wrt, slots, strict=True)
        return {name: slot for name, slot in pairs if slot in outputs and read.count(slot) == 1}

    def known_residuals(self, variables: Arrays, outputs: Sequence[Any]) -> dict[int, Any]:
        """Return residuals by slot that are arguments, by name, or outputs."""
        index, program = self.program.index, self.program
        values = {index.entry_rptr[nid]: variables.get(program.name(nid)) for nid in index.input_nodes}
        values |= zip(program.output_slots[: self.num_outputs], outputs, strict=True)
        return {slot: values[slot] for slot in self.residual_slots if values.get(slot) is not None}

    def run_backward(
        self,
        outputs: Sequence[jax.Array],
        residuals: Mapping[int, jax.Array],
        key: jax.Array | None,
        head_grads: Sequence[Any] | None,
    ) -> dict[str, jax.Array]:
        """Return gradients by argument name, from what `run_forward` left."""
        return self.collect_gradients(self.backward_values(outputs, residuals, key, head_grads, self.gradient_slots))

    def backward_values(
        self,
        outputs: Sequence[jax.Array],
        residuals: Mapping[int, jax.Array],
        key: jax.Array | None,
        head_grads: Sequence[Any] | None,
        slots: Collection[int] | None = None,
        onto: Mapping[str, Any] = _NOTHING,
    ) -> list[Any]:
        """Return the environment after the backward steps: a value in each slot that they fill. slots: as in
        `run_steps`. onto: gradients by argument name, of `summed_by_python`, to add to."""
        env = self.program.environment(self.head_values(outputs, head_grads), residuals)
        for name, old in onto.items():
            env[self.summed_by_python[name]] = old
        self.program.run_steps(self._backward, env, key, slots)
        return env

    def collect_states(self, env: Sequence[Any]) -> dict[str, jax.Array]:
        """Return the states that backward steps wrote, by name."""
        return {name: env[slot] for name, slot in self.written_backward.items()}

    def collect_gradients(self, env: Sequence[Any]) -> dict[str, jax.Array]:
        """Return gradients by argument name, from the environment that `backward_values` filled."""
        grads = [env[slot] for slot in self.gradient_slots]
        return dict(zip(self.wrt, grads, strict=True))


def _grouped(steps: Sequence[Step], program: Program) -> list[Step | Recomputation]:
    """Return backward steps, each group of copies gathered into one, where the first of them stood.

    A group reads nothing but forward values and gradients that precede its first copy, so it can.
    """
    if not any(isinstance(node.source.info, Recomputed) for node in program.index.nodes):
        return list(steps)
    marks = [_mark(program, step.nid) for step in steps]
    members: dict[int, list[Step]] = {}
    for step, mark in zip(steps, marks, strict=True):
        if mark is not None:
            members.setdefault(mark.group, []).append(step)
    readers: dict[int, set[int | None]] = {}
    for step, mark in zip(steps, marks, strict=True):
        for slot in step.inputs:
            readers.setdefault(slot, set()).add(None if mark is None else mark.group)
    for slot in program.output_slots:
        readers.setdefault(slot, set()).add(None)
    variables = {program.index.entry_rptr[nid] for nid in program.index.input_nodes}
    gathered: list[Step | Recomputation] = []
    for step, mark in zip(steps, marks, strict=True):
        if mark is None:
            gathered.append(step)
        elif group := members.pop(mark.group, None):
            written = {slot: None for member in group for slot in member.outputs}
            inputs = {slot: None for member in group for slot in member.inputs if slot not in written}
            # A step that reads anything else besides variables differs from its original by that.
            by_variables = {slot for member in group if variables.issuperset(member.inputs) for slot in member.inputs}
            gathered.append(
                Recomputation(
                    steps=tuple(group),
                    inputs=tuple(inputs),
                    guarded=tuple(slot for slot in inputs if slot not in variables or slot in by_variables),
                    outputs=tuple(slot for slot in written if readers.get(slot, set()) - {mark.group}),
                    after=_after(program, mark),
                )
            )
    return gathered


def _mark(program: Program, nid: int) -> Recomputed | None:
    """Return the mark of a node that is a copy, or runs in place of one."""
    source = program.index.nodes[nid].source
    if TSupersedes.get(source.op) and source.control_deps:
        source = source.control_deps[0]
    return source.info if isinstance(source.info, Recomputed) else None


def _after(program: Program, mark: Recomputed) -> tuple[int, ...]:
    """Return the slot of the gradient that a group waits for, if the program computes it."""
    index, entry = program.index, mark.after
    if entry is None or not index.exist(entry.node):
        return ()
    return (index.entry_rptr[program.stand_in(index.node_id(entry.node))] + entry.index,)
