"""The pipeline: the passes that a network goes through before it is lowered, their order and conditions.

`STAGES` is the list. Every part that runs a network (`lowering.to_jax`, `compile`, `grad_fn`, an executor, a Trainer,
the gradient witness, the command) states its wishes as `Options` and gets a `Plan`: the graph that the stages made, and
a record of each. A new pass is one file in `passes/` and one row here; `register` takes one from elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

from symjax_nnvm.errors import (
    GradientError,
    GraphError,
    PassError,
    SymbolValueError,
    close_names,
    explain,
    listed,
    refuse_unknown,
)
from symjax_nnvm.ir.backend_token import BackendToken
from symjax_nnvm.ir.check_graph import check_graph
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.listing import count_subgraph_nodes, variables
from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.ir.types import DType, Shape
from symjax_nnvm.passes.alter_op_layout import alter_op_layout
from symjax_nnvm.passes.choose_algorithm import choose_algorithm
from symjax_nnvm.passes.eliminate_common_expressions import eliminate_common_expressions
from symjax_nnvm.passes.fold_scale_axis import fold_scale_axis
from symjax_nnvm.passes.fuse_attention import fuse_attention
from symjax_nnvm.passes.fuse_convolution import fuse_convolution
from symjax_nnvm.passes.fuse_relu_gradient import fuse_relu_gradient
from symjax_nnvm.passes.gradient.full_graph import add_gradients
from symjax_nnvm.passes.hoist_invariants import hoist_invariants
from symjax_nnvm.passes.mirror import Mirror
from symjax_nnvm.passes.place_device import place_device
from symjax_nnvm.passes.place_sharding import place_sharding
from symjax_nnvm.passes.precompute_prune import precompute_prune
from symjax_nnvm.passes.quantize import Quantization, quantize
from symjax_nnvm.passes.reduce_precision import reduce_precision
from symjax_nnvm.passes.simplify_inference import simplify_inference
from symjax_nnvm.passes.subgraphs import Known, has_subgraphs, in_subgraphs
from symjax_nnvm.passes.transform_weights import transform_weights
from symjax_nnvm.recent import Recent
from symjax_nnvm.tables import table_html, table_text

__all__ = [
    "ANY",
    "ATTENTIONS",
    "PLAIN",
    "PLATFORMS",
    "STAGES",
    "Mesh",
    "Need",
    "Options",
    "Pipeline",
    "Plan",
    "Stage",
    "StageRecord",
    "arguments",
    "optional_stages",
    "register",
    "require_platform",
    "stages",
    "without",
]

ANY = "any"
"""A program for several kinds of platform: without what only one of them gains from."""

PLAIN = "plain"
"""A program that is read: its operations are those that a person would write, not those that are fast somewhere."""

PLATFORMS = ("cpu", "gpu", "tpu", ANY, PLAIN)
"""The kinds of platform that a program is made for."""

ATTENTIONS = ("cudnn",)
"""The libraries that may compute attention."""

_without: ContextVar[frozenset[str]] = ContextVar("without", default=frozenset())


class Mesh(Protocol):
    """Describes the part of a mesh of devices that the pipeline reads; a mesh is hashed, too."""

    @property
    def axis_names(self) -> tuple[Any, ...]:
        """Return the names of the mesh's axes."""
        ...

    @property
    def size(self) -> int:
        """Return the number of the mesh's devices."""
        ...


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a network's pipeline: what a caller wants of the network.

    is_train: the train flag that operators read. wrt: names of the arguments whose gradients are computed; None: no
    gradients, and no graph for them. platform: "cpu", "gpu" or "tpu" to lower for, "any" for all of them; None: where
    JAX runs. mirror: the nodes that the backward part computes again (`passes/mirror`). shapes, dtypes: those of
    variables by name, as pairs, where they are known: FuseConvolution, TransformWeights and ChooseAlgorithm read them,
    and mirror "blocks". compute_dtype: "bfloat16" or "float16" for matrix products and convolutions; None: as in the
    graph. witness: JAX is going to differentiate the function, and no derivative passes through the outputs of loss
    heads. constants: names of the variables, arguments or states, that do not change between calls: values that depend
    on them alone are a graph of their own, `Plan.precompute`; None: all may change. backend: what computes convolutions
    and dense layers; chosen by lowering. mesh: of devices, to whose axes `__sharding__` refers; None: the attribute
    means nothing. data_axis: the axes of the mesh that samples are split over. without: names of the stages that do not
    run, by default those of `without`. groups: pairs of a `ctx_group` and the device that runs it, whatever stands for
    a device; first "" with the device of nodes in no group; None: one device runs all. quantization: the layers that
    compute with 8-bit integers; None: those of the graph. attention: "cudnn" for attention in half precision by cuDNN's
    kernel on a CUDA GPU; None: by products and softmax. stages: the pipeline, by default `stages()`.

    Raises PassError for a name that is not one of the optional stages', SymbolValueError for a platform or an attention
    that is none.
    """

    is_train: bool = False
    wrt: tuple[str, ...] | None = None
    platform: str | None = None
    mirror: Mirror = None
    shapes: tuple[tuple[str, Shape], ...] | None = None
    dtypes: tuple[tuple[str, DType], ...] | None = None
    compute_dtype: DType | None = None
    witness: bool = False
    constants: frozenset[str] | None = None
    backend: BackendToken | None = None
    mesh: Mesh | None = None
    data_axis: tuple[str, ...] = ("data",)
    without: frozenset[str] = field(default_factory=_without.get)
    groups: tuple[tuple[str, Hashable], ...] | None = None
    quantization: Quantization | None = None
    attention: str | None = None
    stages: tuple[Stage, ...] = field(default_factory=lambda: stages(), repr=False)

    def __post_init__(self):
        require_platform(self.platform)
        if self.attention is not None:
            refuse_unknown(SymbolValueError, "No such attention:", [self.attention], ATTENTIONS, "attentions")
        if self.without:
            optional = [stage.name for stage in self.stages if stage.optional]
            fix = "A network's stages are printed by lowering.explain(net)."
            refuse_unknown(PassError, "Cannot run without", self.without, optional, "optional stages", fix)


def require_platform(platform: str | None) -> None:
    """Raise SymbolValueError for a word that is not a kind of platform."""
    if platform is not None and platform not in PLATFORMS:
        fix = "cuda and rocm are gpu." if platform in ("cuda", "rocm") else ""
        refuse_unknown(SymbolValueError, "No such platform:", [platform], PLATFORMS, "platforms", fix)


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Let plans made in this context (thread) leave out the stages of these names: `with without("FoldScaleAxis"):`.

    Raises PassError for a name that is not one of `optional_stages()`.
    """
    token = _without.set(Options(without=_without.get().union(names)).without)
    try:
        yield
    finally:
        _without.reset(token)


