"""`explain`: the stages of the pipeline for a network, printed for its user."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from numpy.typing import DTypeLike

from lowering.convolutions.backends import OWNED
from lowering.core.cache import Programs
from lowering.core.chosen_options import DATA_AXIS, chosen_options, on_mesh_around
from lowering.core.gradient_program import GradientProgram
from lowering.core.program import Program
from lowering.messages.arguments import require_symbol, shapes_by_name
from lowering.messages.migration_hints import with_migration_hints
from symjax_nnvm.errors import SymbolValueError, plain_list, refuse_unknown
from symjax_nnvm.inspect.footprint import Footprint, estimate
from symjax_nnvm.inspect.roles import learned_variables
from symjax_nnvm.ir.attributes import FAlgorithm, FInputGraph, FListInputNames, TMadeBy
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.passes.choose_algorithm import are_known, nodes_with_shapes
from symjax_nnvm.passes.infer import variable_dtypes
from symjax_nnvm.passes.mirror import Mirror
from symjax_nnvm.passes.subgraphs import Known
from symjax_nnvm.pipeline import Options, Plan, StageRecord
from symjax_nnvm.pipeline import without as stages_without
from symjax_nnvm.symbol.symbol import Symbol
from symjax_nnvm.tables import table_html

_CALL = "lowering.explain(net, data=(1, 3, 224, 224))"


@dataclass(frozen=True)
class Explanation:
    """What the pipeline makes of a network before XLA compiles it; it prints as a table.

    Attributes:
        plan: the graph and the changes of each stage.
        forward: the number of operators in the forward part.
        backward: the number of operators in the backward part.
        footprint: the estimated cost for the given shapes; None without shapes.
        ways: how the calls of a compiled object run, and when they will be compiled further; empty for a symbol.
    """

    plan: Plan
    forward: int
    backward: int
    footprint: Footprint | None = field(repr=False)
    ways: Sequence[str] = ()

    @property
    def stages(self) -> tuple[StageRecord, ...]:
        """Return every stage in order, those that did not run included."""
        return self.plan.records

    @property
    def algorithms(self) -> dict[str, str]:
        """Return the algorithm of each convolution and each gradient of one, by the name of its node; empty without
        shapes.

        A node without a name is listed by its operator; repeated names are numbered, "conv (2)".
        """
        names: dict[str, str] = {}
        times: Counter[str] = Counter()
        for node, algorithm in self.plan.graph.attrs.get("algorithm", {}).items():
            name = node.name or node.op.name
            times[name] += 1
            names[name if times[name] == 1 else f"{name} ({times[name]})"] = algorithm
        return names

    @property
    def undecided(self) -> list[str]:
        """Return the names of convolutions, and gradients of convolutions, whose shapes the given ones do not decide.

        Their algorithms are chosen when the network is called. The list is empty without shapes.
        """
        options = self.plan.options
        if options.shapes is None:
            return []
        facts = Known(shapes=options.shapes, dtypes=options.dtypes)
        nodes = nodes_with_shapes(self.plan.graph, facts, FAlgorithm)
        return [node.name or str(node.op and node.op.name) for node, shapes, _ in nodes if not are_known(shapes)]

    @property
    def attentions(self) -> int:
        """Return how many attentions are cuDNN's kernel; 0 without shapes, and without attention="cudnn"."""
        return sum(node.op in TMadeBy and TMadeBy[node.op] == "FuseAttention" for node in self.plan.graph.nodes())

    def _convolutions(self) -> Iterator[str]:
        """Yield a line for each operator: how many of its nodes each algorithm computes."""
        by_operator: dict[str, Counter[str]] = {}
        for node, name in self.plan.graph.attrs.get("algorithm", {}).items():
            by_operator.setdefault(node.op.name, Counter())[name] += 1
        for operator, counts in by_operator.items():
            yield f"  {operator}: {', '.join(f'{times} {name}' for name, times in counts.most_common())}"
        undecided = self.undecided
        if undecided:
            every = len(undecided) + len(self.plan.graph.attrs["algorithm"])
            what = f"{len(undecided)} of {every} convolutions and gradients"
            yield f"  {what} have unknown shapes: {plain_list(undecided)}"

    def _notes(self) -> list[str]:
        """Return the lines under the table of stages."""
        backward = f" forward and {self.backward:,} backward" if self.backward else ""
        costs = [] if self.footprint is None else str(self.footprint).splitlines()
        noun = "step" if (self.forward, self.backward) == (1, 0) else "steps"
        attention = [] if self.plan.options.attention is None else [f"  attention by cuDNN: {self.attentions}"]
        steps = f"lowered to {self.forward:,}{backward} {noun} of one JAX function"
        return [steps, *_bodies(self.plan.graph), *self._convolutions(), *attention, *costs, *self.ways]

    def __str__(self) -> str:
        return "\n".join([str(self.plan), *self._notes()])

    def _repr_html_(self) -> str:
        return table_html(self.plan.columns, self.plan.rows(), notes=self._notes())


