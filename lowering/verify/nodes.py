"""Which operators make a network's gradient differ: the witness of each node by itself.

Where MXGradient and its witnesses disagree, each node's own rule is compared with `jax.vjp` of that node's own forward
function, and with central differences, at the values of the node's inputs; and again a little beside them. A rule that
is right beside the point stands *at a kink* there (relu at 0, a tie of maxima, clip at its bounds), where every
subgradient is one of several. One that stays different is *deliberate*, when its operator declares it (FNotDerivative),
or *wrong*.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from lowering.api.gradient import is_float_array
from lowering.core.cache import Programs
from lowering.core.rules import LoweringRule
from lowering.core.steps import Step
from lowering.host.staged import Staged
from lowering.verify.reports import NodeFinding
from lowering.verify.witness import Witness, witness
from symjax_nnvm.errors import NNVMError
from symjax_nnvm.ir.attributes import FGradient, FMutateInputs, FNotDerivative
from symjax_nnvm.ir.node import Node, NodeEntry, create_variable_node
from symjax_nnvm.pipeline import Options, optional_stages
from symjax_nnvm.symbol.symbol import Symbol

Arrays = Mapping[str, Any]
Kind = Literal["wrong", "at a kink", "deliberate"]

BESIDE = 1e-3
"""How far beside a point is, in parts of the range of an array's values: far beyond the step of finite differences."""

_STEP = 1e-6


def moved(x: jax.Array, key: jax.Array) -> jax.Array:
    """Return an array near x: each element is moved towards the farther end of the range of all elements.

    So numbers that are all positive, or probabilities, stay what they are. Where all elements are equal each goes up
    or down by a thousandth of itself, zeros by a thousandth.
    """
    share, sign = jax.random.split(key)
    low, high = jnp.min(x, initial=jnp.inf), jnp.max(x, initial=-jnp.inf)
    towards = jnp.where(x - low > high - x, low, high) - x
    alone = jnp.where(x == 0, 1.0, jnp.abs(x)) * jax.random.rademacher(sign, x.shape, x.dtype)
    way = jnp.where(low < high, towards, alone)
    return x + BESIDE * jax.random.uniform(share, x.shape, x.dtype, 0.5, 1.0) * way