@dataclass(frozen=True, slots=True)
class Need:
    """A need of a stage: a value of the options without which it does not run.

    what: in words, after "needs". read: what the stage reads of it; None where it is missing.
    """

    what: str
    read: Callable[[Options], Hashable | None]


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """A step of the pipeline: Graph → Graph.

    name: the pass's, as NNVM has it. about: what it does, in a few words. run: makes the next graph. needs: the values
    without which it does not run. reads: further options that decide what it does. optional: it changes how a network
    runs, and not what it computes, so that it may be left out. inside: it is run on subgraphs, too, before the graph
    that holds them.
    """

    name: str
    about: str
    run: Callable[[Graph, Options], Graph]
    needs: tuple[Need, ...] = ()
    reads: Callable[[Options], Hashable] = lambda options: None
    optional: bool = True
    inside: bool = True

    def missing(self, options: Options) -> list[str]:
        """Return the options that the stage needs and does not get, in words."""
        return [need.what for need in self.needs if need.read(options) is None]

    def key(self, options: Options) -> Hashable | None:
        """Return the values that the stage reads of the options; None where it does not run."""
        values = [need.read(options) for need in self.needs]
        return None if None in values else (*values, self.reads(options))

    def __call__(self, graph: Graph, options: Options) -> Graph:
        """Return the next graph, its subgraphs included."""
        if self.inside and has_subgraphs(graph):
            outer_facts = Known(options.constants, options.shapes, options.dtypes)

            def change(body: Graph, facts: Known) -> Graph:
                inner = replace(options, constants=facts.constants, shapes=facts.shapes, dtypes=facts.dtypes)
                return body if self.missing(inner) else self(body, inner)

            graph = in_subgraphs(graph, outer_facts, change)
        return self.run(graph, options) if self in STAGES else _checked_run(self, graph, options)


def _fuses(backend: BackendToken | None) -> bool:
    return backend is not None and backend.fuses


