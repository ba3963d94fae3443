"""Names of a file that would command a terminal come out as escapes: of every subcommand, report, warning and error."""

import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import lowering
import symjax_nnvm as nn
from lowering.api import tuning as tune_module
from lowering.training.diagnosis import Diagnosis, NonFinite
from lowering.verify.reports import GradientReport, GradientRow, GradientsDisagreeError
from symjax_nnvm import symbol as sym
from symjax_nnvm.check.report import CheckReport, Problem
from symjax_nnvm.cli import COMMANDS, main
from symjax_nnvm.mxnet.match import Ambiguous, Misshaped
from symjax_nnvm.mxnet.record_writer import RecordWriter
from symjax_nnvm.passes.print_ir import print_ir

EVIL = "\x1b]0;a\x07\x9b31m\u202egpj\u2066\u200f\r\n\x7f\u2028<b>[red]/../"
"""ESC and its 8-bit form, BEL, DEL, carriage return, line ends, and what turns the direction of text round."""


def evil(name: str) -> str:
    return name + EVIL + name


def safe(text: str) -> bool:
    """Whether a text has no character but printable ones, line ends and tabs."""
    return text.replace("\n", "").replace("\t", "").isprintable()


def whole(text: str) -> bool:
    """Whether no name's line end has begun a line of its own."""
    return "\n\x7f" not in text and "\n\\x7f" not in text


def network(hint: bool = False) -> nn.Symbol:
    """Convolution, dense layer, reshape of a fixed batch, two heads; every name is hostile."""
    data = sym.Variable(evil("data"), shape=(2, 1, 4, 4) if hint else None)
    conv = sym.Convolution(
        data,
        sym.Variable(evil("cw")),
        num_filter=2,
        kernel=(3, 3),
        no_bias=True,
        name=evil("conv"),
        attr={"__" + EVIL + "__": EVIL},
    )
    flat = sym.reshape(conv, shape=(2, -1), name=evil("flat"))
    fc = sym.FullyConnected(flat, sym.Variable(evil("fw")), no_bias=True, num_hidden=3, name=evil("fc"))
    return sym.Group([sym.SoftmaxOutput(fc, sym.Variable(evil("label")), name=evil("out")), fc * 2])


