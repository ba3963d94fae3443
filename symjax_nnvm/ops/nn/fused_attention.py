"""`_fused_attention`: products, softmax and products as one operator, and the nodes that it takes the place of."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from math import inf, isfinite, prod
from typing import Any, NamedTuple

from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Shapes, Types, float_type, register_op
from symjax_nnvm.ir.rules.costs import Flops, Sizes
from symjax_nnvm.ir.rules.named_dims import read_dims, shapes_of
from symjax_nnvm.ir.types import DType
from symjax_nnvm.ops.nn import attention

_DIMS = {"query": "b t n d", "key": "b s n d", "value": "b s n d"}
_MORE = {"addend": "b n t s", "mask": "b n t s", "length": "b n t"}


class FusedAttentionParams(Params):
    scale: float = param(1.0, doc="factor of the products of queries and keys")
    with_addend: bool = param(False, doc="an array is added to the scaled products; its axes may be of size 1")
    with_mask: bool = param(False, doc="where an array is 0 weights are 0; in rows of only zeros all are equal")
    with_length: bool = param(False, doc="weights after the first `length` of each row are 0")


def input_names(p: FusedAttentionParams) -> list[str]:
    """Return the names of the inputs in use, in order."""
    return [*_DIMS, *(name for name in _MORE if getattr(p, f"with_{name}"))]


def _shapes(p: FusedAttentionParams, ins: Shapes, outs: Shapes):
    """query (b, t, n, d), key and value (b, s, n, d), addend and mask (b, n, t, s), length (b, n, t) → (b, t, n, d)."""
    names = input_names(p)
    patterns = [{**_DIMS, **_MORE}[name] for name in names] + [_DIMS["query"]]
    given = [shape if name != "addend" else None for name, shape in zip([*names, ""], [*ins, *outs], strict=True)]
    *inputs, out = shapes_of(patterns, read_dims(patterns, given))
    if p.with_addend and (addend := ins[3]) is not None and len(addend) == 4:
        inputs[3] = tuple(1 if size == 1 else full for size, full in zip(addend, inputs[3], strict=True))
    elif p.with_addend:
        inputs[3] = (None,) * 4
    return inputs, [out]


def _types(p: FusedAttentionParams, ins: Types, outs: Types):
    inputs, out = float_type(p, ins[:3], outs)
    return [*inputs, *ins[3:]], out


def _flops(p: FusedAttentionParams, ins: Sizes, outs: Sizes) -> Flops:
    """Two products of length d, and a softmax, for each query and key of a head."""
    scores = prod(ins[0][:3]) * ins[1][1]
    return Flops(2 * scores * ins[0][3], scores * (len(ins) + 3))


register_op(
    "_fused_attention",
    params=FusedAttentionParams,
    inputs=(*_DIMS, *_MORE),
    inputs_used=input_names,
    infer_shape=_shapes,
    infer_type=_types,
    flops=_flops,
    recompute="if forced",
    drawing="dense",
    TMadeBy="FuseAttention",
    doc="softmax(scale · query · keyᵀ + addend) · value of heads n: query (b, t, n, d), key and value (b, s, n, d) → "
    "(b, t, n, d). On CUDA it is cuDNN's kernel. Rows of length 0 are zeros.",
)

# -- what it takes the place of --------------------------------------------------------------------------------------

_HALF = ("float16", "bfloat16")
_CASTS = ("amp_cast", "Cast")
_SCALES: dict[str, Callable[[float], float]] = {"_mul_scalar": float, "_div_scalar": lambda s: 1 / s if s else inf}
_SCORES: dict[str, Callable[[Any], attention.ScoresParams]] = {
    "_contrib_interleaved_matmul_selfatt_qk": attention.self_scores,
    "_contrib_interleaved_matmul_encdec_qk": attention.encoder_scores,
}
_MIXTURES: dict[str, Callable[[Any], attention.MixtureParams]] = {
    "_contrib_interleaved_matmul_selfatt_valatt": attention.self_mixture,
    "_contrib_interleaved_matmul_encdec_valatt": attention.encoder_mixture,
}
_HIDDEN = -1e4
"""A score whose weight is 0 beside any that is not hidden."""


class Facts(NamedTuple):
    """What is known of a graph. shape: the shape of an entry; () where a size is unknown or 0. dtype: the dtype of an
    entry. reads: how many nodes and heads read a node, or wait for it."""

    shape: Callable[[NodeEntry], tuple[int, ...]]
    dtype: Callable[[NodeEntry], DType | None]
    reads: Callable[[Node], int]

    def back(
        self, entry: NodeEntry, through: Collection[str], to: Collection[str], spared: Node | None = None
    ) -> list[Node]:
        """Return the nodes from an entry back to one of the operators `to`, through others; none where there is another
        or one that is read elsewhere. spared: a node that is read once more."""
        row: list[Node] = []
        while True:
            node = entry.node
            if node.control_deps or self.reads(node) != 1 + (node is spared):
                return []
            row.append(node)
            if _name(node) in to:
                return row
            is_rounded = _name(node) in _CASTS and self.dtype(NodeEntry(node)) not in (*_HALF, "float32")
            if _name(node) not in through or is_rounded:
                return []
            entry = node.inputs[0]


def _name(node: Node) -> str:
    return "" if node.op is None else node.op.name


def is_mixture(node: Node) -> bool:
    """Return whether a node may be the last product of an attention."""
    return _name(node) in ("batch_dot", *_MIXTURES)


def attention_of(last: Node, facts: Facts) -> NodeEntry | None:
    """Return the result of a product by `_fused_attention`; None where it is not the last of an attention that cuDNN
    computes: of half precision, whose heads have 8, 16, … 128 numbers, and whose scores and weights nothing else reads.
    """
    value, weights = last.inputs if _name(last) in _MIXTURES else last.inputs[::-1]
    row = facts.back(weights, (*_CASTS, "Reshape"), ("softmax",))
    if not row:
        return None
    softmax, sizes = row[-1], facts.shape(weights)
    p, products = softmax.attrs.parsed, ("batch_dot",) if _name(last) == "batch_dot" else _SCORES
    if len(sizes) != 3 or p.axis not in (-1, 2):
        return None
    for entry, more, spared in _ways(softmax.inputs[0], facts):
        row = facts.back(entry, (*_CASTS, *_SCALES), products, spared)
        if row and facts.shape(NodeEntry(row[-1])) == sizes and (not more or p.temperature in (None, 1.0)):
            break
    else:
        return None
    scale = prod(_SCALES[_name(node)](node.attrs.parsed.scalar) for node in row if _name(node) in _SCALES)
    scale *= 1.0 if p.temperature is None else _SCALES["_div_scalar"](p.temperature)
    more |= {"length": softmax.inputs[1]} if p.use_length else {}
    if not (isfinite(scale) and _fit(more, sizes, facts)) or {"mask", "length"} <= more.keys():
        return None
    return _fused(row[-1], last, value, scale, more, facts)


def _ways(entry: NodeEntry, facts: Facts) -> Iterator[tuple[NodeEntry, dict[str, NodeEntry], Node | None]]:
    """Yield what may be the scaled scores, what is done with them then, and a node that a mask reads for its shape."""
    yield entry, {}, None
    row = facts.back(entry, _CASTS, ("broadcast_add", "elemwise_add", "where"))
    first, second, *fill = row[-1].inputs if row else (entry, entry)
    if row and not fill:
        yield first, {"addend": second}, None
        yield second, {"addend": first}, None
    elif row and (factor := facts.back(fill[0], _CASTS, ("_mul_scalar",))):
        ones = facts.back(factor[-1].inputs[0], _CASTS, ("ones_like",))
        if ones and factor[-1].attrs.parsed.scalar <= _HIDDEN:
            yield second, {"mask": first}, ones[-1].inputs[0].node


def _fit(more: dict[str, NodeEntry], sizes: tuple[int, ...], facts: Facts) -> bool:
    """Return whether a mask has all sizes of the scores, an addend each or 1, a length all but the last."""
    for name, entry in more.items():
        shape, full = facts.shape(entry), sizes[:2] if name == "length" else sizes
        ones = (1,) if name == "addend" else ()
        if len(shape) != len(full) or any(a not in (b, *ones) for a, b in zip(shape, full, strict=True)):
            return False
    return True


def _fused(
    first: Node, last: Node, value: NodeEntry, scale: float, more: dict[str, NodeEntry], facts: Facts
) -> NodeEntry | None:
    """Return the result by the fused operator of operands in its order; None where cuDNN has no kernel for them."""
    p, q, out = first.attrs.parsed, last.attrs.parsed, NodeEntry(last)
    queries, keys = first.inputs[0], first.inputs[-1]
    heads, parts = 1, 1
    if _name(last) in _MIXTURES:
        scores, mixture = _SCORES[_name(first)](p), _MIXTURES[_name(last)](q)
        heads, parts = p.heads, scores.a_parts
        operands = [
            _part(queries, heads, scores.a_parts, scores.a_part),
            _part(keys, heads, scores.b_parts, scores.b_part),
            _part(value, heads, mixture.parts, mixture.part),
        ]
    else:
        swaps = zip((queries, keys, value), (p.transpose_a, not p.transpose_b, q.transpose_b), strict=True)
        operands = [apply("transpose", x, axes=(0, 2, 1)) if swap else x for x, swap in swaps]
        operands = [apply("expand_dims", x, axis=2) for x in operands]
    d = [*facts.shape(out), 0][2] // heads
    are_alike = heads == getattr(q, "heads", 1) and not getattr(q, "transpose_a", False)
    are_alike &= prod(facts.shape(queries)) == prod(facts.shape(NodeEntry(first))[:2]) * d * parts
    dtypes = {facts.dtype(entry) for entry in (queries, keys, value, out)}
    if not are_alike or d % 8 or d > 128 or len(dtypes) > 1 or dtypes.isdisjoint(_HALF):
        return None
    for entry in (more[name] for name in _MORE if name in more):
        rows, *others = facts.shape(entry)
        split = apply("Reshape", entry, shape=(-4, -1, heads, *[0] * len(others)))
        operands.append(apply("expand_dims", entry, axis=1) if rows == 1 else split)
    flags: dict[str, Any] = {f"with_{name}": True for name in more}
    scale *= d**-0.5 if _name(last) in _MIXTURES else 1.0
    fused = apply("_fused_attention", *operands, name=f"{last.name}_attention", scale=scale, **flags)
    if _name(last) in _MIXTURES:
        fused = apply("transpose", fused, axes=(1, 0, 2, 3))
    return apply("Reshape", fused, name=last.name, shape=(0, 0, -1))


def _part(entry: NodeEntry, heads: int, parts: int, part: int) -> NodeEntry:
    """Map (t, b, n·parts·d) → (b, t, n, d): one of the interleaved parts."""
    split = apply("Reshape", entry, shape=(0, 0, heads, parts, -1))
    cut = apply("slice_axis", split, axis=3, begin=part, end=part + 1)
    return apply("transpose", apply("Reshape", cut, shape=(0, 0, 0, -1)), axes=(1, 0, 2, 3))
