"""Propose remedies for shapes and dtypes that contradict a graph: each is tried before it is proposed.

An inference error names the node where two shapes do not fit. The user's mistake is often further away: images
with their channels last, one sample without a batch axis, a batch size that is written in the graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from symjax_nnvm.errors import GraphError, InferenceError, NNVMError, SymbolValueError
from symjax_nnvm.inspect.roles import data_inputs, learned_variables
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.rules.size_symbols import is_open
from symjax_nnvm.ir.types import Shape, format_shape
from symjax_nnvm.passes.infer import infer_shape, infer_type
from symjax_nnvm.surgery.batch_size import hard_coded_batch, set_batch_size
from symjax_nnvm.symbol.symbol import Symbol

Shapes = Mapping[str, Shape | None]

_TRIED = 4
"""Inputs that are tried in other shapes: each trial infers the whole graph."""

_CHANNELS = (1, 3, 4)
"""How many channels images have."""


def shape_remedy(symbol: Symbol, shapes: Shapes) -> str:
    """Return a change by which the shapes fit the graph, in words; empty when they fit already, or no proposal helps.

    shapes: the shapes of variables by name, parameters included as far as they are known.
    """
    if _fits(symbol, shapes):
        return ""
    inputs = data_inputs(symbol)
    fed = {name: tuple(shape or ()) for name, shape in shapes.items() if name in inputs}
    fed = dict(list(fed.items())[:_TRIED])
    proposals = (
        *_axes(symbol, shapes, fed),
        *_batch_sizes(symbol, shapes, fed),
        *_fitting_shapes(symbol, shapes, fed),
    )
    return next(iter(proposals), "")


def dtype_remedy(symbol: Symbol, dtypes: Mapping[str, str]) -> str:
    """Return the inputs to cast so that the dtypes fit the graph, in words; empty when that does not help."""
    whole = [name for name in data_inputs(symbol) if dtypes.get(name, "float").startswith(("int", "uint", "bool"))]
    others = {dtype for name, dtype in dtypes.items() if name not in whole and dtype.startswith(("float", "bfloat"))}
    target = others.pop() if len(others) == 1 else "float32"
    if not whole or not _types_fit(symbol, {**dtypes, **dict.fromkeys(whole, target)}):
        return ""
    casts = ", ".join(f'{name}.astype("{target}")' for name in whole)
    images = " Images are often divided by 255, too: scale them as the network was trained." if _bytes(dtypes) else ""
    expected = "The network computes in" if learned_variables(symbol) else "All inputs have the dtype"
    return f"{expected} {target}: pass {casts}.{images}"


def _bytes(dtypes: Mapping[str, str]) -> bool:
    return "uint8" in dtypes.values()


def _axes(symbol: Symbol, shapes: Shapes, fed: Mapping[str, Any]) -> Iterator[str]:
    """Yield images of the other layout, and a sample without its batch axis."""
    for name, shape in fed.items():
        if len(shape) == 4 and shape[3] in _CHANNELS and _fit(symbol, shapes, name, tuple(shape[i] for i in _TO_FIRST)):
            yield _transposed(name, shape, "last", "first", _TO_FIRST)
        if len(shape) == 4 and shape[1] in _CHANNELS and _fit(symbol, shapes, name, tuple(shape[i] for i in _TO_LAST)):
            yield _transposed(name, shape, "first", "last", _TO_LAST)
        has_batch = bool(learned_variables(symbol))  # else it may be a call of one operator, on any array
        if has_batch and shape and not any(map(is_open, shape)) and _fit(symbol, shapes, name, (1, *shape)):
            yield (
                f"{name!r} has no batch axis. For one sample pass {name}[None], of shape {format_shape((1, *shape))}."
            )


_TO_FIRST, _TO_LAST = (0, 3, 1, 2), (0, 2, 3, 1)


def _transposed(name: str, shape: Shape, has: str, wants: str, axes: tuple[int, ...]) -> str:
    return (
        f"{name!r} of shape {format_shape(shape)} looks like images with channels {has}; the network takes channels "
        f"{wants}: pass {name}.transpose({axes})."
    )


def _batch_sizes(symbol: Symbol, shapes: Shapes, fed: Mapping[str, Any]) -> Iterator[str]:
    """Yield a batch size that is written in the graph and is not that of the data."""
    places = hard_coded_batch(symbol) if fed else []
    sizes = {place.size for place in places}
    for size in dict.fromkeys(shape[0] for shape in fed.values() if shape and shape[0]):
        if sizes and size not in sizes and _fits(_resized(symbol, size), shapes):
            written = ", ".join(map(str, places[:3]))
            yield (
                f"The graph has the batch size {', '.join(map(str, sorted(sizes)))} written into it ({written}): "
                f"symjax_nnvm.set_batch_size(symbol, {size}) gives one for batches of {size}."
            )


def _resized(symbol: Symbol, size: int) -> Symbol | None:
    try:
        return set_batch_size(symbol, size)
    except (GraphError, SymbolValueError):  # places that disagree, or other shapes that depend on the batch
        return None


def _fitting_shapes(symbol: Symbol, shapes: Shapes, fed: Mapping[str, Any]) -> Iterator[str]:
    """Yield the shapes that the parameters leave to an input."""
    for name in fed:
        open_shapes = {**shapes, name: (None,) * len(fed[name])}
        try:
            graph = infer_shape(Graph(symbol.outputs), shapes=open_shapes)
        except NNVMError:
            continue
        index = graph.indexed_graph()
        sizes = {index.nodes[nid].source.name: graph.attrs["shape"][index.entry_rptr[nid]] for nid in index.input_nodes}
        if sizes[name] and any(dim is not None for dim in sizes[name]) and sizes[name] != fed[name]:
            others = "these parameters" if learned_variables(symbol) else "the other inputs as they are"
            yield f"With {others} {name!r} must have shape {format_shape(sizes[name])} (? is any size)."


def _fit(symbol: Symbol, shapes: Shapes, name: str, shape: Shape) -> bool:
    return _fits(symbol, {**shapes, name: shape})


def _fits(symbol: Symbol | None, shapes: Shapes) -> bool:
    if symbol is None:
        return False
    try:
        infer_shape(Graph(symbol.outputs), shapes=dict(shapes))
    except InferenceError:
        return False
    return True


def _types_fit(symbol: Symbol, dtypes: Mapping[str, Any]) -> bool:
    try:
        infer_type(Graph(symbol.outputs), dtypes=dict(dtypes))
    except InferenceError:
        return False
    return True
