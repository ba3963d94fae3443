"""This package has the inference passes: InferShape, InferType, MXInferShape, MXInferType, and the same as plain
functions.

They gather the given values and those that variables declare, and hand them to the engine. The graph attributes they
read and write are those of NNVM's and MXNet's passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from symjax_nnvm.errors import InferenceError, unknown_keyword
from symjax_nnvm.io.symbol_json.attrs import brief
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.indexed_graph import IndexedGraph
from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.ir.pass_registry import register_pass
from symjax_nnvm.ir.types import DType, DTypeList, Shape, ShapeList
from symjax_nnvm.passes.infer.inference_engine import InferenceEngine
from symjax_nnvm.passes.infer.quantity import DTYPE, NARROWED_DTYPE, NUMPY_SHAPE, SHAPE, Quantity

G = TypeVar("G", bound=Graph)


def infer_shape(
    graph: G,
    *,
    shapes: Mapping[str, Shape | None] | Sequence[Shape | None] | None = None,
    attr_key: str | None = "__shape__",
) -> G:
    """Return the graph with attribute `shape`: one shape per entry, as far as it can be inferred (MXNet's variant).

    shapes: what is known of the variables, by name or in the order of `IndexedGraph.input_nodes`; None is unknown.
    attr_key: the variable attribute that declares a shape; None ignores declarations. `shape_num_unknown_nodes` of the
    result counts unknown dimensions. Raises InferenceError for contradictions.
    """
    return _with_inputs(graph, SHAPE, shapes, attr_key)


def infer_type(
    graph: G,
    *,
    dtypes: Mapping[str, DType | None] | Sequence[DType | None] | None = None,
    attr_key: str | None = "__dtype__",
    narrowed: bool = False,
) -> G:
    """Return the graph with attribute `dtype`: one dtype name per entry, as far as it can be inferred (MXNet's
    variant).

    dtypes: what is known of the variables, by name or in the order of `IndexedGraph.input_nodes`; None is unknown.
    attr_key: the variable attribute that declares a dtype; None ignores declarations. narrowed: 64 bits run as 32, so
    that dtypes which differ only in that do not contradict each other. Raises InferenceError.
    """
    return _with_inputs(graph, NARROWED_DTYPE if narrowed else DTYPE, dtypes, attr_key)


def variable_dtypes(graph: Graph, dtypes: Mapping[str, DType] | None = None) -> dict[Node, DType]:
    """Return dtypes of a graph's variables: those given by name, those that follow; else float32, as where graphs are
    bound.

    Raises InferenceError for contradictions.
    """
    index = graph.indexed_graph()
    names = set(index.input_names)
    known_dtypes = {name: dtype for name, dtype in (dtypes or {}).items() if name in names}
    inferred = infer_type(graph, dtypes=known_dtypes).attrs["dtype"]
    return {index.nodes[nid].source: inferred[index.entry_rptr[nid]] or "float32" for nid in index.input_nodes}


def _nnvm_pass(graph: Graph, quantity: Quantity) -> Graph:
    """NNVM's variant: reads the variables' own attributes, and skips operators whose entries are all known."""
    attrs = dict(graph.attrs)
    inputs = attrs.pop(f"{quantity.name}_inputs", ())
    key = attrs.pop(f"{quantity.name}_attr_key", quantity.name)
    values = _infer(graph, quantity, inputs, key, ask_always=False)
    attrs[quantity.name] = values
    attrs[f"{quantity.name}_num_unknown_nodes"] = sum(not quantity.all_known((value,)) for value in values)
    return graph.derive(attrs=attrs)


def _mxnet_pass(graph: Graph, quantity: Quantity) -> Graph:
    """MXNet's variant: every operator's rule runs, so that contradictions are always found."""
    # MXNet keeps the inputs in the result, and reads a variable attribute only if the graph names one.
    attrs = dict(graph.attrs)
    inputs = attrs.get(f"{quantity.name}_inputs", ())
    key = attrs.pop(f"{quantity.name}_attr_key", None)
    if quantity is SHAPE and attrs.pop("numpy_shapes", False):
        quantity = NUMPY_SHAPE
    values = _infer(graph, quantity, inputs, key, ask_always=True)
    attrs[quantity.name] = values
    attrs[f"{quantity.name}_num_unknown_nodes"] = sum(map(quantity.unknown_parts, values))
    return graph.derive(attrs=attrs)


def _register(name: str, variant: Callable[[Graph, Quantity], Graph], quantity: Quantity) -> None:
    def run(graph: Graph) -> Graph:
        return variant(graph, quantity)

    run.__doc__ = f"{quantity.name.capitalize()}s of all entries; {variant.__doc__}"
    provided = (quantity.name, f"{quantity.name}_num_unknown_nodes")
    register_pass(name, provides=provided, op_attrs=(f"F{quantity.pass_name}", "FGradient", "TIsBackward"))(run)


for _quantity in (SHAPE, DTYPE):
    _register(_quantity.pass_name, _nnvm_pass, _quantity)
    _register(f"MX{_quantity.pass_name}", _mxnet_pass, _quantity)


def _with_inputs(graph: G, quantity: Quantity, values: Any, attr_key: str | None) -> G:
    index = graph.indexed_graph()
    if isinstance(values, Mapping):
        names = index.input_names
        for name in values:
            if name not in names:
                raise InferenceError(unknown_keyword(quantity.pass_name, name, names))
        values = [values.get(name) for name in names]
    attrs = {**graph.attrs, f"{quantity.name}_inputs": quantity.result(values or ())}
    if attr_key is not None:
        attrs[f"{quantity.name}_attr_key"] = attr_key
    inferred = _mxnet_pass(graph.derive(attrs=attrs), quantity)
    del inferred.attrs[f"{quantity.name}_inputs"]
    return inferred  # type: ignore[return-value]  # derived from the graph that was given


def _infer(
    graph: Graph, quantity: Quantity, inputs: Sequence[Any], key: str | None, *, ask_always: bool
) -> ShapeList | DTypeList:
    index = graph.indexed_graph()
    inputs = _read_attribute(f"{quantity.name}_inputs", inputs, quantity)
    values = _known_before(graph, index, quantity)
    if len(inputs) > len(index.input_nodes):
        raise InferenceError(
            "More provided shapes than number of arguments",
            expected=f"at most {len(index.input_nodes)} {quantity.name}s, one per variable",
            got=len(inputs),
        )
    for nid, value in zip(index.input_nodes, inputs, strict=False):
        if value is not None:
            values[index.entry_rptr[nid]] = value
    if key:
        if not isinstance(key, str):
            raise _wrong_attribute(f"{quantity.name}_attr_key", "the name of a variable attribute", key)
        _read_declarations(index, quantity, key, values)
    hints = graph.attrs.get(f"{quantity.name}_hints", {})
    if not isinstance(hints, Mapping) or not all(isinstance(entry, NodeEntry) for entry in hints):
        raise _wrong_attribute(f"{quantity.name}_hints", f"a dict of {quantity.name}s by entry", hints)
    decides = graph.attrs.get(f"{quantity.name}_defaults", True) is not False
    engine = InferenceEngine(index, quantity, values, ask_always, decides)
    engine.apply_hints(hints)
    engine.run()
    return quantity.result(values)


def _known_before(graph: Graph, index: IndexedGraph, quantity: Quantity) -> list[Any]:
    """Return the result of an earlier inference over the same graph, or nothing known."""
    before = graph.attrs.get(quantity.name)
    if before is None:
        return [None] * index.num_node_entries
    before = _read_attribute(quantity.name, before, quantity)
    if len(before) != index.num_node_entries:
        raise InferenceError(
            f"Graph attribute {quantity.name} does not fit the graph",
            expected=f"{index.num_node_entries} values, one per entry",
            got=len(before),
            fix="Remove the attribute, or infer again on the graph it was inferred for.",
        )
    return list(before)


def _read_attribute(name: str, value: Any, quantity: Quantity) -> Sequence[Any]:
    """Return a graph attribute with a shape or dtype each for variables or entries, which may come from a file."""
    if isinstance(value, quantity.result):
        return value
    try:
        if isinstance(value, (str, Mapping)):
            raise TypeError
        return [quantity.from_border(item) for item in value]
    except (TypeError, ValueError, SyntaxError):  # SyntaxError: NumPy's, of a dtype's name
        raise _wrong_attribute(name, f"a list of {quantity.name}s", value) from None


def _wrong_attribute(name: str, expected: str, got: object) -> InferenceError:
    return InferenceError(f"Graph attribute {name}", expected=expected, got=brief(got))


def _read_declarations(index: IndexedGraph, quantity: Quantity, key: str, values: list[Any]) -> None:
    """Complete what is not fully given from the variables' own attributes, `key` or `__key__`."""
    hidden = f"__{key}__"
    for nid in index.input_nodes:
        attrs = index.nodes[nid].source.attrs
        if not attrs.dict:
            continue
        eid = index.entry_rptr[nid]
        text = attrs.dict.get(key, attrs.dict.get(hidden))
        if text is None or quantity.all_known((values[eid],)):
            continue
        try:
            declared = quantity.from_text(text)
        except ValueError as error:
            raise InferenceError(
                f"Invalid attribute {key}={brief(text)}: {error}", node=attrs.name, expected=quantity.text_form
            ) from None
        try:
            values[eid] = quantity.merge(values[eid], declared)
        except ValueError:
            raise InferenceError(
                f"Error in variable {attrs.name}: {quantity.conflict(values[eid], declared)}",
                node=attrs.name,
                expected=f"{quantity.show(declared)}, which its attribute {key} declares",
                got=f"{quantity.show(values[eid])}, which was given",
            ) from None
