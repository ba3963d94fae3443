"""A network's nodes, each with the equations of its rule: at inference, in training, and of its own gradient."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import eval_jaxpr

from lowering.core.cache import Programs
from lowering.core.program import Program
from lowering.core.steps import Step
from lowering.source.equations import Body, flatten, is_zero
from symjax_nnvm.errors import LoweringError, SymbolValueError, explain, printable
from symjax_nnvm.ir.attributes import FGradient, FLossEquivalent, FNotDerivative
from symjax_nnvm.ir.node import Node, NodeEntry, create_variable_node
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.ir.types import is_known
from symjax_nnvm.pipeline import PLAIN, Options
from symjax_nnvm.symbol.symbol import Symbol

Avals = Mapping[str, jax.ShapeDtypeStruct]


def refusal(node: Node, reason: str) -> LoweringError:
    """Return the error of a node that cannot be printed."""
    fix = "Leave the node out (symjax_nnvm.cut), or run the network as it is: lowering.to_jax, lowering.export_program."
    return LoweringError(explain(f"The node cannot be printed as source: {reason}", op=node.op, node=node, fix=fix))


@dataclass(frozen=True, eq=False)
class TracedNode:
    """One node. inputs, outputs: slots; outputs are those that something reads. states: names of states that it writes,
    by place among `outputs`. bodies: of `key, *inputs`, at inference and in training; the same if training changes
    nothing.
    backward: likewise of `key, *inputs, *cotangents`, for a node whose gradient is not the derivative: the gradients of
    `wrt`."""

    node: Node
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    states: Mapping[int, str]
    jaxprs: tuple[Any, ...]
    backward: tuple[Any, ...] = ()
    wrt: tuple[int, ...] = ()

    def bodies(self) -> tuple[Body, ...]:
        """Return the equations, new ones with each call."""
        return tuple(map(flatten, self.jaxprs))


@dataclass(frozen=True, eq=False)
class Traced:
    """A network. variables: name by slot. results: the slots of its outputs. shapes: by slot."""

    variables: Mapping[int, str]
    nodes: Sequence[TracedNode]
    results: Sequence[int]
    avals: Mapping[int, jax.ShapeDtypeStruct]
    head_grads: list[str]
    """Names of the variables that are gradients of outputs, which are not losses."""


def traced(symbol: Symbol, variables: Avals, wrt: Sequence[str] | None = None) -> Traced:
    """Trace a network for arrays of these shapes and dtypes, for any platform. wrt: trace outputs and gradients."""
    programs = Programs(symbol)
    if wrt is not None:
        gradients = programs.gradient(Options(is_train=True, platform=PLAIN, wrt=tuple(wrt)))
        modes = (gradients.program,)
        names = [None if nid is None else gradients.program.name(nid) for nid in gradients.head_ids]
        forward = traced(symbol, variables) if any(names) else None
        results = [forward.avals[slot].dtype for slot in forward.results] if forward else names
        heads = {name: dtype for name, dtype in zip(names, results, strict=True) if name is not None}
    else:
        modes = tuple(programs.as_given(Options(is_train=mode, platform=PLAIN)) for mode in (False, True))
        heads = {}
    return _Tracer(modes, variables, own_gradients=wrt is None).run(heads)


def _is_no_derivative(node: Node) -> bool:
    """Return whether the gradient of a node, or of one that it runs, is not the derivative of its outputs."""
    why = FNotDerivative.get(node.op)
    inner = (one for body in node.attrs.subgraphs for one in post_order(body.outputs) if one.op is not None)
    is_its_own = node.op in FLossEquivalent or (why is not None and why(node.attrs) is not None)
    return is_its_own or any(map(_is_no_derivative, inner))


def _is_float(array: Any) -> bool:
    return jnp.issubdtype(array.dtype, jnp.floating)


def _loops(body: Body) -> bool:
    """Return whether a body has a loop whose length only a run decides, which JAX does not differentiate."""
    return any(e.name == "while" or any(map(_loops, e.bodies)) for e in body.equations())


def _moves(body: Body) -> bool:
    """Return whether a body does no arithmetic: it reshapes arrays and puts them together."""
    return all(e.name in ("reshape", "concatenate", "broadcast_in_dim") for e in body.equations())


def _joins(node: TracedNode) -> int:
    """Return how often a node puts arrays together."""
    return sum(e.name == "concatenate" for body in node.bodies() for e in body.equations())


def _evaluated(closed: Any, *values: Any) -> list[Any]:
    """Return the results of a closed jaxpr."""
    return eval_jaxpr(closed.jaxpr, closed.consts, *values)


class _Tracer:
    def __init__(self, modes: Sequence[Program], variables: Avals, own_gradients: bool):
        self._modes, self._own_gradients = modes, own_gradients
        self._first = modes[0]
        rptr, index = self._first.index.entry_rptr, self._first.index
        self._names = {rptr[nid]: self._first.name(nid) for nid in self._first.variables}
        self._avals: dict[int, Any] = {s: variables[name] for s, name in self._names.items() if name in variables}
        self._index = index
        self._kept: dict[Any, Any] = {}
        self._key = jax.eval_shape(lambda: jax.random.key(0))

    def run(self, head_grads: Mapping[str, Any]) -> Traced:
        first = self._first
        env: list[Any] = [None] * first.num_slots
        for slot, aval in self._avals.items():
            env[slot] = aval
        runs = [mode.running(env) for mode in self._modes]
        shapes = first.inference.of_environment(env).shapes
        for slot, name in self._names.items():
            if slot not in self._avals and not is_known(shapes[slot]):
                raise SymbolValueError(
                    f"The shape of {printable(name)} is unknown", fix=f"Give it: shapes={{{name!r}: (...)}}."
                )
            self._avals.setdefault(slot, jax.ShapeDtypeStruct(shapes[slot], head_grads.get(name, jnp.float32)))
        read = set().union(*(mode.read for mode in self._modes))
        states = {slot: name for name, slot in first.aux_slots.items() if slot not in self._names}
        together = zip(*(mode.steps for mode in self._modes), strict=True)
        nodes = self._assembled([self._node(steps, runs, read, states) for steps in together])
        return Traced(self._names, nodes, first.output_slots, self._avals, [*head_grads])

    def _node(
        self, steps: Sequence[Step], runs: Sequence[Any], read: set[int], states: Mapping[int, str]
    ) -> TracedNode:
        step = steps[0]
        node = self._index.nodes[step.nid].source
        if step.rule.python:
            raise refusal(node, "it is a user's Python, which is not a JAX program")
        outputs = tuple(slot for slot in step.outputs if slot in read)
        places = [step.outputs.index(slot) for slot in outputs]
        inputs = [self._avals[slot] for slot in step.inputs]
        asks = {"is_train", "key", "programs"} & set(step.rule.needs)
        jaxprs: list[Any] = []
        for mode, one in zip(runs, steps, strict=True):
            if not jaxprs or asks:
                jaxprs.append(self._traced(mode, one, inputs, places))
        for slot, aval in zip(outputs, jaxprs[0].out_avals, strict=True):
            self._avals[slot] = jax.ShapeDtypeStruct(aval.shape, aval.dtype)
        written = {place: states[slot] for place, slot in enumerate(outputs) if slot in states}
        node_traced = TracedNode(node, step.inputs, outputs, written, tuple(jaxprs))
        of_floats = any(map(_is_float, jaxprs[0].out_avals))
        own = _is_no_derivative(node) or (node.op in FGradient and _loops(flatten(jaxprs[-1])))
        if not (of_floats and self._own_gradients and own):
            return node_traced
        by_mode = bool(asks & {"is_train", "programs"})
        with_own = self._with_backward(node_traced, step, runs[0], inputs, places, by_mode)
        results = [result for jaxpr in with_own.backward for result in flatten(jaxpr).results]
        if _loops(flatten(jaxprs[-1])) or not all(map(is_zero, results)):
            return with_own
        still = [self._traced(mode, one, inputs, places, True) for mode, one in zip(runs, steps, strict=True)]
        return replace(node_traced, jaxprs=tuple(still[: len(jaxprs)]))

    def _assembled(self, nodes: Sequence[TracedNode]) -> list[TracedNode]:
        """Return the nodes; what puts arrays together for a node that takes them apart again is inside of that node."""
        readers = Counter(itertools.chain(*(node.inputs for node in nodes), self._first.output_slots))
        movers: dict[int, tuple[TracedNode, list[int]]] = {}  # with those before them inside, and the slots of these
        finished, inside = list[TracedNode](), set[int]()
        for node in nodes:
            is_once = len(node.outputs) == len(node.jaxprs) == readers[node.outputs[0]] == 1 and not node.backward
            is_mover = is_once and _moves(flatten(node.jaxprs[0]))
            whole, slots = node, list[int]()
            for place, slot in enumerate(() if node.backward else node.inputs):
                mover, before = movers.get(slot, (None, []))
                larger = self._with_inside(whole, place, mover) if mover and (is_mover or _joins(mover)) else None
                if larger is not None and (is_mover or _joins(larger) <= _joins(whole)):
                    whole = larger
                    slots += [slot, *before]
            if is_mover:
                movers[node.outputs[0]] = whole, slots
            else:
                node = whole
                inside.update(slots)
            finished.append(node)
        return [node for node in finished if inside.isdisjoint(node.outputs)]

    def _with_inside(self, node: TracedNode, place: int, mover: TracedNode) -> TracedNode:
        """Return a node that makes one of its inputs itself."""
        first, *others = dict.fromkeys(mover.inputs)
        inputs = (*node.inputs[:place], first, *node.inputs[place + 1 :], *others)

        def with_inside(jaxpr: Any) -> Any:
            def call(key: Any, *values: Any) -> list[Any]:
                env = dict(zip(inputs, values, strict=True))
                (env[mover.outputs[0]],) = _evaluated(mover.jaxprs[0], key, *(env[slot] for slot in mover.inputs))
                return _evaluated(jaxpr, key, *(env[slot] for slot in node.inputs))

            return jax.make_jaxpr(call)(self._key, *(self._avals[slot] for slot in inputs))

        return replace(node, inputs=inputs, jaxprs=tuple(map(with_inside, node.jaxprs)))

    def _traced(
        self, running: Any, step: Step, inputs: Sequence[Any], places: Sequence[int], fixed: bool = False
    ) -> Any:
        """Return the jaxpr of the outputs at places. fixed: they have no gradient."""

        def call(key: Any, *values: Any) -> list[Any]:
            env: Any = defaultdict(lambda: None, zip(step.inputs, values, strict=True))
            step.run(running, env, key)
            results = [env[step.outputs[place]] for place in places]
            return [jax.lax.stop_gradient(r) if fixed and _is_float(r) else r for r in results]

        described = tuple((aval.shape, aval.dtype) for aval in inputs)
        plain = not {"programs", "attrs", "key"} & set(step.rule.needs)
        which = (step.rule, str(step.params), described) if plain else (step.nid,)
        cache_key = (running, *which, tuple(places), fixed)
        if cache_key not in self._kept:
            self._kept[cache_key] = jax.make_jaxpr(call)(self._key, *inputs)
        return self._kept[cache_key]

    def _with_backward(
        self, traced: TracedNode, step: Step, running: Any, inputs: Sequence[Any], places: Sequence[int], asks: bool
    ) -> TracedNode:
        """Return the node with the gradient of its float inputs by its own rule, where it has one."""
        node = traced.node
        alone, names = Node(node.attrs), [f"input{i}" for i in range(len(inputs))]
        alone.inputs = [NodeEntry(create_variable_node(name), 0, 0) for name in names]
        symbol = Symbol([NodeEntry(alone, i, 0) for i in range(node.num_visible_outputs())])
        states = set(symbol.list_auxiliary_states())
        wrt = tuple(i for i, aval in enumerate(inputs) if _is_float(aval) and names[i] not in states)
        if not wrt:
            return traced
        shown = range(len(symbol.outputs))
        models = self._traced(running, step, inputs, shown).out_avals
        head_places = [place for place in shown if place in places]
        heads = [jax.ShapeDtypeStruct(models[place].shape, models[place].dtype) for place in head_places]
        programs = Programs(symbol)

        def jaxpr(is_train: bool) -> Any:
            options = Options(is_train=is_train, platform=PLAIN, wrt=tuple(names[i] for i in wrt))
            program = programs.gradient(options)

            def call(key: Any, values: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
                named = dict(zip(names, values, strict=True))
                all_heads = [jnp.zeros(model.shape, model.dtype) for model in models]
                for place, cotangent in zip(head_places, cotangents, strict=True):
                    all_heads[place] = cotangent
                args = {n: v for n, v in named.items() if n not in states}
                _, grads, _ = program(args, {n: v for n, v in named.items() if n in states}, key, all_heads)
                return [grads[names[i]] for i in wrt]

            return jax.make_jaxpr(call)(self._key, list(inputs), heads)

        modes = (False, True) if asks else (True,)
        return replace(traced, backward=tuple(map(jaxpr, modes)), wrt=wrt)
