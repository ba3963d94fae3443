"""A symbol file between loading and the last number: `symbol_to_the_end`, one stage after the other.

An `NNVMError` ends the way of an input, anything else is a finding.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

import lowering
import symjax_nnvm as nn
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import NNVMError
from symjax_nnvm.inspect.footprint import estimate
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.register import same_shape
from symjax_nnvm.ir.types import is_known
from symjax_nnvm.passes.infer import infer_shape, infer_type
from symjax_nnvm.symbol import Symbol
from tests.fuzz.contract import ask, check_message

__all__ = ["symbol_to_the_end"]

MAX_TRACED_ENTRIES = 400
"""Tracing takes up to a millisecond for each output of a node; longer graphs are loaded, inferred, differentiated and
saved."""

MAX_TRACED_BYTES = 1 << 28
"""More is not traced: rules make tables of an axis's length, and `compile(max_memory=)` refuses what is too much."""

MAX_COMPILED_ENTRIES = 60
"""XLA's compiler takes about 20 ms for each, and seconds where hundreds of them draw random numbers."""

MAX_COMPILED_HEADS = 100
"""XLA's compiler takes 3 ms for each output of a function and its head gradient, whatever is in between."""

MAX_EXECUTED_BYTES, MAX_EXECUTED_FLOPS = 1 << 24, 1 << 28


@dataclass(frozen=True)
class _Scale:
    factor: float = nn.param(1.0)


if "Custom:fuzz_scale" not in nn.list_ops():
    nn.register_custom(
        "fuzz_scale",
        params=_Scale,
        inputs=("data",),
        infer_shape=same_shape,
        gradient=lambda node, ograds: [nn.apply("_mul_scalar", ograds[0], scalar=node.attrs.parsed.factor)],
    )
    lowering.lowers_custom("fuzz_scale")(lambda p, x: x * p.factor)


def symbol_to_the_end(data: bytes, run: bool) -> str:
    """Load, check, infer, differentiate, save and load, trace, if asked compile and run: the last stage reached."""
    reached = "refused"
    try:
        for reached in _stages(data, run):  # noqa: B007  the last one counts
            pass
    except NNVMError as error:
        check_message(error)
    return reached


def _stages(data: bytes, run: bool) -> Iterator[str]:
    symbol = sym.load_json(data.decode("utf-8", "replace"))
    yield "loaded"
    _round_trip(symbol)
    nn.check(symbol)
    if len(data) % 4 == 1:  # the same questions in MXNet's own words
        for question in (symbol.infer_shape_partial, symbol.infer_type_partial, symbol.debug_str, symbol.list_outputs):
            ask(question)
    graph = Graph(symbol.outputs)
    shapes, dtypes = infer_shape(graph), infer_type(graph)
    yield "inferred"
    known = _variables(shapes, dtypes)
    training, entries = len(data) % 4 > 0, shapes.indexed_graph().num_node_entries
    wrt = _differentiable(symbol, known)
    gradients: list[Symbol] = []
    if wrt and ask(lambda: gradients.append(symbol.gradient(wrt))):
        ask(_round_trip, gradients[0])
        yield "differentiated"
    if known is None or entries > MAX_TRACED_ENTRIES:
        return
    cost = estimate(symbol, training=True)
    for gradient in gradients:
        ask(gradient.infer_shape_partial)
    if cost.peak_bytes > MAX_TRACED_BYTES:
        return
    aux = {name: known[name] for name in symbol.list_auxiliary_states()}
    args, key = {name: value for name, value in known.items() if name not in aux}, jax.random.key(0)
    forward = lowering.to_jax(symbol, is_train=training)
    functions: list[Callable[..., Any]] = [lambda args, aux, key, heads: forward(args, aux, key)]
    if wrt:
        ask(lambda: functions.append(lowering.grad_fn(symbol, wrt, is_train=training)))
    heads: Any = _heads(shapes, dtypes)
    if None in heads:
        heads = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in jax.eval_shape(forward, args, aux, key)[0]]
    jax.eval_shape(functions[-1], args, aux, key, heads)
    yield "traced"
    small = entries <= MAX_COMPILED_ENTRIES and len(symbol.outputs) <= MAX_COMPILED_HEADS
    if run and small and cost.peak_bytes <= MAX_EXECUTED_BYTES and cost.flops <= MAX_EXECUTED_FLOPS:
        rng = np.random.default_rng(len(data))
        arrays = jax.tree.map(lambda like: _values(rng, like), (args, aux, heads))
        compiled = jax.jit(functions[-1]).lower(args, aux, key, heads).compile()
        jax.block_until_ready(compiled(*arrays[:2], key, arrays[2]))
        yield "executed"


def _round_trip(symbol: Symbol) -> None:
    text = symbol.tojson()
    assert sym.load_json(text).tojson() == text, "saving and loading changed the graph"


def _struct(shape: Any, dtype: str | None) -> jax.ShapeDtypeStruct | None:
    known = is_known(shape) and dtype is not None
    return jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(dtype)) if known else None


def _variables(shapes: Graph, dtypes: Graph) -> dict[str, jax.ShapeDtypeStruct] | None:
    """The variables' shapes and dtypes by name; None when some are not known, or two of one name differ."""
    index = shapes.indexed_graph()
    known: dict[str, jax.ShapeDtypeStruct] = {}
    for nid in index.input_nodes:
        eid, name = index.entry_rptr[nid], index.nodes[nid].source.name
        value = _struct(shapes.attrs["shape"][eid], dtypes.attrs["dtype"][eid] or "float32")
        if value is None or known.setdefault(name, value) != value:
            return None
    return known


def _differentiable(symbol: Symbol, known: Mapping[str, Any] | None) -> list[str]:
    """Up to four arguments, each name once, that may have a gradient."""
    names = [name for name, count in Counter(symbol.list_arguments()).items() if count == 1 and name]
    if known is not None:
        names = [name for name in names if jax.numpy.issubdtype(known[name].dtype, jax.numpy.floating)]
    return names[:4]


def _heads(shapes: Graph, dtypes: Graph) -> list[jax.ShapeDtypeStruct | None]:
    """Head gradients like the inferred outputs; None for one that is not known."""
    index = shapes.indexed_graph()
    entries = [index.entry_rptr[nid] + i for nid, i, _ in index.outputs]
    return [_struct(shapes.attrs["shape"][eid], dtypes.attrs["dtype"][eid]) for eid in entries]


def _values(rng: np.random.Generator, like: jax.ShapeDtypeStruct) -> np.ndarray:
    """Numbers of any kind: ordinary ones, and some that no index, variance or probability is."""
    special = np.array([0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 1e30, -1e30, 2.0**31, -(2.0**40), 0.5])
    values = rng.normal(0, 3, like.shape)
    if rng.random() < 0.6:
        values = np.where(rng.random(like.shape) < 0.2, rng.choice(special, like.shape), values)
    if not jax.numpy.issubdtype(like.dtype, jax.numpy.inexact):
        values = np.nan_to_num(values, nan=0, posinf=1e9, neginf=-1e9).clip(-(2.0**31), 2.0**31 - 1)
    with np.errstate(all="ignore"):
        return np.asarray(values).astype(like.dtype)
