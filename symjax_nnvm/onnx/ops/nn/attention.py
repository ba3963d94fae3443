"""ONNX forms of multi-head attention over interleaved projections: one batched product each."""

from __future__ import annotations

import math

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.nn import attention as ops


def _interleaved_part(g: Builder, array: Tensor, heads: int, parts: int, part: int, order: tuple[int, ...]) -> Tensor:
    """Map (t, n, h·parts·d) → one of the interleaved parts, (t, n, h, d) with its axes in an order."""
    if parts == 1:
        return g.transpose(g.op("Reshape", array, [0, 0, heads, -1]), order)
    split = g.op("Reshape", array, [0, 0, heads, parts, -1])
    return g.transpose(g.op("Gather", split, g.constant(part, "int64"), axis=3), order)


def _scores(g: Builder, p: ops.ScoresParams, a: Tensor, b: Tensor) -> Tensor:
    features = g.static(a, [-1])[-1]
    first = _interleaved_part(g, a, p.heads, p.a_parts, p.a_part, (1, 2, 0, 3))
    if p.scaled:
        first = g.op("Mul", first, 1 / math.sqrt(features // (p.heads * p.a_parts)))
    scores = g.op("MatMul", first, _interleaved_part(g, b, p.heads, p.b_parts, p.b_part, (1, 2, 3, 0)))
    return g.reshape_as(scores, g.outs[0])


def _mixture(g: Builder, p: ops.MixtureParams, weights: Tensor, b: Tensor) -> Tensor:
    values = _interleaved_part(g, b, p.heads, p.parts, p.part, (1, 2, 0, 3))
    # (n·h, i, j) → (n, h, i, j); ONNX copies axes by their place alone, so that the last two are told apart first.
    ends = [g.size(weights, 1), g.size(weights, 2)]
    mixed = g.op("MatMul", g.reshape(weights, -1, p.heads, *ends), values)
    return g.op("Reshape", g.transpose(mixed, (2, 0, 1, 3)), [0, 0, -1])


@onnx_form("_contrib_interleaved_matmul_selfatt_qk")
def _self_scores(g: Builder, p: ops.HeadsParams, data: Tensor) -> Tensor:
    return _scores(g, ops.self_scores(p), data, data)


@onnx_form("_contrib_interleaved_matmul_encdec_qk")
def _encoder_scores(g: Builder, p: ops.HeadsParams, queries: Tensor, keys_values: Tensor) -> Tensor:
    return _scores(g, ops.encoder_scores(p), queries, keys_values)


@onnx_form("_contrib_interleaved_matmul_selfatt_valatt")
def _self_mixture(g: Builder, p: ops.HeadsParams, data: Tensor, attention: Tensor) -> Tensor:
    return _mixture(g, ops.self_mixture(p), attention, data)


@onnx_form("_contrib_interleaved_matmul_encdec_valatt")
def _encoder_mixture(g: Builder, p: ops.HeadsParams, data: Tensor, attention: Tensor) -> Tensor:
    return _mixture(g, ops.encoder_mixture(p), attention, data)