_MESH = Need("a mesh of devices", lambda options: None if options.mesh is None else options.mesh.axis_names)
_INFERENCE = Need(
    "inference", lambda options: (options.wrt is None and not options.is_train and not options.witness) or None
)
_GRADIENTS = Need("gradients", lambda options: options.wrt)
_NO_GRADIENTS = Need("no gradients", lambda options: options.wrt is None or None)
_CONSTANTS = Need("constants", lambda options: options.constants)
_SHAPES = Need("shapes", lambda options: options.shapes)
_CPU = Need("a CPU", lambda options: options.platform == "cpu" or None)
_BACKEND = Need("a backend", lambda options: options.backend)
_FUSING = Need("a backend that fuses", lambda options: options.backend if _fuses(options.backend) else None)
_GROUPS = Need("devices of groups", lambda options: options.groups)
_INTEGERS = Need("a quantization", lambda options: options.quantization)
_GPU = Need("a GPU", lambda options: options.platform == "gpu" or None)
_ONE_DEVICE = Need("one device", lambda options: options.mesh is None or None)
_ATTENTION = Need("an attention", lambda options: options.attention)
_HALF = Need("a half precision", lambda options: options.compute_dtype)


def _transform_weights(graph: Graph, options: Options) -> Graph:
    shapes, dtypes = dict(options.shapes or ()), dict(options.dtypes or ())
    assert options.backend is not None
    return transform_weights(graph, options.constants or (), options.backend, shapes=shapes, dtypes=dtypes)


def _choose_algorithm(graph: Graph, options: Options) -> Graph:
    assert options.backend is not None
    return choose_algorithm(graph, options.backend, Known(options.constants, options.shapes, options.dtypes))


def _place_device(graph: Graph, options: Options) -> Graph:
    devices = {device: None for _, device in options.groups or ()}
    numbers = {device: number for number, device in enumerate(devices)}
    assign_map = {group: numbers[device] for group, device in options.groups or ()}
    placed = place_device(graph, group_attr_key="__ctx_group__", assign_map=assign_map, copy_op=None)
    return placed.derive(attrs=placed.attrs | {"devices": tuple(devices)})


STAGES: tuple[Stage, ...] = (
    Stage(
        "PlaceSharding",
        "constraints where __sharding__ says",
        lambda graph, options: place_sharding(graph, options.mesh.axis_names if options.mesh else ()),
        (_MESH,),
    ),
    Stage(
        "QuantizeGraph",
        "layers of 8-bit integers",
        lambda graph, options: quantize(graph, options.quantization or Quantization()),
        (_INTEGERS, _NO_GRADIENTS),
        optional=False,
        inside=False,
    ),
    Stage(
        "SimplifyInference",
        "dropout and copies removed; BatchNorm scales",
        lambda graph, _: simplify_inference(graph),
        (_INFERENCE,),
    ),
    Stage(
        "FoldScaleAxis",
        "scales folded into weights",
        lambda graph, options: fold_scale_axis(graph, options.constants or ()),
        (_CONSTANTS, _NO_GRADIENTS),
    ),
    Stage(
        "ReducePrecision",
        "casts around products",
        lambda graph, options: reduce_precision(graph, options.compute_dtype or "float32", dict(options.dtypes or ())),
        (_HALF,),
        reads=lambda options: options.dtypes,
        optional=False,
    ),
    Stage(
        "FuseAttention",
        "attention by cuDNN",
        lambda graph, options: fuse_attention(graph, Known(None, options.shapes, options.dtypes)),
        (_ATTENTION, _GPU, _ONE_DEVICE, _INFERENCE, _SHAPES),
        reads=lambda options: options.dtypes,
    ),
    Stage(
        "AlterOpLayout",
        "channels last around convolutions",
        lambda graph, _: alter_op_layout(graph),
        (_CPU,),
    ),
    Stage(
        "FuseConvolution",
        "sums, activations after products",
        lambda graph, _: fuse_convolution(graph),
        (_FUSING, _INFERENCE, _CONSTANTS, _SHAPES),
    ),
    Stage(
        "TransformWeights",
        "weights transformed before",
        _transform_weights,
        (_BACKEND, _INFERENCE, _CONSTANTS, _SHAPES),
        reads=lambda options: options.dtypes,
    ),
    Stage(
        "HoistInvariants",
        "loop-invariant code moved out of loops",
        lambda graph, options: hoist_invariants(graph, options.constants or ()),
        reads=lambda options: options.constants,
    ),
    Stage(
        "EliminateCommonExpr",
        "equal nodes merged",
        lambda graph, _: eliminate_common_expressions(graph),
        (_GRADIENTS,),
    ),
    Stage(
        "MXGradient",
        "gradients appended",
        lambda graph, options: add_gradients(
            graph, arguments(graph, options.wrt or ()), options.mirror, dict(options.shapes or ()) or None
        ),
        (_GRADIENTS,),
        reads=lambda options: (options.mirror, options.shapes if options.mirror == "blocks" else None),
        optional=False,
        inside=False,
    ),
    Stage(
        "FuseReluGradient",
        "ReLU's gradients inside BatchNorm's",
        lambda graph, _: fuse_relu_gradient(graph),
        (_CPU, _GRADIENTS),
        inside=False,
    ),
    Stage(
        "PrecomputePrune",
        "constant parts cut off",
        lambda graph, options: precompute_prune(graph, options.constants or ()),
        (_CONSTANTS, _NO_GRADIENTS),
        inside=False,
    ),
    Stage(
        "ChooseAlgorithm",
        "what computes each convolution",
        _choose_algorithm,
        (_BACKEND, _SHAPES),
        reads=lambda options: options.dtypes,
        inside=False,
    ),
    Stage("PlaceDevice", "a device for every node", _place_device, (_GROUPS,), optional=False, inside=False),
)
"""The library's own stages, in the order in which they run."""


