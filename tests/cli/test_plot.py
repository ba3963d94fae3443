"""`symjax-nnvm plot`: the DOT text, and which blocks are folded."""

import json
import re
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

import symjax_nnvm as nn
from symjax_nnvm import symbol as sym
from symjax_nnvm.cli import main
from symjax_nnvm.errors import MissingExtraError
from symjax_nnvm.ir.indexed_graph import IndexedGraph
from symjax_nnvm.viz.network_plot import RenderingError
from symjax_nnvm.viz.repeated_blocks import RepeatedRun, repeated_blocks
from tests.cli.networks import resnet


def dense(data: nn.Symbol, name: str, size: int = 8) -> nn.Symbol:
    return sym.Activation(sym.FullyConnected(data, num_hidden=size, name=f"{name}_fc"), act_type="relu", name=name)


def runs(net: nn.Symbol, **shapes: tuple[int, ...]) -> list[tuple[int, int]]:
    """(length, count) of each run."""
    graph = nn.Graph(net.outputs)
    if shapes:
        graph = nn.passes.infer.infer_shape(graph, shapes=shapes)
    return [(run.length, run.count) for run in repeated_blocks(graph.indexed_graph(), graph.attrs.get("shape"))]


def edges(source: str) -> set[tuple[str, str]]:
    """Edges by the nodes' names, the last line of their labels."""
    nodes = re.findall(r'^ +(g\d+n\d+) \[label="([^"]*)"', source, re.MULTILINE)
    named = {ident: label.split("\\n")[-1] for ident, label in nodes}
    return {(named[a], named[b]) for a, b in re.findall(r"(g\d+n\d+) -> (g\d+n\d+)", source)}


def test_residual_stages_fold_unit_by_unit():
    net = resnet((3, 8, 36, 3))
    assert runs(net) == [(10, 2), (10, 7), (10, 35), (10, 2)]
    plot = nn.plot_network(net, {"data": (1, 3, 224, 224)})
    assert plot.drawn + plot.folded == 515
    assert plot.drawn < 100
    assert "× 35   stage3_unit2 … stage3_unit36" in plot.source


def test_a_folded_drawing_keeps_the_connections_of_what_it_draws():
    folded, whole = (edges(nn.plot_network(resnet(), fold=fold).source) for fold in (True, False))
    within = {(a, b) for a, b in whole if not re.match(r"stage\d_unit([3-9])", f"{a} {b}") and "unit3" not in b}
    drawn = {name for edge in folded for name in edge}
    assert {(a, b) for a, b in within if {a, b} <= drawn} <= folded
    assert ("stage1_unit2_relu", "stage2_unit1_a_conv") in folded  # it stands for the last unit's


def test_layers_of_other_shapes_or_parameters_are_other_layers():
    net = sym.Variable("data")
    for i in range(4):
        net = dense(net, f"layer{i}")
    assert runs(net) == [(2, 4)]
    assert runs(net, data=(2, 5)) == [(2, 3)]  # the first layer's weight has another shape
    assert runs(dense(dense(dense(sym.Variable("x"), "a", 8), "b", 8), "c", 4)) == [(2, 2)]


def densely_connected(filters: Sequence[int]) -> nn.Symbol:
    """DenseNet's block: each layer sees all before it, as Gluon's files have it."""
    net = sym.relu(sym.Variable("data"), name="stem")
    for i, filter in enumerate(filters):
        made = sym.Convolution(net, num_filter=8, kernel=(1, 1), no_bias=True, name=f"layer{i}_a")
        made = sym.Convolution(made, num_filter=filter, kernel=(3, 3), pad=(1, 1), no_bias=True, name=f"layer{i}_b")
        net = sym.concat(net, made, dim=1, name=f"layer{i}_concat")
    return net


def test_blocks_whose_sizes_grow_evenly_fold():
    net = densely_connected([4] * 6)
    assert runs(net, data=(1, 3, 5, 5)) == runs(net) == [(3, 6)]
    plot = nn.plot_network(net, {"data": (1, 3, 5, 5)})
    assert (plot.drawn, plot.folded) == (4, 15)
    assert "× 6   layer0 … layer5   1×7×5×5 … 1×27×5×5" in plot.source


def test_blocks_whose_sizes_grow_otherwise_do_not():
    assert runs(densely_connected([4, 4]), data=(1, 3, 5, 5)) == []  # two copies say nothing of a third
    assert runs(densely_connected([4, 5, 4, 5]), data=(1, 3, 5, 5)) == []
    net = sym.Variable("data")
    for i in range(5):
        net = sym.Pooling(net, kernel=(2, 2), stride=(2, 2), pool_type="max", name=f"pool{i}")
    assert runs(net) == [(1, 5)]
    assert runs(net, data=(1, 3, 64, 64)) == []


