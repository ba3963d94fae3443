"""IndexedGraph → one pure JAX function: an environment and one loop.

`Program` does at build time all that does not depend on array values: it picks the nodes that matter, orders them so
that every reader of a variable sees the version it was composed with, and resolves each input to a slot of the
environment. Running it is a loop over steps. Traced under `jax.jit` the loop disappears.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain, count
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lowering.core.inference import Inference, Inferred
from lowering.core.mesh_parts import count_parts, on_each_part
from lowering.core.node_keys import fold_key, key_places
from lowering.core.python_calls import PythonCall, of_python
from lowering.core.rules import FLowering, LoweringRule, Need, writes_in_backward
from lowering.core.schedule import Needed, Schedule
from lowering.core.segments import Device, Segments, is_traced
from lowering.core.steps import Environment, Recomputation, Running, Step
from lowering.jax_casts import TooWideError, require_held
from lowering.messages.arguments import misfit, require_key
from lowering.native.unpromised import UndecidedSizeError
from lowering.xla.platforms import current_platform
from symjax_nnvm.errors import LoweringError, NNVMError, OpenSizeError, explain, plain_list
from symjax_nnvm.ir.attributes import FDequantized, FLossEquivalent
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.indexed_graph import IndexedGraph
from symjax_nnvm.ir.listing import InputOption, subgraph, subgraph_variables, variables
from symjax_nnvm.ir.node import Node, Subgraph
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.rules.size_symbols import are_undecided, is_at_most, is_open, needed
from symjax_nnvm.ir.types import format_shape
from symjax_nnvm.passes.choose_algorithm import UNCHOSEN, algorithm_of
from symjax_nnvm.passes.mirror.recompute import Recomputed
from symjax_nnvm.pipeline import Options
from symjax_nnvm.symbol.symbol import Symbol

__all__ = ["Program"]

_NOT_EMPTY = "Remove the empty part before, or give it at least one element."

Arrays = Mapping[str, Any]

# What JAX raises while tracing a rule: bad shapes, dtypes, indices, data-dependent control flow.
_TRACE_ERRORS = (
    *(TypeError, ValueError, IndexError, KeyError, NotImplementedError, ArithmeticError, AssertionError),
    UndecidedSizeError,  # of sizes that are left open
    MemoryError,  # NumPy's, of constants that a rule makes
)


class Program:
    """A graph, ready to run: `program.run(values by variable number, key) -> slots`.

    graph: the graph that the pipeline made; options: is_train, platform and witness are static choices that rules may
    read.
    num_outputs: the number of the graph's outputs that are computed, with what they and states need; None: all.
    beside: variables that no caller names, the head gradients. inside: the graph is a subgraph of another program,
    which warns for both. inference: the inference over the graph, where other programs share it. network: the graph
    that it was made of, whose arguments and states are the program's, although it may not read or write them any more,
    options.constants excepted.
    Warns, at the first run, of dtypes that JAX narrows. Raises LoweringError for an operator without a rule, naming
    every such operator at once.
    """

    def __init__(
        self,
        graph: Graph,
        options: Options,
        *,
        num_outputs: int | None = None,
        beside: Collection[Node] = (),
        inside: bool = False,
        inference: Inference | None = None,
        network: Graph | None = None,
    ):
        self.graph, self.options = graph, options
        self.index: IndexedGraph = graph.indexed_graph()
        self._schedule = Schedule(self.index, num_outputs)
        rules = self._rules()
        self.written: set[str] = set()
        """Names of the states that steps change: not those of operators whose backward part is missing."""
        self.steps = list(self._steps(rules))
        heads = self.index.outputs[:num_outputs]
        self.symbol = Symbol((network or graph).outputs[:num_outputs])
        self.variables = [nid for nid in self.index.input_nodes if nid in self._schedule.live]
        self.output_slots = [self._schedule.slot(head) for head in heads]
        apart = {self.index.node_id(node) for node in beside if self.index.exist(node)}
        named = [nid for nid in self.index.input_nodes if nid not in apart and nid in self._schedule.reached]
        args, aux = ({}, {}) if network is None or network is graph else self._of_network(network)
        self._aux = aux or {nid: self.name(nid) for nid in named if nid in self.index.mutable_input_nodes}
        self._args = args | {nid: self.name(nid) for nid in named if nid not in self._aux}
        gone = [nid for nid in (*self._args, *self._aux) if nid >= self.index.num_nodes]
        self.num_slots = self._schedule.num_slots + len(gone)
        finals = ((nid, self._schedule.final_slot if nid not in gone else self._slot) for nid in self._aux)
        self.aux_slots = {self._aux[nid]: slot(nid) for nid, slot in finals}
        self.aux_names, self.arg_names = list(self._aux.values()), list(self._args.values())
        places = self._places()
        apart = bool(places) or any(step.python for step in self.steps)
        self.segments = Segments(options.platform, places) if apart else None
        """What runs it in segments; None where no operator of it is Python, and one device runs all."""
        self.needs_key = any(self.draws(step) for step in self.steps if "key" in step.rule.needs)
        self._inside = inside
        self.inference = inference or Inference(graph)
        self.inference.reads_dtypes |= any(
            op in FDequantized or {"out_shapes", "out_dtypes"}.intersection(rule.needs) for op, rule in rules.items()
        )

    # -- building --------------------------------------------------------------------------------------------------

    def name(self, nid: int) -> str:
        """Return the name of a node."""
        return self.index.nodes[nid].source.name

    def _of_network(self, network: Graph) -> tuple[dict[int, str], dict[int, str]]:
        """Arguments and states of a network by number; those this graph does not read are numbered past its nodes."""
        past, exists, constants = count(self.index.num_nodes), self.index.exist, self.options.constants or ()

        def named(option: InputOption) -> dict[int, str]:
            nodes = [n for n in variables(network.nodes(), option) if exists(n) or n.name not in constants]
            return {self.index.node_id(n) if exists(n) else next(past): n.name for n in nodes}

        return named("read_only"), named("aux_state")

    def _places(self) -> dict[int, Device]:
        """Return the device of each node that PlaceDevice gave one; nothing where all have the same."""
        numbers, devices = self.graph.attrs.get("device", ()), self.graph.attrs.get("devices", ())
        return {nid: devices[number] for nid, number in enumerate(numbers)} if len(set(numbers)) > 1 else {}

    def _slot(self, nid: int) -> int:
        """Return the slot of a variable as it was given."""
        past = nid - self.index.num_nodes
        return self.index.entry_rptr[nid] if past < 0 else self._schedule.num_slots + past

    def _rules(self) -> dict[Op, LoweringRule]:
        """Return the rule of each operator that runs."""
        rules: dict[Op, LoweringRule] = {}
        missing: dict[str, list[str]] = {}
        for nid in self._schedule.order:
            source = self.index.nodes[nid].source
            op = source.attrs.op
            if op is None or op in rules:
                continue
            rule = FLowering.get(op)
            if rule is None:
                missing.setdefault(op.name, []).append(source.name)
            else:
                rules[op] = rule
        if missing:
            unruled = "; ".join(f"{op} (nodes {plain_list(map(repr, names), 5)})" for op, names in missing.items())
            raise LoweringError(
                explain(
                    f"No lowering rule for {unruled}",
                    fix='Register one: @lowering.lowers("Name") def _(params, *inputs): ...',
                )
            )
        return rules

    def _steps(self, rules: Mapping[Op, LoweringRule]) -> Iterator[Step]:
        """Yield the live operators, in the order in which they run."""
        nodes, schedule, places = self.index.nodes, self._schedule, key_places(self.index)
        unreached: Collection[Node] = self.graph.attrs.get("unreached", ())
        for nid in schedule.order:
            attrs = nodes[nid].source.attrs
            if attrs.op is None:
                continue
            rule = rules[attrs.op]
            if nodes[nid].source in unreached and writes_in_backward(attrs.op):
                rule = rule.keeping(self.index.mutated_inputs[nid])
            elif nid in self.index.mutated_inputs:
                self.written |= {self.name(nodes[nid].inputs[i].node_id) for i in self.index.mutated_inputs[nid]}
            programs: tuple[Program, ...] = ()
            if attrs.subgraphs and "programs" in rule.needs:
                programs = tuple(self._subprogram(graph) for graph in attrs.subgraphs)
            inputs, outputs = schedule.inputs(nid), schedule.outputs(nid)
            yield Step(nid, rule, attrs.parsed, inputs, outputs, places.get(nid, 0), programs)

    def _subprogram(self, graph: Subgraph) -> Program:
        """Return the program of a loop's body or a branch, which went through the pipeline with the graph around it."""
        body = subgraph(graph.outputs, subgraph_variables(graph))
        planned = self.graph.attrs.get("algorithm", {})
        return Program(body.derive(attrs={**body.attrs, "algorithm": planned}), self.options, inside=True)

    def draws(self, step: Step) -> bool:
        """Return whether a step draws random numbers."""
        rule = step.rule
        if "key" not in rule.needs:
            return False
        if rule.draws is not None:
            return rule.draws(step.params, self.options.is_train)
        return "programs" not in rule.needs or any(program.needs_key for program in step.programs)

    @cached_property
    def read(self) -> set[int]:
        """Return the slots that steps or callers read."""
        return {*self.collected, *(slot for step in self.steps for slot in step.inputs)}

    @property
    def platform(self) -> str:
        """Return the platform on which the program runs: "cpu", "gpu", "tpu", or "any"."""
        return self.options.platform or current_platform(self.options.mesh)

    def algorithm(self, step: Step, inputs: Sequence[Any]) -> str:
        """Return the algorithm of a step: the plan's, or the rule's choice where the plan lacked the shapes."""
        options, node = self.options, self.index.nodes[step.nid].source
        if "ChooseAlgorithm" in options.without or options.backend is None:
            return UNCHOSEN
        planned = self.graph.attrs.get("algorithm", {}).get(node)
        if planned is not None:
            return planned
        count = 1 if step.rule.by_part is None else count_parts(step.rule.by_part, options, self.platform, inputs)
        shapes = [np.shape(array) for array in inputs]
        for i in step.rule.by_part.samples if step.rule.by_part is not None and count > 1 else ():
            shapes[i] = (shapes[i][0] // count, *shapes[i][1:])
        return algorithm_of(node, shapes, inputs[0].dtype.name, options.backend) or UNCHOSEN

    def stand_in(self, nid: int) -> int:
        """Return the node that runs in place of a node; most run themselves."""
        return self._schedule.stand_in(nid)

    @property
    def is_train(self) -> bool:
        """Return whether the program runs as in training."""
        return self.options.is_train

    def forward(self, num_outputs: int) -> Program:
        """Return the program of the first outputs alone, over the same graph and its inferred shapes."""
        return Program(self.graph, self.options, num_outputs=num_outputs, inference=self.inference)

    def part_of(self, num_outputs: int) -> set[int]:
        """Return the nodes that run for the first outputs, and for the states that these reach."""
        return {self._schedule.stand_in(nid) for nid in Needed(self.index, num_outputs).live}

    # -- running ---------------------------------------------------------------------------------------------------

    def bind(self, args: Arrays, aux: Arrays) -> dict[int, jax.Array]:
        """Return values of the variables by number. Raises LoweringError naming what is missing or unknown."""
        if args.keys() != set(self.arg_names) or aux.keys() != set(self.aux_names):
            raise misfit(self.symbol, args.keys(), aux.keys())
        values = {nid: jnp.asarray(require_held(args[name], name)) for nid, name in self._args.items()}
        return values | {nid: jnp.asarray(require_held(aux[name], name)) for nid, name in self._aux.items()}

    def environment(self, values: Mapping[int, jax.Array], slots: Mapping[int, jax.Array] | None = None) -> list[Any]:
        """Return an environment with the values of variables, by number, and of other slots, where they belong."""
        env: list[Any] = [None] * self.num_slots
        for nid, value in values.items():
            env[self._slot(nid)] = value
        for slot, value in (slots or {}).items():
            env[slot] = value
        return env

    def evaluate(
        self, args: Arrays, aux: Arrays, key: jax.Array | None
    ) -> tuple[list[jax.Array], dict[str, jax.Array]]:
        """Return (outputs, new auxiliary states) for arrays by name. Raises LoweringError."""
        env = self.environment(self.bind(args, aux))
        self.run_steps(self.steps, env, key, self.collected)
        return self.collect(env)

    def run(
        self, values: Mapping[int, jax.Array], key: jax.Array | None, held: Mapping[int, jax.Array] | None = None
    ) -> list[Any]:
        """Evaluate every step; returns the environment, indexed by slot. held: slots that are given, not computed."""
        env = self.environment(values, held)
        self.run_steps([step for step in self.steps if any(env[slot] is None for slot in step.outputs)], env, key)
        return env

    def run_steps(
        self,
        steps: Iterable[Step | Recomputation],
        env: list[Any],
        key: jax.Array | None,
        slots: Collection[int] | None = None,
    ) -> None:
        """Evaluate some of the steps into an environment. slots: those that the caller reads, None: any; where the
        program runs in segments, others may stay empty. Raises LoweringError naming operator, node and shapes."""
        steps = list(steps)
        require_key(key)
        if key is None and (nodes := [self.name(one.nid) for step in steps for one in step.steps if self.draws(one)]):
            raise LoweringError(
                f"The graph draws random numbers (nodes {plain_list(map(repr, nodes), 5)}) and needs a PRNG key. "
                "Pass key=jax.random.key(seed)."
            )
        if not self._inside:
            self.inference.warn_of_narrowing()
        in_segments = self.segments is not None and not is_traced(env, key)
        running = _Running(self, self.inference.of_environment(env), in_segments)
        if self.segments is not None and in_segments:
            self.segments.run(steps, running, env, key, slots)
            return
        for step in steps:
            step.run(running, env, key)

    def running(self, env: Sequence[Any]) -> Running:
        """Return one run, whose steps a caller runs by himself. env: variables, or what describes them, by slot."""
        return _Running(self, self.inference.of_environment(env), False)

    def call(self, values: Sequence[Any], key: jax.Array | None) -> list[jax.Array]:
        """Run the program as a subgraph: values of all its variables, states included, in order → its outputs.

        States that it writes end with it.
        """
        fed = zip(subgraph_variables(self.graph), values, strict=True)
        env = self.run({self.index.node_id(node): value for node, value in fed if self.index.exist(node)}, key)
        return [env[slot] for slot in self.output_slots]

    @property
    def collected(self) -> list[int]:
        """Return the slots that `collect` reads."""
        return [*self.output_slots, *self.aux_slots.values()]

    def collect(self, env: Sequence[Any]) -> tuple[list[jax.Array], dict[str, jax.Array]]:
        """Return (outputs, new auxiliary states) from an environment."""
        return [env[slot] for slot in self.output_slots], {name: env[s] for name, s in self.aux_slots.items()}


class _Running:
    """One run of a program, over arrays of known shapes and dtypes; equal to other runs over such arrays.

    in_segments: whether Python runs in this thread; else the program that is traced calls it.
    """

    def __init__(self, program: Program, inferred: Inferred, in_segments: bool):
        self._program = program
        self._inferred = inferred
        self._in_segments = in_segments
        self.platform = program.platform

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Running) and (self._program, id(self._inferred)) == (
            other._program,
            id(other._inferred),
        )

    def __hash__(self) -> int:
        return hash((self._program, id(self._inferred)))

    def provide(self, need: Need, step: Step, key: jax.Array | None, env: Environment) -> Any:
        """Return the value that the step's rule needs besides parameters and inputs."""
        program = self._program
        first, last = program.index.entry_rptr[step.nid : step.nid + 2]
        match need:
            case "key":
                return fold_key(key, step.draw_place) if key is not None and program.draws(step) else None
            case "is_train":
                return program.is_train
            case "platform":
                return self.platform
            case "algorithm":
                return program.algorithm(step, [env[slot] for slot in step.inputs])
            case "out_shapes":
                return self._inferred.shapes[first:last]
            case "out_dtypes":
                return self._inferred.dtypes[first:last]
            case "attrs":
                return program.index.nodes[step.nid].source.attrs
            case "programs":
                return step.programs
            case "reversible":
                return program.options.witness
            case "mesh":
                return program.options.mesh
            case "requests":
                return [_request(env[slot], slot in program.read) for slot in range(first, last)]

    def empty(self, step: Step) -> list[Any] | None:
        """Return zeros for the results of a step, if all of them are empty.

        Neither the tables that its rule makes nor XLA are bounded by an array without elements: XLA takes 9 s and 2 GB
        to compile the negative of one with 26 axes of 2 and an empty one, and twice that for each further axis of 2.
        """
        first, last = self._program.index.entry_rptr[step.nid : step.nid + 2]
        shapes, dtypes = self._inferred.shapes[first:last], self._inferred.dtypes[first:last]
        if len(step.outputs) != last - first or None in dtypes:  # it writes states, too, or a dtype is undecided
            return None
        empty = [shape for shape in shapes if shape is not None and 0 in shape and None not in shape]
        if len(empty) != last - first:
            return None
        return [jnp.zeros(s, jax.dtypes.canonicalize_dtype(t)) for s, t in zip(empty, dtypes, strict=True)]

    def _apply(self, step: Step, inputs: list[Any], extra: dict[str, Any]) -> Any:
        rule, by_part = step.rule.rule, step.rule.by_part
        if by_part is None:
            result = rule(step.params, *inputs, **extra)
            if isinstance(result, PythonCall):
                return result.in_this_thread(inputs) if self._in_segments else result.called_back(inputs)
            return result
        function = partial(rule, step.params, **extra)
        return on_each_part(function, by_part, self._program.options, self.platform, inputs)

    def _require_sizes(self, step: Step, source: Node, inputs: Sequence[Any]) -> None:
        """Raise OpenSizeError for a size of the node's arrays, such as (H - 2)·(W - 2), that JAX cannot tell from 0 or
        a negative number."""
        first, last = self._program.index.entry_rptr[step.nid : step.nid + 2]
        outputs = (shape or () for shape in self._inferred.shapes[first:last])
        try:
            for size in chain.from_iterable((*map(np.shape, inputs), *outputs)):
                is_at_most(1, 1 if size is None else size)
        except OpenSizeError as error:
            raise needed(error.condition, op=source.op, node=source) from error

    def call(self, step: Step, inputs: list[Any], extra: dict[str, Any], env: Environment) -> list[Any]:
        """Return the values that the step's rule returns. Raises LoweringError naming operator, node and shapes."""
        source, numbers = self._program.index.nodes[step.nid].source, step.rule.numbers
        if numbers is not None and inputs and numbers.are_missing(np.shape(inputs[0])):
            raise _failure(source, inputs, numbers.reason)
        try:
            scope = source.name or str(source.op and source.op.name)
            with jax.named_scope(scope):  # profiles, HLO and XLA's memory reports name the node
                result = self._apply(step, inputs, extra)
        except TooWideError as error:
            raise error.at(source.op, source) from error
        except NNVMError:
            raise
        except (*_TRACE_ERRORS, AttributeError) as error:
            if of_python(error) or (isinstance(error, AttributeError) and not _are_open(inputs)):
                raise
            self._program.inference.check_dtypes(env)
            if isinstance(error, are_undecided()):
                self._require_sizes(step, source, inputs)
            raise _failure(source, inputs, error) from error
        results = list(result) if isinstance(result, (tuple, list)) else [result]
        if isinstance(source.info, Recomputed):
            results = results[: len(step.outputs)]  # a copy writes no states
        if len(results) != len(step.outputs):
            raise _failure(
                source, inputs, f"its rule returned {len(results)} values, but it has {len(step.outputs)} outputs"
            )
        if self._program.options.witness and source.op in FLossEquivalent:
            results = [jax.lax.stop_gradient(value) for value in results]
        return results


def _request(old: Any, read: bool) -> tuple[str, Any]:
    """Return the request for a result: how it is written, and the array that it is added to."""
    return ("add", old) if old is not None else ("write", None) if read else ("null", None)


def _are_open(inputs: Sequence[Any]) -> bool:
    return any(is_open(size) for x in inputs for size in np.shape(x))


def _failure(source: Node, inputs: Sequence[Any], error: object) -> LoweringError:
    met = ", ".join(f"{getattr(x, 'dtype', type(x).__name__)}{format_shape(np.shape(x))}" for x in inputs)
    if any(0 in np.shape(x) for x in inputs):  # MXNet has no such arrays: there 0 is an unknown size
        problem = "The operator does not support arrays with an empty axis"
        return LoweringError(explain(problem, op=source.op, node=source, got=f"inputs {met}", fix=_NOT_EMPTY))
    if _are_open(inputs):
        first, *_ = str(error).splitlines() or [""]  # the rest is JAX's advice for authors of rules
        problem = f"The operator needs a size that was left open: {first}"
        return LoweringError(explain(problem, op=source.op, node=source, got=f"inputs {met}"))
    return LoweringError(explain(f"Lowering failed: {error}", op=source.op, node=source, got=f"inputs {met or 'none'}"))
