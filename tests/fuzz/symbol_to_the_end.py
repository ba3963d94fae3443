"""What may happen to a symbol or an array file between loading and the last number, one step after the other.

Each step holds to the contract of `targets`: an `NNVMError` ends the way of an input, anything else is a finding. The
functions return how far the input came, so that a runner can tell whether its inputs reach the steps that count.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping
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
from tests.fuzz.targets import check_message

__all__ = ["SYMBOL_STAGES", "symbol_to_the_end"]

SYMBOL_STAGES = ("refused", "loaded", "inferred", "differentiated", "traced", "executed")
"""How far a symbol file came."""

MAX_TRACED_ENTRIES = 400
"""Tracing takes up to a millisecond for each output of a node; longer graphs are loaded, inferred, differentiated and
saved."""

MAX_TRACED_BYTES = 1 << 28
"""More is not traced: rules make tables of an axis's length, and `compile(max_memory=)` refuses what is too much."""

MAX_COMPILED_ENTRIES = 60
"""XLA's compiler takes about 20 ms for each, and seconds where hundreds of them draw random numbers."""

MAX_COMPILED_HEADS = 100
"""XLA's compiler takes 3 ms for each output of a function and its head gradient, whatever is in between."""

MAX_EXECUTED_BYTES = 1 << 24
MAX_EXECUTED_FLOPS = 1 << 28


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


def symbol_to_the_end(data: bytes, *, execute: bool = False) -> str:
    """Load, check, infer, differentiate, save and load, trace, compile and run; the name of the last stage reached."""
    reached = "refused"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for reached in _stages(data, execute):  # noqa: B007  the last one counts
                pass
        except NNVMError as error:
            check_message(error)
    return reached


def _stages(data: bytes, execute: bool):
    symbol = sym.load_json(data.decode("utf-8", "surrogatepass"))
    yield "loaded"
    _round_trip(symbol)
    nn.check(symbol)
    if len(data) % 4 == 1:  # the same questions in MXNet's own words
        for question in (symbol.infer_shape_partial, symbol.infer_type_partial, symbol.debug_str, symbol.list_outputs):
            _ask(question)
    graph = Graph(symbol.outputs)
    shapes, dtypes = infer_shape(graph), infer_type(graph)
    yield "inferred"
    known = _variables(shapes, dtypes)
    training, entries = len(data) % 4 > 0, shapes.indexed_graph().num_node_entries
    wrt = _differentiable(symbol, known)
    gradient = _gradient(symbol, wrt)
    if gradient is not None:
        yield "differentiated"
    if known is None or entries > MAX_TRACED_ENTRIES:
        return
    cost = estimate(symbol, training=True)
    if gradient is not None:
        _ask(gradient.infer_shape_partial)
    if cost.peak_bytes > MAX_TRACED_BYTES:
        return
    names = symbol.list_auxiliary_states()
    args = {name: value for name, value in known.items() if name not in names}
    aux = {name: known[name] for name in names}
    run = _function(symbol, wrt, training)
    heads = _heads(shapes, dtypes)
    if heads is None:
        outputs, _ = jax.eval_shape(lowering.to_jax(symbol, is_train=training), args, aux, jax.random.key(0))
        heads = [jax.ShapeDtypeStruct(output.shape, output.dtype) for output in outputs]
    jax.eval_shape(run, args, aux, jax.random.key(0), heads)
    yield "traced"
    small = entries <= MAX_COMPILED_ENTRIES and len(symbol.outputs) <= MAX_COMPILED_HEADS
    if execute and small and cost.peak_bytes <= MAX_EXECUTED_BYTES and cost.flops <= MAX_EXECUTED_FLOPS:
        rng = np.random.default_rng(len(data))
        compiled = jax.jit(run).lower(args, aux, jax.random.key(0), heads).compile()
        results = compiled(
            {name: _values(rng, value) for name, value in args.items()},
            {name: _values(rng, value) for name, value in aux.items()},
            jax.random.key(0),
            [_values(rng, head) for head in heads],
        )
        jax.block_until_ready(results)
        yield "executed"