_order: tuple[Stage, ...] = STAGES


def stages() -> tuple[Stage, ...]:
    """Return every stage, those that are registered included, in the order in which they run."""
    return _order


def register(stage: Stage, *, before: str | None = None, after: str | None = None) -> Callable[[], None]:
    """Add a stage to the pipeline of every network that is made from now on.

    A network raises PassError for a stage that returns no graph with the same number of outputs, and GraphError for one
    that returns a broken graph. Exceptions of the stage get a note that names it.

    Args:
        stage: the stage.
        before: the name of the stage that follows it; give this or `after`.
        after: the name of the stage that precedes it.

    Returns:
        A function that removes the stage again.

    Raises:
        PassError: the stage's name is taken, or `before` or `after` names no stage.
    """
    global _order
    if not isinstance(stage, Stage):
        raise PassError("register takes a symjax_nnvm.pipeline.Stage", got=type(stage).__name__)
    names = [other.name for other in _order]
    if stage.name in names:
        raise PassError(
            f"There is a stage {stage.name!r} already",
            fix="Call the function that register returned for that stage: it removes the stage.",
        )
    if (before is None) == (after is None):
        raise PassError(
            "A stage has one place", expected="before= or after= with the name of a stage", got="both or none"
        )
    place = before if after is None else after
    assert place is not None
    refuse_unknown(PassError, "No place for a stage next to", [place], names, "stages")
    number = names.index(place) + (after is not None)
    _order = (*_order[:number], stage, *_order[number:])

    def remove() -> None:
        global _order
        _order = tuple(other for other in _order if other is not stage)

    return remove


def _checked_run(stage: Stage, graph: Graph, options: Options) -> Graph:
    """Return the graph that a registered stage returns for a graph or a subgraph, which is checked."""
    try:
        after = stage.run(graph, options)
    except BaseException as error:
        error.add_note(f"Raised in the registered stage {stage.name!r}.")
        raise
    expected = f"a Graph with {len(graph.outputs)} outputs"
    if not isinstance(after, Graph):
        raise PassError(f"The registered stage {stage.name!r} failed", expected=expected, got=type(after).__name__)
    if len(after.outputs) != len(graph.outputs):
        raise PassError(f"The registered stage {stage.name!r} failed", expected=expected, got=len(after.outputs))
    try:
        check_graph(after.outputs)
    except GraphError as error:
        raise GraphError(f"After the registered stage {stage.name!r}: {error}") from error
    return after


def optional_stages() -> list[str]:
    """Return names of the stages that may be left out."""
    return [stage.name for stage in stages() if stage.optional]


def arguments(graph: Graph, names: Sequence[str]) -> list[NodeEntry]:
    """Return the arguments of these names, which are to be differentiated. Raises GradientError."""
    by_name: dict[str, Node] = {}
    for node in variables(graph.nodes(), "read_only"):
        if by_name.setdefault(node.name, node) is not node:
            raise GradientError(explain("Two arguments share one name; gradients are returned by name", node=node))
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise GradientError(
            explain(
                f"Cannot differentiate with respect to {listed(unknown)}",
                expected=f"names among {listed(by_name)}",
                fix=f"{close_names(unknown, by_name) or 'symbol.list_arguments() lists the arguments.'} "
                "For zeros where nothing depends on an argument: grad_fn(..., zeros_if_unreachable=True).",
            )
        )
    return [NodeEntry(by_name[name], 0, 0) for name in names]