def _network_of(network: Any) -> tuple[Any, Sequence[str]]:
    """Return the network of an object that runs one, and how its calls run; anything else as it is.

    The object has `ways()` and `symbol`, or where a class has no such names, `__explained__()`, which returns both.
    """
    if isinstance(network, Symbol | type):
        return network, ()
    if hasattr(network, "__explained__"):
        return network.__explained__()
    return (network.symbol, network.ways()) if hasattr(network, "ways") else (network, ())


def _bodies(graph: Graph, around: str = "") -> Iterator[str]:
    """Yield a line for each subgraph: where it is, and which operators run in it. They nest as deep as programs did."""
    for node in graph.nodes():
        if node.op not in FInputGraph:
            continue
        names = list(FListInputNames[node.op](node.attrs))
        for number, body in zip(FInputGraph[node.op](node.attrs), node.attrs.subgraphs, strict=True):
            inner, place = Graph(body.outputs), f"{around}{node.name} {names[number]}"
            counts = Counter(inner_node.op.name for inner_node in inner.nodes() if inner_node.op is not None)
            run = ", ".join(op if times == 1 else f"{times} {op}" for op, times in counts.items())
            yield f"  {place}: {run or 'its inputs'}"
            yield from _bodies(inner, f"{place}, ")


@with_migration_hints("explain", _CALL)
def explain(
    symbol: Symbol | Any,
    *,
    is_train: bool = False,
    wrt: Sequence[str] | None = None,
    platform: str | None = None,
    mirror: Mirror = None,
    compute_dtype: DTypeLike | None = None,
    mesh: Any = None,
    data_axis: str | Sequence[str] = DATA_AXIS,
    constants: Collection[str] | None = None,
    without: Collection[str] = (),
    attention: str | None = None,
    **shapes: Sequence[int],
) -> Explanation:
    """Return the stages of the pipeline in the order in which they run, with the changes that each made to a network.

    By default this is the pipeline of `compile`; with `is_train` it is a Trainer's. `grad_fn` runs the same one, but
    computes some convolutions by another algorithm where they cannot be a library's calls: when JAX's compilation cache
    is on, or with SYMJAX_NNVM_ONEDNN=xla.

    Raises what these functions raise.

    Args:
        symbol: the network; or what `compile`, `grad_fn`, `Predictor`, `Trainer` or `bind` made of one, a bound module,
            or a hybridised block that was called. The explanation then also shows how its calls run: evaluated or
            compiled quickly, and until when; in lanes, or why not.
        is_train: explain the training step, with gradients.
        wrt: the arguments to differentiate with respect to; None for all parameters.
        platform: as in `to_jax`.
        mirror: as in `grad_fn`.
        compute_dtype: as in `to_jax`.
        mesh: as in `to_jax`.
        data_axis: as in `to_jax`.
        constants: names of arguments and states that do not change between calls.
        without: names of stages to leave out, as in `symjax_nnvm.pipeline.without`.
        attention: as in `Predictor`.
        shapes: shapes of inputs, `data=(1, 3, 224, 224)`. With them memory and arithmetic are estimated; if shapes of
            some inputs are missing, `undecided` lists what they leave open.

    Raises:
        SymbolValueError: `constants` has a name that the network does not have, or there is no such attention.
    """
    symbol, ways = _network_of(symbol)
    require_symbol(symbol, "explain")
    if constants is not None:
        constants = [constants] if isinstance(constants, str) else list(constants)
        refuse_unknown(SymbolValueError, "No such constants:", constants, symbol.list_inputs(), "arguments and states")
    sizes = shapes_by_name(shapes, "shapes", _CALL)
    if wrt is None and is_train:
        learned = {node.name for node in learned_variables(symbol)}
        wrt = [name for name in symbol.list_arguments() if name in learned]
    with stages_without(*([without] if isinstance(without, str) else without)):
        options = Options(
            is_train=is_train,
            wrt=None if wrt is None else tuple(wrt),
            platform=platform,
            mirror=mirror,
            shapes=tuple(sizes.items()) or None,
            constants=None if constants is None else frozenset(constants),
            backend=OWNED if constants is not None or wrt is not None else None,
        )
    options = on_mesh_around(chosen_options(options, compute_dtype, mesh, data_axis, attention))
    programs = Programs(symbol)
    if sizes:
        dtypes = variable_dtypes(programs.pipeline.graph)
        options = replace(options, dtypes=tuple((node.name, dtype) for node, dtype in dtypes.items()))
    program: Program | GradientProgram = programs.forward(options) if wrt is None else programs.gradient(options)
    forward, backward = (
        (len(program.steps), 0)
        if isinstance(program, Program)
        else (len(program.forward_steps), len(program.backward_steps))
    )
    return Explanation(programs.plan(options), forward, backward, estimate(symbol, sizes) if sizes else None, ways)