class _Alone:
    """One node of a program by itself, on variables `in0`, `in1`, …. wrt: those that are differentiated.

    used: the outputs that something reads. Raises NNVMError when the node means nothing without its graph.
    """

    def __init__(self, source: Node, step: Step, used: Sequence[int], wrt: Sequence[int], is_train: bool):
        self.step, self.source, self.used = step, source, list(used)
        variables = [create_variable_node(f"in{i}") for i in range(len(source.inputs))]
        attrs = source.attrs.copy()
        node = Node(attrs, [NodeEntry(variable, 0, 0) for variable in variables])
        mutates = FMutateInputs.get(source.op)
        self.states = {f"in{i}" for i in (() if mutates is None else mutates(attrs))}
        self.wrt = [f"in{i}" for i in wrt if f"in{i}" not in self.states]
        self.symbol = Symbol([NodeEntry(node, i, 0) for i in self.used])
        self.program = Programs(self.symbol).gradient(Options(is_train=is_train, wrt=tuple(self.wrt)))
        self.witness = witness(self.symbol, [None] * len(self.used), is_train=is_train)

    def split(self, inputs: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return (arguments, auxiliary states) by name."""
        values = {f"in{i}": value for i, value in enumerate(inputs)}
        return (
            {name: value for name, value in values.items() if name not in self.states},
            {name: value for name, value in values.items() if name in self.states},
        )

    def gradients(self, inputs: Sequence[Any], key: Any, heads: Sequence[Any]) -> dict[str, jax.Array]:
        """Return our gradients, by the names of the inputs."""
        return self.program(*self.split(inputs), key, heads)[1]

    def compare(self, inputs: Sequence[Any], key: Any, draws: jax.Array, finite: bool) -> dict[str, Any]:
        """Return our gradient's errors as scalars: against JAX's, and along a direction against differences."""
        args, aux = self.split(inputs)
        chosen = {name: args[name] for name in self.wrt}
        outputs = list(self.program.run_forward(args, aux, key)[0])
        keys = jax.random.split(draws, len(outputs) + len(chosen))
        heads = [
            jax.random.uniform(k, value.shape, jnp.float64, -1, 1) for k, value in zip(keys, outputs, strict=False)
        ]
        ours = self.gradients(inputs, key, heads)
        phi: Witness = replace(self.witness, head_grads=heads)

        def value(at: Arrays, held: Any = None) -> jax.Array:
            return phi({**args, **at}, aux, key, held)

        theirs = jax.grad(value)(chosen)
        errors = {
            "error": _largest(ours[name] - theirs[name] for name in self.wrt),
            "scale": _largest(theirs[name] for name in self.wrt),
        }
        if finite:
            errors |= self._along_a_direction(chosen, ours, value, phi.blocked(args, aux, key), keys[len(outputs) :])
        return errors

    def _along_a_direction(self, chosen: Arrays, ours: Arrays, value: Any, held: Any, keys: Any) -> dict[str, Any]:
        # No two elements move alike: where those that tie do, the tie is not noticed.
        direction = {
            n: jax.random.uniform(k, x.shape, x.dtype, -1, 1) for k, (n, x) in zip(keys, chosen.items(), strict=True)
        }
        size = max(1, sum(x.size for x in chosen.values()))
        step = _STEP / float(np.sqrt(size))
        upper, lower = (value({n: x + s * step * direction[n] for n, x in chosen.items()}, held) for s in (1, -1))
        directional = sum(jnp.vdot(ours[n], direction[n]) for n in chosen)
        norm = jnp.sqrt(sum(jnp.sum(ours[n] ** 2) for n in chosen))
        noise = 4 * np.finfo(np.float64).eps * (1 + jnp.abs(upper) * np.sqrt(size)) / step
        return {"fd_error": jnp.abs(directional - (upper - lower) / (2 * step)), "fd_scale": norm, "fd_noise": noise}


def _largest(arrays: Any) -> jax.Array:
    return jnp.max(jnp.stack([jnp.max(jnp.abs(array), initial=0.0) for array in arrays]))


class NodeWitness:
    """The nodes of a symbol through which gradients of `wrt` pass, each by itself; made and used in float64.

    `examine` makes one function for all of them, and only when it is called.
    """

    def __init__(self, symbol: Symbol, wrt: Sequence[str], *, is_train: bool, finite_differences: bool):
        self.program = Programs(symbol).forward(Options(is_train=is_train, without=frozenset(optional_stages())))
        self._finite = finite_differences
        index = self.program.index
        used: dict[int, set[int]] = {}
        for nid, i, _ in [*index.outputs, *(entry for node in index.nodes for entry in node.inputs)]:
            used.setdefault(nid, set()).add(i)
        self._used = {nid: sorted(outputs) for nid, outputs in used.items()}
        self._wrt = set(wrt)
        self.nodes: list[_Alone] = []
        self._judge = Staged(self._compare_all)

    def _set_apart(self, env: Sequence[Any]) -> list[_Alone]:
        """Return the nodes that gradients pass through, each by itself; env shows which inputs are float arrays."""
        index, apart = self.program.index, []
        differentiated = {nid for nid in index.input_nodes if self.program.name(nid) in self._wrt}
        for step in self.program.steps:
            node = index.nodes[step.nid]
            inputs = [
                i
                for i, (entry, slot) in enumerate(zip(node.inputs, step.inputs, strict=True))
                if entry[0] in differentiated and is_float_array(env[slot])
            ]
            if not inputs:
                continue
            differentiated.add(step.nid)
            if node.source.op not in FGradient:
                continue
            try:
                alone = _Alone(node.source, step, self._used.get(step.nid, [0]), inputs, self.program.is_train)
            except NNVMError:
                continue  # a backward operator, whose meaning hangs on the node that it belongs to
            if alone.wrt:
                apart.append(alone)
        return apart

    def _compare_all(self, values: dict[int, Any], key: Any, draws: Any, beside: Any) -> list[dict[str, Any]]:
        errors = []
        for number, alone in enumerate(self.nodes):
            own = jax.random.fold_in(draws, number)
            wrt = {int(name[2:]) for name in alone.wrt}
            inputs = [values[slot] for slot in alone.step.inputs]
            inputs = [
                jnp.where(beside, moved(x, jax.random.fold_in(own, i)), x) if i in wrt else x
                for i, x in enumerate(inputs)
            ]
            errors.append(alone.compare(inputs, key, own, self._finite))
        return errors

    def examine(self, args: Arrays, aux: Arrays, key: Any, *, rtol: float, fd_rtol: float) -> list[NodeFinding]:
        """Return what differs at this point, node by node, in the order in which the nodes run."""
        env = Staged(lambda args, aux: self.program.run(self.program.bind(args, aux), key))(args, aux)
        self.nodes = self.nodes or self._set_apart(env)
        if not self.nodes:
            return []
        values = {slot: env[slot] for alone in self.nodes for slot in alone.step.inputs}
        here = self._judge(values, key, jax.random.key(1), False)
        if all(_agrees(errors, rtol, fd_rtol) for errors in here):
            return []
        beside = [self._judge(values, key, jax.random.key(seed), True) for seed in (2, 3)]
        findings: list[NodeFinding] = []
        for alone, errors, *others in zip(self.nodes, here, *beside, strict=True):
            if _agrees(errors, rtol, fd_rtol):
                continue
            deliberate = FNotDerivative.get(alone.source.op)
            reason = None if deliberate is None else deliberate(alone.source.attrs)
            kind: Kind = "at a kink" if any(_agrees(other, rtol, fd_rtol) for other in others) else "wrong"
            if kind == "wrong" and reason is not None:
                kind = "deliberate"
            findings.append(
                NodeFinding(
                    alone.source.name,
                    alone.source.op.name if alone.source.op is not None else "",
                    kind,
                    reason if kind == "deliberate" and reason else _words(errors, rtol),
                )
            )
        return findings

    def by_ours(self, original: Witness, findings: Sequence[NodeFinding]) -> Witness:
        """Return the witness, with our own gradient at the nodes that were found; random ones stay as they are."""
        trusted = {finding.node for finding in findings}
        alone = {a.source: a for a in self.nodes if a.source.name in trusted and "key" not in a.step.rule.needs}
        nodes = original.program.index.nodes
        steps = [
            replace(step, rule=_with_our_gradient(step.rule, alone[nodes[step.nid].source]))
            if nodes[step.nid].source in alone
            else step
            for step in original.program.steps
        ]
        program = copy.copy(original.program)
        program.steps = steps
        return replace(original, program=program)


def _with_our_gradient(lowering_rule: LoweringRule, alone: _Alone) -> LoweringRule:
    """Return the rule, whose derivative is the operator's own gradient."""

    def rule(params: Any, *inputs: Any, **extra: Any) -> Any:
        @jax.custom_vjp
        def run(*inputs: Any) -> Any:
            return lowering_rule.rule(params, *inputs, **extra)

        def backward(inputs: Any, cotangents: Any) -> tuple[Any, ...]:
            cotangents = cotangents if isinstance(cotangents, (tuple, list)) else (cotangents,)
            grads = alone.gradients(inputs, None, [cotangents[i] for i in alone.used])
            return tuple(
                grads.get(f"in{i}", jnp.zeros_like(x)) if is_float_array(x) else np.zeros(x.shape, jax.dtypes.float0)
                for i, x in enumerate(inputs)
            )

        run.defvjp(lambda *inputs: (run(*inputs), inputs), backward)
        return run(*inputs)

    return replace(lowering_rule, rule=rule)


def _agrees(errors: Mapping[str, Any], rtol: float, fd_rtol: float) -> bool:
    error, scale = float(errors["error"]), float(errors["scale"])
    if not error <= rtol * max(scale, 1e-3):
        return False
    if "fd_error" not in errors:
        return True
    fd_error, fd_scale, noise = (float(errors[name]) for name in ("fd_error", "fd_scale", "fd_noise"))
    return fd_error <= max(fd_rtol * fd_scale, noise)


def _words(errors: Mapping[str, Any], rtol: float) -> str:
    error, scale = float(errors["error"]), float(errors["scale"])
    if error <= rtol * max(scale, 1e-3):
        return f"finite differences: {float(errors['fd_error']):.1e} of {float(errors['fd_scale']):.1e}"
    return f"jax.vjp: {error:.1e} of {scale:.1e}"
