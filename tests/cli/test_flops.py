"""FLOPs of operators: against XLA's own count of the lowered operator, and by hand where XLA counts otherwise."""

from math import prod
from typing import Any, Literal

import jax
import numpy as np
import pytest

import lowering
import symjax_nnvm as nn
from symjax_nnvm import symbol as sym
from symjax_nnvm.ir.attributes import FFlops
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.rules.costs import Flops
from tests.cli.networks import resnet


def counted(net: nn.Symbol, **shapes: tuple[int, ...]) -> Flops:
    (layer,) = nn.summarize(net, shapes).layers
    assert layer.flops is not None
    return layer.flops


def xla_flops(net: nn.Symbol, **shapes: tuple[int, ...]) -> float:
    arguments, _, _ = net.infer_shape(**shapes)
    args = {n: jax.ShapeDtypeStruct(s, np.float32) for n, s in zip(net.list_arguments(), arguments, strict=True)}
    return lowering.compile(net).cost(args)["flops"]


X, Y = sym.Variable("x"), sym.Variable("y")

PRODUCTS: dict[str, tuple[nn.Symbol, dict[str, Any]]] = {
    "dense": (sym.FullyConnected(X, num_hidden=7), {"x": (5, 3, 2)}),
    "dense, last axis": (sym.FullyConnected(X, num_hidden=7, flatten=False, no_bias=True), {"x": (5, 3, 2)}),
    "convolution": (sym.Convolution(X, kernel=(3, 3), num_filter=8, stride=(2, 2), no_bias=True), {"x": (2, 4, 9, 9)}),
    "1-d convolution": (sym.Convolution(X, kernel=(3,), num_filter=8, no_bias=True), {"x": (2, 4, 9)}),
    "channels last": (
        sym.Convolution(X, kernel=(3, 3), num_filter=8, layout="NHWC", no_bias=True),
        {"x": (2, 9, 9, 4)},
    ),
    "dot": (sym.dot(X, Y), {"x": (4, 5), "y": (5, 6)}),
    "dot, transposed": (sym.dot(X, Y, transpose_a=True, transpose_b=True), {"x": (5, 4), "y": (6, 5)}),
    "batch_dot": (sym.batch_dot(X, Y), {"x": (3, 4, 5), "y": (3, 5, 6)}),
    "batch_dot, transposed": (
        sym.batch_dot(X, Y, transpose_a=True, transpose_b=True),
        {"x": (3, 5, 4), "y": (3, 6, 5)},
    ),
    "gemm2": (sym.linalg_gemm2(X, Y, transpose_b=True), {"x": (3, 4, 5), "y": (3, 6, 5)}),
}


@pytest.mark.slow("runs the command")
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_what_xla_counts(name: str):
    net, shapes = PRODUCTS[name]
    assert counted(net, **shapes).total == xla_flops(net, **shapes)


def test_groups_divide_the_work_of_a_convolution():
    whole, grouped = (
        counted(sym.Convolution(X, kernel=(3, 3), num_filter=8, num_group=g, no_bias=True), x=(1, 4, 6, 6)).macs
        for g in (1, 4)
    )
    assert whole == 4 * grouped == 8 * 4 * 4 * 4 * 9


def test_a_deconvolution_does_the_work_of_its_convolution():
    shape = (2, 6, 5, 5)
    back = counted(sym.Deconvolution(X, kernel=(3, 3), num_filter=4, stride=(2, 2), num_group=2), x=shape)
    (out,) = sym.Deconvolution(X, kernel=(3, 3), num_filter=4, stride=(2, 2), num_group=2).infer_shape(x=shape)[1]
    there = counted(sym.Convolution(X, kernel=(3, 3), num_filter=6, stride=(2, 2), num_group=2, no_bias=True), x=out)
    assert back.macs == there.macs


@pytest.mark.parametrize(("mode", "gates"), [("rnn_tanh", 1), ("gru", 3), ("lstm", 4)])
def test_recurrent_layers_multiply_every_weight_at_every_step(mode: Literal["rnn_tanh", "gru", "lstm"], gates: int):
    net = sym.RNN(X, sym.Variable("parameters"), state_size=6, num_layers=2, bidirectional=True, mode=mode, name="rnn")
    layers = [6 * (4 + 6), 6 * (12 + 6)]  # input to hidden and hidden to hidden, of both layers
    flops = counted(net, x=(7, 3, 4))
    assert flops.macs == 7 * 3 * 2 * gates * sum(layers)
    assert flops.other == 7 * 3 * 2 * 2 * 6 * (3 if gates == 1 else 4 * gates)


def test_attention_counts_scores_and_mixtures():
    steps, batch, heads, d = 5, 2, 4, 8
    qk = sym.contrib.interleaved_matmul_selfatt_qk(X, heads=heads)
    assert counted(qk, x=(steps, batch, 3 * heads * d)).macs == batch * heads * steps * steps * d
    mixed = sym.contrib.interleaved_matmul_selfatt_valatt(X, Y, heads=heads)
    shapes = {"x": (steps, batch, 3 * heads * d), "y": (batch * heads, steps, steps)}
    assert counted(mixed, **shapes).macs == batch * heads * steps * steps * d


@pytest.mark.parametrize(
    ("net", "other"),
    [
        (sym.Activation(X, act_type="relu"), 1),
        (X + Y, 1),
        (X * 2.0, 1),
        (sym.BatchNorm(X), 2),
        (sym.Reshape(X, shape=(-1,)), 0),
        (sym.Concat(X, Y), 0),
    ],
)
def test_other_operators_count_by_elements(net: nn.Symbol, other: int):
    shape = (2, 3, 4, 4)
    shapes = {name: shape for name in net.list_arguments() if name in "xy"}
    assert counted(net, **shapes) == Flops(0, other * prod(shape))


def test_pooling_counts_its_windows():
    assert counted(sym.Pooling(X, kernel=(2, 2), stride=(2, 2)), x=(1, 3, 8, 8)) == Flops(0, 3 * 16 * 4)
    assert counted(sym.Pooling(X, global_pool=True, kernel=(1, 1)), x=(1, 3, 8, 8)) == Flops(0, 3 * 64)


def test_an_author_may_count_better():
    nn.register_op("_test_flops_counted", infer_shape=lambda p, ins, outs: (ins, ins), doc="For tests.")
    assert nn.summarize(sym._test_flops_counted(X), {"x": (2,)}).uncounted == ("_test_flops_counted",)
    Op.get("_test_flops_counted").set_attr("FFlops", lambda attrs, ins, outs: Flops(10))
    assert counted(sym._test_flops_counted(X), x=(2,)) == Flops(10)
    assert FFlops[Op.get("Convolution")] is FFlops[Op.get("Convolution_v1")]


def test_resnet50_has_the_numbers_it_is_known_for():
    summary = nn.summarize(resnet(), {"data": (1, 3, 224, 224)})
    assert summary.parameters == 25_557_032
    assert summary.flops is not None
    assert summary.flops.macs == 4_089_184_256
    assert summary.uncounted == summary.undecided == ()