@dataclass(frozen=True, slots=True)
class StageRecord:
    """A record of one stage: the graph before and after, and the seconds it took. ran: whether it did
    anything at all. missing: what it needed for that, in words. without: whether it was left out."""

    stage: Stage
    ran: bool
    missing: tuple[str, ...]
    before: Graph
    after: Graph
    seconds: float
    without: bool = False

    @property
    def name(self) -> str:
        """Return the stage's name."""
        return self.stage.name

    @property
    def before_nodes(self) -> int:
        """Return nodes of the graph before, without those in bodies of loops and in branches."""
        return len(self.before.nodes())

    @property
    def after_nodes(self) -> int:
        """Return nodes of the graph after, without those in bodies of loops and in branches."""
        return len(self.after.nodes())

    @property
    def nodes_in_bodies(self) -> tuple[int, int]:
        """Return nodes in bodies of loops and in branches, before and after."""
        return count_subgraph_nodes(self.before.nodes()), count_subgraph_nodes(self.after.nodes())

    def row(self) -> tuple[str, ...]:
        """Return the stage's row in the table of a plan."""
        if not self.ran:
            return self.name, "", "", "left out" if self.without else f"needs {', '.join(self.missing)}"
        nodes, inside = f"{self.before_nodes:,} → {self.after_nodes:,}", self.nodes_in_bodies
        if any(inside):
            nodes += f"; in bodies {inside[0]:,} → {inside[1]:,}"
        return self.name, nodes, f"{self.seconds * 1e3:.1f}", self.stage.about


@dataclass(frozen=True)
class Plan:
    """The result of the stages for a network: the graph, and a record of each stage.

    num_outputs: how many of the graph's outputs are the network's; gradients follow. Prints as a table.
    """

    options: Options
    graph: Graph
    num_outputs: int
    records: tuple[StageRecord, ...] = field(repr=False)

    @property
    def head_grads(self) -> list[Node]:
        """Return the variables that stand for the gradients of the outputs; none without gradients."""
        return self.graph.attrs.get("head_grads", [])

    @property
    def precompute(self) -> Graph | None:
        """Return the graph of the values that are computed once, which the plan's graph has variables for; None if it
        has none.

        Its attribute `names` are the names of these variables, in its outputs' order.
        """
        return self.graph.attrs.get("precompute")

    columns: ClassVar[tuple[str, ...]] = ("stage", "nodes", "ms", "")

    def rows(self) -> list[tuple[str, ...]]:
        """A row for each stage: its name, nodes before and after, milliseconds, its effect or its missing needs."""
        return [record.row() for record in self.records]

    def to_json(self) -> list[dict[str, Any]]:
        """Return the records as plain data."""
        return [
            {
                "stage": r.stage.name,
                "ran": r.ran,
                "needs": list(r.missing),
                "before": r.before_nodes,
                "after": r.after_nodes,
                "in_bodies": list(r.nodes_in_bodies),
                "seconds": r.seconds,
            }
            for r in self.records
        ]

    def __str__(self) -> str:
        return table_text(self.columns, self.rows())

    def _repr_html_(self) -> str:
        return table_html(self.columns, self.rows())


_Made = tuple[Graph, tuple[StageRecord, ...]]

_KEPT = 64
"""Graphs that a pipeline keeps: ten make a plan, and plans for other shapes have five of them in common."""


class Pipeline:
    """The plans of one network: plans that differ in nothing that a stage reads share their graph.

    The graphs that were used last are kept; a stage's earlier graphs are made again when they are needed. outputs:
    the network's entries, which must not change afterwards.
    """

    def __init__(self, outputs: Sequence[NodeEntry]):
        self.graph = Graph(outputs)
        self._made: Recent[tuple[Hashable, ...], _Made] = Recent(_KEPT)

    def plan(self, options: Options) -> Plan:
        """Return the plan for these options. Raises what the stages raise: GradientError, PassError, InferenceError."""
        key: tuple[Hashable, ...] = ()
        result: _Made = self.graph, ()
        for stage in options.stages:
            left_out = stage.name in options.without
            reads = None if left_out else stage.key(options)
            missing = () if left_out or reads is not None else tuple(stage.missing(options))
            key = (*key, (stage, reads, left_out, missing))
            cached = self._made.get(key)
            if cached is None:
                graph, records = result
                start = time.perf_counter()
                after = graph if reads is None else stage(graph, options)
                seconds = time.perf_counter() - start
                record = StageRecord(stage, reads is not None, missing, graph, after, seconds, left_out)
                cached = self._made[key] = after, (*records, record)
            result = cached
        graph, records = result
        return Plan(options, graph, len(self.graph.outputs), records)
