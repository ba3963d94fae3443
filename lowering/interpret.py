"""IndexedGraph → one pure JAX function: an environment and one loop.

`Program` does at build time all that does not depend on array values: it picks the nodes that matter, orders them so
that every reader of a variable sees the version it was composed with, and resolves each input to a slot of the
environment. Running it is a loop over steps. Traced under `jax.jit` the loop disappears.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lowering.arguments import misfit, require_key
from lowering.recompute import Recomputation
from lowering.registry import FLowering, LoweringRule
from lowering.schedule import Schedule
from symjax_nnvm.check.remedies import dtype_remedy, shape_remedy
from symjax_nnvm.errors import InferenceError, LoweringError, NarrowedDtypeWarning, NNVMError, explain, plain_list
from symjax_nnvm.footprint import check_workspaces
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.indexed_graph import IndexedGraph
from symjax_nnvm.ir.node import NodeEntry, Subgraph
from symjax_nnvm.ir.op import FLossEquivalent, TIsBackward
from symjax_nnvm.ir.pass_registry import apply_pass
from symjax_nnvm.ir.types import DTYPE_CODES, DType, DTypeList, Shape, ShapeList, format_shape
from symjax_nnvm.passes.recompute import Recomputed
from symjax_nnvm.passes.wide_dtypes import asking_for_64_bits
from symjax_nnvm.symbol.symbol import Symbol

__all__ = ["Program"]

_NOT_EMPTY = "Leave the empty part out before, or give it at least one element."

Arrays = Mapping[str, Any]
Inferred = tuple[list[Shape | None], list[DType | None]]
Environment = list[Any] | MutableMapping[int, Any]

# What JAX raises while tracing a rule: bad shapes, dtypes, indices, data-dependent control flow.
_TRACE_ERRORS = (
    *(TypeError, ValueError, IndexError, KeyError, NotImplementedError, ArithmeticError, AssertionError),
    MemoryError,  # NumPy's, of constants that a rule makes
)


@dataclass(frozen=True, slots=True)
class Step:
    """One operator: which rule, on which slots, to which slots. programs: its subgraphs."""

    nid: int
    rule: LoweringRule
    params: Any
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    key_id: tuple[int, int]
    programs: tuple[Program, ...] = ()


class Program:
    """A graph, ready to run: `program.run(values by variable number, key) -> slots`.

    outputs: entries to compute. is_train, platform: static choices that rules may ask for. stop_at_loss_heads: for the
    gradient witness only — JAX's derivatives do not pass through the outputs of loss heads. inside: the graph is a
    subgraph of another program, which speaks for both. Warns, at the first run, of dtypes that JAX narrows.
    Raises LoweringError for an operator without a rule, naming every such operator at once.
    """

    def __init__(
        self,
        outputs: Sequence[NodeEntry],
        *,
        is_train: bool,
        platform: str | None = None,
        stop_at_loss_heads: bool = False,
        inside: bool = False,
    ):
        self.graph = Graph(outputs)
        self.index: IndexedGraph = self.graph.indexed_graph()
        self.is_train = is_train
        self._platform = platform
        self._stop_at_loss_heads = stop_at_loss_heads
        self._schedule = Schedule(self.index)
        self.num_slots = self._schedule.num_slots
        self._check_rules()
        key_ids = _key_ids(self.index)
        self.steps = [
            self._step(nid, key_ids.get(nid, (0, 0))) for nid in self._schedule.order if not self._is_variable(nid)
        ]
        self.variables = [nid for nid in self.index.input_nodes if nid in self._schedule.live]
        self.output_slots = [self._schedule.slot(head) for head in self.index.outputs]
        mutated = sorted(self.index.mutable_input_nodes)
        self.aux_slots = {self.name(nid): self._schedule.final_slot(nid) for nid in mutated}
        names = [self.name(nid) for nid in self.index.input_nodes]
        self.aux_names = [self.name(nid) for nid in mutated]
        self.arg_names = [n for n, nid in zip(names, self.index.input_nodes, strict=True) if nid not in set(mutated)]
        self.needs_key = any(self._draws(step) for step in self.steps)
        self._needs_inference = any({"out_shapes", "out_dtypes"} & set(step.rule.needs) for step in self.steps)
        self._check_narrowing = not inside
        self._inferred: dict[Any, Inferred] = {}

    # -- building --------------------------------------------------------------------------------------------------

    def name(self, nid: int) -> str:
        """The name of a node."""
        return self.index.nodes[nid].source.name

    def _is_variable(self, nid: int) -> bool:
        return self.index.nodes[nid].source.is_variable

    def _check_rules(self) -> None:
        missing: dict[str, list[str]] = {}
        for nid in self._schedule.order:
            source = self.index.nodes[nid].source
            if source.op is not None and source.op not in FLowering:
                missing.setdefault(source.op.name, []).append(source.name)
        if missing:
            unruled = "; ".join(f"{op} (nodes {plain_list(map(repr, names), 5)})" for op, names in missing.items())
            raise LoweringError(
                explain(
                    f"No lowering rule for {unruled}",
                    fix='Register one: @lowering.lowers("Name") def _(params, *inputs): ...',
                )
            )

    def _step(self, nid: int, key_id: tuple[int, int]) -> Step:
        source = self.index.nodes[nid].source
        slots, rule = self._schedule, FLowering[source.op]
        programs = (self._subprogram(graph) for graph in source.attrs.subgraphs if "programs" in rule.needs)
        inputs, outputs = slots.inputs(nid), slots.outputs(nid)
        return Step(nid, rule, source.attrs.parsed, inputs, outputs, key_id, tuple(programs))

    def _subprogram(self, graph: Subgraph) -> Program:
        return Program(
            graph.outputs,
            is_train=self.is_train,
            platform=self._platform,
            stop_at_loss_heads=self._stop_at_loss_heads,
            inside=True,
        )

    def _draws(self, step: Step) -> bool:
        """Whether a step draws random numbers."""
        rule = step.rule
        if "key" not in rule.needs:
            return False
        if rule.draws is not None:
            return rule.draws(step.params, self.is_train)
        return "programs" not in rule.needs or any(program.needs_key for program in step.programs)

    @property
    def platform(self) -> str:
        """Where the program runs: "cpu", "cuda", "tpu", …"""
        return self._platform or jax.default_backend()

    def stand_in(self, nid: int) -> int:
        """The node that runs in the place of a node; most run themselves."""
        return self._schedule.stand_in(nid)

    # -- running ---------------------------------------------------------------------------------------------------

    def bind(self, args: Arrays, aux: Arrays) -> dict[int, jax.Array]:
        """Values of the variables by number. Raises LoweringError naming what is missing or unknown."""
        if args.keys() != set(self.arg_names) or aux.keys() != set(self.aux_names):
            raise misfit(Symbol(self.graph.outputs), args.keys(), aux.keys())
        mutable = self.index.mutable_input_nodes
        return {nid: jnp.asarray((aux if nid in mutable else args)[self.name(nid)]) for nid in self.index.input_nodes}

    def run(
        self, values: Mapping[int, jax.Array], key: jax.Array | None, held: Mapping[int, jax.Array] | None = None
    ) -> list[Any]:
        """Evaluate every step; returns the environment, indexed by slot. held: slots that are given, not computed."""
        env: list[Any] = [None] * self.num_slots
        for nid, value in values.items():
            env[self.index.entry_rptr[nid]] = value
        for slot, value in (held or {}).items():
            env[slot] = value
        self.run_steps([step for step in self.steps if any(env[slot] is None for slot in step.outputs)], env, key)
        return env

    def run_steps(self, steps: Sequence[Step | Recomputation[Step]], env: list[Any], key: jax.Array | None) -> None:
        """Evaluate some of the steps into an environment. Raises LoweringError naming operator, node and shapes."""
        single = (one for step in steps for one in (step.steps if isinstance(step, Recomputation) else (step,)))
        require_key(key)
        nodes = [self.name(step.nid) for step in single if self._draws(step)] if key is None else []
        if nodes:
            raise LoweringError(
                f"The graph draws random numbers (nodes {plain_list(map(repr, nodes), 5)}) and needs a PRNG key. "
                "Pass key=jax.random.key(seed)."
            )
        if self._check_narrowing:
            self._check_narrowing = False
            self._warn_of_narrowing()
        inferred = self.infer(env)
        for step in steps:
            if isinstance(step, Recomputation):
                step.run(partial(self._run_step, inferred), env, key, self.platform)
            else:
                self._run_step(inferred, step, env, key)

    def _run_step(self, inferred: Inferred, step: Step, env: Environment, key: jax.Array | None) -> None:
        if self._set_empty(inferred, step, env):
            return
        inputs = [env[slot] for slot in step.inputs]
        extra = {need: self._provide(need, step, key, *inferred) for need in step.rule.needs}
        try:
            result = step.rule.rule(step.params, *inputs, **extra)
        except NNVMError:
            raise
        except _TRACE_ERRORS as error:
            self._check_dtypes(env)
            raise self._failure(step, inputs, error) from error
        results = result if isinstance(result, (tuple, list)) else (result,)
        source = self.index.nodes[step.nid].source
        if isinstance(source.info, Recomputed):
            results = results[: len(step.outputs)]  # a copy writes no states
        if len(results) != len(step.outputs):
            raise self._failure(step, inputs, f"its rule returned {len(results)} values for {len(step.outputs)}")
        if self._stop_at_loss_heads and source.op in FLossEquivalent:
            results = [jax.lax.stop_gradient(value) for value in results]
        for slot, value in zip(step.outputs, results, strict=True):
            env[slot] = value

    def _set_empty(self, inferred: Inferred, step: Step, env: Environment) -> bool:
        """Zeros for the results of a step, if all of them are empty; whether they are.

        Neither the tables that its rule makes nor XLA are bounded by an array without elements: XLA takes 9 s and 2 GB
        to compile the negative of one with 26 axes of 2 and an empty one, and twice that for each further axis of 2.
        """
        first, last = self.index.entry_rptr[step.nid : step.nid + 2]
        shapes, dtypes = inferred[0][first:last], inferred[1][first:last]
        if len(step.outputs) != last - first or None in dtypes:  # it writes states, too, or nobody knows
            return False
        empty = [shape for shape in shapes if shape is not None and 0 in shape]
        if len(empty) != last - first:
            return False
        for slot, shape, dtype in zip(step.outputs, empty, dtypes, strict=True):
            env[slot] = jnp.zeros(shape, jax.dtypes.canonicalize_dtype(dtype))
        return True

    def _provide(self, need: str, step: Step, key: jax.Array | None, shapes: Any, dtypes: Any) -> Any:
        first, last = self.index.entry_rptr[step.nid : step.nid + 2]
        match need:
            case "key":
                return fold_key(key, step.key_id) if key is not None and self._draws(step) else None
            case "is_train":
                return self.is_train
            case "platform":
                return self.platform
            case "out_shapes":
                return shapes[first:last]
            case "out_dtypes":
                return dtypes[first:last]
            case "attrs":
                return self.index.nodes[step.nid].source.attrs
            case "programs":
                return step.programs
            case "reversible":
                return self._stop_at_loss_heads
            case _:
                raise AssertionError(need)

    def call(self, values: Sequence[Any], key: jax.Array | None) -> list[jax.Array]:
        """Run the program as a subgraph: values of all its variables, states included, in order → its outputs.

        States that it writes end with it.
        """
        env = self.run(dict(zip(self.index.input_nodes, values, strict=True)), key)
        return [env[slot] for slot in self.output_slots]

    def _failure(self, step: Step, inputs: Sequence[Any], error: object) -> LoweringError:
        met = ", ".join(f"{getattr(x, 'dtype', type(x).__name__)}{format_shape(np.shape(x))}" for x in inputs)
        source = self.index.nodes[step.nid].source
        if any(0 in np.shape(x) for x in inputs):  # MXNet has no such arrays: there 0 is an unknown size
            problem = "The operator does not take arrays with an empty axis"
            return LoweringError(explain(problem, op=source.op, node=source, got=f"inputs {met}", fix=_NOT_EMPTY))
        return LoweringError(
            explain(f"Lowering failed: {error}", op=source.op, node=source, got=f"inputs {met or 'none'}")
        )

    def _check_dtypes(self, env: Environment) -> None:
        """Infer dtypes after a rule has failed: a dtype that does not fit is best told in the graph's terms.

        Raises InferenceError.
        """
        dtypes = DTypeList([None] * self.index.num_node_entries)
        for nid in self.index.input_nodes:
            value = env[self.index.entry_rptr[nid]]
            if value is not None and value.dtype.name in DTYPE_CODES:
                dtypes[self.index.entry_rptr[nid]] = value.dtype.name
        try:
            apply_pass(self.graph.derive(attrs={"dtype": dtypes}), "MXInferType")
        except InferenceError as error:
            known = self._of_variables(lambda eid: dtypes[eid])
            raise self._with_remedy(error, dtype_remedy(Symbol(self.graph.outputs), known)) from error

    def infer(self, env: Sequence[Any]) -> Inferred:
        """Shapes and dtypes of all entries, from those the environment already holds; remembered per signature.

        Run before any rule, so that a contradiction is reported in the graph's terms and not in JAX's.
        Raises InferenceError.
        """
        held = [(eid, env[eid]) for eid in range(self.index.num_node_entries) if env[eid] is not None]
        signature = tuple((eid, value.shape, value.dtype.name) for eid, value in held)
        found = self._inferred.get(signature)
        if found is None:
            shapes = ShapeList([None] * self.index.num_node_entries)
            dtypes = DTypeList([None] * self.index.num_node_entries)
            for eid, value in held:
                shapes[eid] = value.shape
                dtypes[eid] = value.dtype.name if value.dtype.name in DTYPE_CODES else None
            try:
                graph = apply_pass(self.graph.derive(attrs={"shape": shapes}), "MXInferShape")
                check_workspaces(graph)
            except InferenceError as error:
                given = self._of_variables(lambda eid: shapes[eid])
                raise self._with_remedy(error, shape_remedy(Symbol(self.graph.outputs), given)) from error
            shapes = graph.attrs["shape"]
            if self._needs_inference or any(shape is not None and 0 in shape for shape in shapes):
                dtypes = apply_pass(self.graph.derive(attrs={"dtype": dtypes}), "MXInferType").attrs["dtype"]
            found = self._inferred[signature] = (shapes, dtypes)
        return found

    def _of_variables(self, found: Callable[[int], Any]) -> dict[str, Any]:
        """What is known of the variables, by name; found: of an entry."""
        known = ((self.name(nid), found(self.index.entry_rptr[nid])) for nid in self.index.input_nodes)
        return {name: value for name, value in known if value is not None}

    def _with_remedy(self, error: InferenceError, remedy: str) -> InferenceError:
        return InferenceError(f"{error} {remedy}".rstrip(), error.node)

    def _warn_of_narrowing(self) -> None:
        """Name the nodes whose attributes ask for 64 bits where JAX has only 32."""
        if jax.dtypes.canonicalize_dtype(np.float64) == np.float64:
            return
        try:
            inferred = apply_pass(self.graph.derive(attrs={"dtype_attr_key": "__dtype__"}), "MXInferType")
        except InferenceError:
            return  # what does not fit together is reported where the arrays' dtypes are known
        asking = [f"{node.name!r} ({dtype})" for node, dtype in asking_for_64_bits(inferred)]
        if asking:
            origins = ", ".join(asking[:5]) + (f" and {len(asking) - 5} more" if len(asking) > 5 else "")
            warnings.warn(
                f"The graph asks for 64-bit numbers and runs in 32 bits: nodes {origins}. For 64 bits, run it inside "
                "`with jax.enable_x64(True):`, or set the environment variable JAX_ENABLE_X64=1.",
                NarrowedDtypeWarning,
                stacklevel=5,
            )

    def collect(self, env: Sequence[Any]) -> tuple[list[jax.Array], dict[str, jax.Array]]:
        """(outputs, new auxiliary states) from an environment."""
        return [env[slot] for slot in self.output_slots], {name: env[s] for name, s in self.aux_slots.items()}


def fold_key(key: jax.Array, key_id: tuple[int, int]) -> jax.Array:
    """A node's own key, from the call's key."""
    name_hash, occurrence = key_id
    folded = jax.random.fold_in(key, name_hash)
    return jax.random.fold_in(folded, occurrence) if occurrence else folded


def _key_ids(index: IndexedGraph) -> dict[int, tuple[int, int]]:
    """A random node's identity: the hash of its name, and which of the nodes of that name it is.

    It depends on nothing but the forward graph, so the forward function, the forward+backward function and any cut of
    the graph draw the same numbers. A mirrored copy (`{name}_mirror`) draws those of its original, and so does a
    backward node that runs its forward node's subgraph again. A copy without its original is known by its name.
    """
    occurrences: dict[str, int] = {}
    ids: dict[int, tuple[int, int]] = {}
    for nid, node in enumerate(index.nodes):
        rule = FLowering.get(node.source.op)
        if rule is not None and "key" in rule.needs:
            if TIsBackward.get(node.source.op) and node.control_deps and node.control_deps[0] in ids:
                ids[nid] = ids[node.control_deps[0]]
                continue
            mark = node.source.info
            original = (
                index.node_id(mark.original) if isinstance(mark, Recomputed) and index.exist(mark.original) else None
            )
            if original in ids:
                ids[nid] = ids[original]
                continue
            name = node.source.name
            occurrence = occurrences.get(name, 0)
            occurrences[name] = occurrence + 1
            ids[nid] = (zlib.crc32(name.removesuffix("_mirror").encode()), occurrence)
    return ids