def _round_trip(symbol: Symbol) -> None:
    text = symbol.tojson()
    assert sym.load_json(text).tojson() == text, "saving and loading changed the graph"


def _ask(question: Callable[[], object]) -> None:
    try:
        question()
    except NNVMError as error:
        check_message(error)


def _variables(shapes: Graph, dtypes: Graph) -> dict[str, jax.ShapeDtypeStruct] | None:
    """The variables' shapes and dtypes by name; None when some are not known, or two of one name differ."""
    index = shapes.indexed_graph()
    known: dict[str, jax.ShapeDtypeStruct] = {}
    for nid in index.input_nodes:
        eid, name = index.entry_rptr[nid], index.nodes[nid].source.name
        shape = shapes.attrs["shape"][eid]
        if not is_known(shape):
            return None
        dtype = dtypes.attrs["dtype"][eid] or "float32"
        value = jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(dtype))
        if known.setdefault(name, value) != value:
            return None
    return known


def _differentiable(symbol: Symbol, known: Mapping[str, Any] | None) -> list[str]:
    """Up to four arguments, each name once, that may have a gradient."""
    counts = Counter(symbol.list_arguments())
    names = [name for name, count in counts.items() if count == 1 and name]
    if known is not None:
        names = [name for name in names if jax.numpy.issubdtype(known[name].dtype, jax.numpy.floating)]
    return names[:4]


def _heads(shapes: Graph, dtypes: Graph) -> list[jax.ShapeDtypeStruct] | None:
    """Head gradients like the inferred outputs; None when one is not known."""
    index = shapes.indexed_graph()
    heads = [
        _struct(shapes.attrs["shape"][eid], dtypes.attrs["dtype"][eid])
        for eid in (index.entry_rptr[nid] + i for nid, i, _ in index.outputs)
    ]
    return None if None in heads else heads  # type: ignore[return-value]


def _struct(shape: Any, dtype: str | None) -> jax.ShapeDtypeStruct | None:
    known = is_known(shape) and dtype is not None
    return jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(dtype)) if known else None


def _gradient(symbol: Symbol, wrt: list[str]) -> Symbol | None:
    """The gradient's graph, saved and loaded; None where there is none."""
    if not wrt:
        return None
    try:
        gradient = symbol.gradient(wrt)
    except NNVMError as error:
        check_message(error)
        return None
    _ask(lambda: _round_trip(gradient))
    return gradient


def _function(symbol: Symbol, wrt: list[str], training: bool) -> Callable[..., Any]:
    """(args, aux, key, head gradients) → everything; the forward pass alone where nothing can be differentiated."""
    if wrt:
        try:
            return lowering.grad_fn(symbol, wrt, is_train=training)
        except NNVMError as error:
            check_message(error)
    forward = lowering.to_jax(symbol, is_train=training)
    return lambda args, aux, key, heads: forward(args, aux, key)


def _values(rng: np.random.Generator, like: jax.ShapeDtypeStruct) -> np.ndarray:
    """Numbers of any kind: ordinary ones, and some that no index, variance or probability is."""
    special = np.array([0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 1e30, -1e30, 2.0**31, -(2.0**40), 0.5])
    values = rng.normal(0, 3, like.shape)
    if rng.random() < 0.6:
        values = np.where(rng.random(like.shape) < 0.2, rng.choice(special, like.shape), values)
    if not np.issubdtype(np.dtype(like.dtype), np.inexact) and like.dtype.name != "bfloat16":
        values = np.nan_to_num(values, nan=0, posinf=1e9, neginf=-1e9).clip(-(2.0**31), 2.0**31 - 1)
    with np.errstate(all="ignore"):
        return np.asarray(values).astype(like.dtype)