def test_what_is_read_from_outside_is_not_folded_away():
    outputs = [sym.Variable("data")]
    for i in range(6):
        outputs.append(dense(outputs[-1], f"layer{i}"))
    assert runs(outputs[-1]) == [(2, 6)]
    assert runs(sym.Group([outputs[3], outputs[6]])) == [(2, 3), (2, 3)]
    assert runs(sym.Group(outputs[1:])) == []


def test_blocks_that_read_one_thing_outside_fold():
    mask, net = sym.Variable("mask"), sym.Variable("data")
    scaled = sym.exp(mask)
    for i in range(5):
        net = sym.tanh(net * scaled, name=f"t{i}")
    assert runs(net) == [(2, 5)]


@pytest.mark.nightly("a very long chain")
@pytest.mark.slow("computes much")
def test_a_long_chain_is_folded_in_linear_time():
    net = sym.Variable("x")
    for _ in range(100_000):
        net = sym.relu(net)
    index = IndexedGraph(net.outputs)
    began = time.perf_counter()
    assert repeated_blocks(index) == [RepeatedRun(0, 1, 100_000)]
    assert time.perf_counter() - began < 20
    assert nn.plot_network(net).drawn == 1


def test_shapes_weights_and_heads_are_shown():
    net = sym.SoftmaxOutput(sym.FullyConnected(sym.Variable("data"), num_hidden=3, name="fc"), name="out")
    plot = nn.plot_network(net, {"data": (2, 5)}, hide_weights=False)
    source = plot.source
    assert 'label="FullyConnected 3\\nfc\\nfc_weight 3×5\\nfc_bias 3"' in source
    assert 'label="2×5"' in source
    assert source.count("peripheries=2") == 1
    assert ">fc_weight 3×5</text>" in plot.svg()
    assert "fc_weight" not in nn.plot_network(net).source


def test_subgraphs_are_boxes_of_their_own():
    data, state = sym.Variable("data"), sym.Variable("state")
    with sym.NameManager():
        outputs, _ = sym.contrib.foreach(lambda x, s: (sym.tanh(x + s), s * 2.0), data, state)
    source = nn.plot_network(outputs).source
    assert 'label="run by _foreach0"' in source
    assert ("tanh0", "_foreach0") in edges(source)


def test_names_cannot_break_the_language():
    source = nn.plot_network(sym.relu(sym.Variable('a"b'), name='x"]; evil \\ \n y')).source
    assert 'label="relu\\nx\\"]; evil \\\\ \\\\n y"' in source


def test_the_command_writes_dot(net: Path, capsys: pytest.CaptureFixture[str]):
    out = net.with_name("net.dot")
    assert main(["plot", str(net), str(out), "--shape", "data=1,1,8,8", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"file": str(out), "drawn": 6, "folded": 0}
    assert ("conv", "bn") in edges(out.read_text())
    assert main(["plot", str(net), str(net.with_name("net.txt"))]) == 2
    assert "expected .dot" in capsys.readouterr().err


def test_svg_needs_no_graphviz(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, net: Path):
    monkeypatch.setitem(sys.modules, "graphviz", None)
    plot = nn.plot_network(sym.relu(sym.Variable("x")))
    assert plot.save(tmp_path / "x.svg").read_text() == plot.svg()
    assert main(["plot", str(net), str(tmp_path / "net.svg"), "--shape", "data=1,1,8,8"]) == 0
    assert "1×1×8×8" in (tmp_path / "net.svg").read_text()
    assert main(["plot", str(net), str(tmp_path / "net.png")]) == 2


def test_without_graphviz_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    plot = nn.plot_network(sym.relu(sym.Variable("x")))
    monkeypatch.setitem(sys.modules, "graphviz", None)
    for suffix, graphviz in (("png", False), ("pdf", False), ("svg", True)):
        with pytest.raises(MissingExtraError, match=r"symjax-nnvm\[plot\]"):
            plot.save(tmp_path / f"x.{suffix}", graphviz=graphviz)


def test_without_the_program_dot_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    pytest.importorskip("graphviz", reason="the extra `plot` is not installed")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RenderingError, match="apt install graphviz"):
        nn.plot_network(sym.relu(sym.Variable("x"))).save(tmp_path / "x.png")


def test_a_notebook_shows_the_drawing_without_graphviz(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "graphviz", None)
    plot = nn.plot_network(sym.relu(sym.Variable("x")))
    shown = plot._repr_mimebundle_(include=None, exclude=None)
    text = "<NetworkPlot: 1 operators drawn, 0 folded into them>"
    assert plot.svg() in shown.pop("text/html")
    assert shown == {"image/svg+xml": plot.svg(), "text/plain": text}


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz's program dot is not installed")
def test_graphviz_takes_it(tmp_path: Path):
    pytest.importorskip("graphviz", reason="the extra `plot` is not installed")
    path = nn.plot_network(resnet(), {"data": (1, 3, 224, 224)}).save(tmp_path / "resnet.svg", graphviz=True)
    assert "stage3_unit2_a_conv" in path.read_text()