SHAPE = f"{evil('data')}=2,1,4,4"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Models under hostile names: one that runs, one with unknown operators, parameters and arrays."""
    monkeypatch.chdir(tmp_path)
    stem = EVIL.replace("/", "_")
    symbol = network()
    arrays = {evil("cw"): np.ones((2, 1, 3, 3), np.float32), evil("fw"): np.ones((3, 8), np.float32)}
    nn.save_checkpoint(stem, 1, symbol, arrays, {})
    other = {evil("fw"): np.zeros((3, 8), np.float32), evil("x"): np.ones(2, np.float32)}
    nn.save_checkpoint(f"{stem}2", 1, symbol, {**arrays, **other}, {})
    document = json.loads(symbol.tojson(), strict=False)
    for node in document["nodes"]:
        if node["op"] == "Reshape":
            node["op"] = EVIL
        if node["op"] == "FullyConnected":
            node["attrs"] = {EVIL: EVIL, "num_hidden": EVIL}
        if node["op"] == "SoftmaxOutput":
            node["op"], node["attrs"] = "Custom", {"op_type": EVIL}
    Path("broken-symbol.json").write_text(json.dumps(document))
    Path(f"{stem}.txt").write_text("\n".join(EVIL.replace("\n", "") for _ in range(3)))
    with RecordWriter(f"{stem}.rec") as writer:
        writer.write_image(EVIL.encode(), 1.0)
    Path(f"{stem}.lst").write_text(f"0\t1\t{EVIL.translate({9: None, 10: None, 13: None})}\n")
    return tmp_path / stem


def lines_of(folder: Path) -> list[list[str]]:
    """Every subcommand with names that it prints as results, as notes, and as errors."""
    model, other, shape = str(folder), f"{folder}2", ["--shape", SHAPE]
    random = f"{evil('data')}=random"
    return [
        *(["inspect", model, *options] for options in ([], shape, ["--json"], ["--shape", f"{EVIL}=1"])),
        *(["check", name, *shape] for name in (model, "broken")),
        ["check", "broken", "--json"],
        *(["plot", model, "-", *options] for options in ([], shape, ["--weights"], ["--json"], ["--no-fold"])),
        ["plot", model, f"{folder}.dot"],
        ["diff", model, other],
        ["diff", model, f"{folder}3"],
        ["diff", model, "broken"],
        ["run", model, random, *shape, "--labels", f"{folder}.txt", "--output", f"{folder}.npz", "--time", "1"],
        ["run", model, random, *shape, "--json"],
        ["run", model, f"{EVIL}=random", *shape],
        ["run", model, f"{evil('data')}={EVIL}.npy", *shape],
        ["verify", model, *shape, "--no-finite-differences"],
        ["verify", model, *shape, "--wrt", EVIL],
        ["tune", model, *shape],
        ["convert", model, f"{folder}.safetensors"],
        ["convert", model, f"{folder}.mlir", *shape],
        ["convert", model, f"{folder}.{EVIL}"],
        ["convert", "broken", "copy"],
        ["env"],
        ["env", "--json"],
        ["records", "list", f"{folder}.rec"],
        ["records", "verify", f"{folder}.rec", "--decode"],
        ["records", "verify", f"{folder}.lst"],
        ["records", "make", f"{folder}.new.rec", f"{folder}.lst", "--skip-broken"],
        *([name, model, f"--{EVIL}"] for name in COMMANDS),
        *([name, EVIL, "out"] for name in COMMANDS),
        [EVIL],
    ]


@pytest.mark.slow("compiles")
def test_no_subcommand_prints_a_control_character(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", f"{folder}-cache")
    monkeypatch.setattr(tune_module, "measure", lambda functions, *_: dict.fromkeys(functions, 1.0))
    codes = set()
    for line in lines_of(folder):
        try:
            codes.add((line[0], main(line)))
        except SystemExit as stop:
            codes.add((line[0], stop.code))
        out, err = capsys.readouterr()
        assert out or err, line
        assert safe(out), line
        assert safe(err), line
        assert whole(out + err), line
    assert {(name, 2) for name in COMMANDS} <= codes
    assert {(name, 0) for name in COMMANDS} - {("diff", 0)} <= codes


def disagreement() -> str:
    row = GradientRow(EVIL, (2,), 1.0, 1.0, 1.0, None, None, False)
    return str(GradientsDisagreeError(f"gradients of {EVIL} disagree", GradientReport((row,), 1e-5, 1e-3)))


def warned(call: Callable[[], Any]) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return "\n".join(str(warning.message) for warning in caught)


def refused(call: Callable[[], Any]) -> str:
    with pytest.raises(nn.NNVMError) as error:
        call()
    return str(error.value)


ARRAYS = {f"arg:{evil('cw')}": np.ones((7, 1, 3, 3), np.float32), EVIL: np.ones(3, np.float32)}
WIDE = sym.Group([sym.cast(sym.Variable(evil("x")), dtype="int64", name=evil("wide"))])
PROBLEM = Problem("broken node", "error", (EVIL,), EVIL, EVIL, EVIL)

TEXTS: dict[str, Callable[[], str]] = {
    "summary": lambda: str(nn.summarize(network(), {evil("data"): (2, 1, 4, 4)})),
    "summary, undecided": lambda: str(nn.summarize(network())),
    "check": lambda: str(nn.check(network(), {evil("data"): (2, 1, 4, 4)}, params=ARRAYS)),
    "problem": lambda: str(PROBLEM),
    "report": lambda: str(CheckReport((PROBLEM,), 1, False)),
    "report's repr": lambda: repr(CheckReport((PROBLEM,), 1, False)),
    "plot": lambda: nn.plot_network(network(), title=EVIL, hide_weights=False).source,
    "symbol": lambda: repr(network()) + repr(network()[0]) + repr(sym.Variable(EVIL)),
    "debug_str": lambda: network().debug_str() + sym.Variable(EVIL).debug_str(),
    "print_ir": lambda: print_ir(nn.Graph(network().outputs)),
    "node": lambda: repr(network().outputs[0].node) + repr(network().outputs[0]),
    "hard-coded batch": lambda: "\n".join(map(str, nn.hard_coded_batch(network(hint=True)))),
    "params match": lambda: str(nn.match_params(network(), ARRAYS)),
    "misshaped": lambda: str(Misshaped(EVIL, EVIL * 2, (1,), (2,))),
    "ambiguous": lambda: str(Ambiguous((EVIL,), (EVIL,), (EVIL,), (EVIL,), (EVIL,))),
    "difference": lambda: repr(nn.compare_symbols(network(), sym.Variable(EVIL))),
    "gradient report": disagreement,
    "diagnosis": lambda: str(Diagnosis((NonFinite(EVIL, EVIL, 0, 1, 1, 2), NonFinite(EVIL, None, 0, 1, 1, 2)))),
    "compiled": lambda: repr(lowering.compile(network())),
    "undecided shapes": lambda: warned(lambda: network().infer_shape()),
    "64 bits": lambda: warned(lambda: lowering.to_jax(WIDE)({evil("x"): np.ones(2, np.float32)}, {})),
    "compose": lambda: refused(lambda: network()(name="", **{EVIL: sym.Variable(EVIL)})),
    "cut": lambda: refused(lambda: nn.cut(network(), EVIL)),
    "rename": lambda: refused(lambda: nn.rename(network(), {EVIL: "x"})),
    "freeze": lambda: refused(lambda: nn.freeze(network(), EVIL + "*x")),
    "infer_shape": lambda: refused(lambda: network().infer_shape(**{evil("data"): (1, 2)})),
    "attributes": lambda: refused(lambda: sym.Variable("x", None, None, None, None, **{EVIL: "1"})),
}


ERRORS = ("gradient report", "compose", "cut", "rename", "freeze", "infer_shape", "attributes", "64 bits")
"""Their messages quote names as they are, line ends included; the command puts each on one line."""


@pytest.mark.slow("runs the command")
@pytest.mark.parametrize("what", TEXTS)
def test_no_report_has_a_control_character(what: str):
    text = TEXTS[what]()
    assert "202e" in text, text
    assert safe(text), text
    assert what in ERRORS or whole(text), text


def test_only_the_console_prints():
    """What the command prints goes through functions that make it safe."""
    root = Path(__file__).parents[2]
    files = [path for package in ("symjax_nnvm", "lowering") for path in (root / package / "cli").glob("*.py")]
    assert len(files) > 10
    printing = {path.name for path in files if re.search(r"(?<![\w.])print\(|std(out|err)\.write", path.read_text())}
    assert printing == {"console.py"}


@pytest.mark.parametrize("shapes", [None, {evil("data"): (2, 1, 4, 4)}])
def test_drawings_are_whole_whatever_the_names(shapes: dict[str, tuple[int, ...]] | None):
    plot = nn.plot_network(network(), shapes, title=evil("title"), hide_weights=False)
    root = ElementTree.fromstring(plot.svg())
    assert {element.tag.partition("}")[2] for element in root.iter()} == {"svg", "title", "g", "path", "rect", "text"}
    assert safe(plot.svg())
    assert safe(plot.source)
    assert ElementTree.fromstring(f"<div>{plot.above('')}</div>") is not None
