"""Every option of every subcommand with values that make no sense: one line on stderr, exit code 2, no traceback."""

import argparse
from pathlib import Path

import numpy as np
import pytest

from symjax_nnvm.cli import COMMANDS, _parser, main
from symjax_nnvm.mxnet.record_writer import RecordWriter

SHAPE = ("--shape", "data=2,1,8,8")
NUMBERS = ("-3", "9" * 25, "1.5", "x", "", "nan", "1e400", "²", "9" * 5000)
REALS = ("x", "", "nan", "inf", "1e400", "0x10")
PATHS = ("", "a\0b", "folder", "missing/x", "binary/x", "x" * 300, ".", "/")
MODELS = (*PATHS, "binary", "empty", "page.html", "\udc80", "../..", "ünknown\u202e")
SHAPES = (
    "data",
    "data=",
    "=1",
    "data=1,,2",
    "data=-5,1",
    "data=x",
    "data=" + "9" * 30,
    "dta=1,1,8,8",
    "\x1b=1",
    "data=1",
)

OPTIONS: dict[tuple[str, str], tuple[str, ...]] = {
    **{(c, "model"): MODELS for c in ("inspect", "check", "plot", "run", "verify", "tune", "convert")},
    **{
        (c, "--params"): (*PATHS, "binary", "empty", "page.html", "missing")
        for c in ("inspect", "check", "plot", "run", "verify", "tune", "convert")
    },
    **{(c, "--epoch"): (*NUMBERS, "4") for c in ("inspect", "check", "plot", "run", "verify", "tune", "convert")},
    **{(c, "--shape"): SHAPES for c in ("inspect", "plot", "run", "verify", "tune", "convert")},
    ("check", "--shape"): SHAPES[:-1],  # the last is a finding, exit code 1
    ("plot", "out"): (*PATHS, "drawing", "x.jpg"),
    **{("diff", name): MODELS for name in ("a", "b")},
    **{("diff", name): (*PATHS, "binary", "empty", "missing") for name in ("--params-a", "--params-b")},
    **{("diff", name): (*REALS, "-1") for name in ("--rtol", "--atol")},
    **{
        (c, "inputs"): (*MODELS, "data=", "data=x.npy", "data=folder.npy", "data=empty.npy", "data=text.npy", "y=zeros")
        for c in ("run", "verify")
    },
    **{(c, "--max-memory"): ("", "0", "-1", "x", "4X", "nan", "1e400", "9" * 30) for c in ("run", "verify", "convert")},
    **{(c, "--seed"): NUMBERS for c in ("run", "verify")},
    **{(c, "--scale"): REALS for c in ("run", "verify")},
    **{(c, "--mean"): (*REALS, ",", "1,2", "1,x,3", "1,2,3") for c in ("run", "verify")},
    **{(c, "--std"): (*REALS, ",", "1,2", "0", "1,2,3") for c in ("run", "verify")},
    ("inspect", "--without"): ("", "nope", "MXGradient", "\x1b"),
    ("run", "--backend"): ("", "ort", "\x1b"),
    ("run", "--topk"): NUMBERS,
    ("run", "--time"): (*NUMBERS, "0"),
    ("run", "--labels"): (*PATHS, "binary", "missing"),
    ("run", "--output"): ("", "a\0b", ".", "/", "folder"),
    ("verify", "--wrt"): ("", "nope", "data,", ",", "bn_moving_mean"),
    ("verify", "--directions"): (*NUMBERS, "0"),
    ("convert", "out"): ("", "a\0b", ".", "/", "folder", "m.h5", "m.params", "m.json", "binary/x"),
    ("convert", "last"): ("", "a\0b", ".", "/", "folder", "m.h5"),
    ("convert", "--to"): ("", "tflite", "\x1b"),
    ("tune", "--seconds"): (*NUMBERS, "0"),
    ("convert", "--opset"): (*NUMBERS, "0"),
    ("check", "--target"): ("", "tflite", "\x1b"),
    ("verify", "--against"): MODELS,
    ("convert", "--platforms"): ("", ",", "gpu", "cpu,,", "\u202e"),
    ("records", "action"): ("", "show", "\x1b"),
    ("records", "file"): (*PATHS, "binary", "page.html", "missing.rec", "net-0003.params"),
    ("records", "source"): ("", "a\0b", "folder", "missing/x", "binary/x", "x" * 300, "binary", "empty", "page.html"),
    ("records", "--index"): (*PATHS, "binary", "page.html"),
    ("records", "--root"): ("", "a\0b", "folder", "missing/x", "binary/x", "x" * 300, "binary"),
    **{("records", name): (*NUMBERS, "0") for name in ("--count", "--resize", "--quality")},
    ("records", "--channels"): ("", "2", "x"),
    ("records", "--encoding"): ("", ".gif", "\x1b"),
}
"""(subcommand, argument) → values that are refused."""

FLAGS = {
    *("--json", "--traceback", "--help", "--weights", "--no-fold", "--graphviz", "--structure"),
    *("--random-params", "--bgr"),
}
FLAGS |= {
    *("--stages", "--stretch", "--full", "--inference", "--no-finite-differences", "--train"),
    *("--float", "--this-machine"),
}
FLAGS |= {"--decode", "--center-crop", "--pass-through", "--pack-label", "--skip-broken", "--no-shuffle"}
FLAGS |= {"--float16", "--fold-batch-norm"}


def arguments_of(command: str) -> set[str]:
    """The arguments of a subcommand that take values."""
    (subparsers,) = (a for a in _parser([command])._actions if isinstance(a, argparse._SubParsersAction))
    actions = subparsers.choices[command]._actions
    return {action.option_strings[-1] if action.option_strings else action.dest for action in actions} - FLAGS


def test_the_table_has_every_argument():
    assert set(OPTIONS) == {(command, name) for command in COMMANDS for name in arguments_of(command)}


IMAGE = ("--shape", "data=1,1,8,8")

POSITIONAL = {
    "plot": ("model", "out"),
    "diff": ("a", "b"),
    "convert": ("model", "out", "last"),
    **dict.fromkeys(("run", "verify"), ("model", "inputs")),
    **dict.fromkeys(("inspect", "check", "tune"), ("model",)),
}


def call(command: str, argument: str, value: str) -> list[str]:
    """The command line of an argument's value, and of good values of all that is required."""
    if command == "records":
        return call_of_records(argument, value)
    of_images = argument in ("--mean", "--std")
    values = {"model": "net", "a": "net", "b": "net", "out": "out.dot"}
    values["inputs"] = "data=i.png" if of_images else "data=zeros"
    if command == "convert":
        values["last"] = "out.stablehlo" if argument in ("--platforms", "--shape") else "out"
        values["out"] = "0"
    options = [] if argument in values else [f"{argument}={value}"]
    if argument != "--shape" and command != "diff":
        options += IMAGE if of_images else SHAPE
    values[argument] = value
    return [command, *options, "--", *(values[name] for name in POSITIONAL[command])]


def call_of_records(argument: str, value: str) -> list[str]:
    """As `call`: what is asked of a file that is there, but for what belongs to making one."""
    making = argument in ("source", "--root", "--resize", "--quality", "--channels", "--encoding")
    values = {"action": "make", "file": "new.rec", "source": "x.lst"} if making else {"action": "list", "file": "x.rec"}
    options = [] if argument in ("action", "file", "source") else [f"{argument}={value}"]
    if not options:
        values[argument] = value
    return ["records", *options, "--", *values.values()]


@pytest.fixture
def folder(net: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The model's folder as the current one, with files of the wrong kind."""
    monkeypatch.chdir(net.parent)
    (net.parent / "folder").mkdir()
    (net.parent / "folder.npy").mkdir()
    for name, content in (
        ("binary", bytes(range(256))),
        ("empty", b""),
        ("empty.npy", b""),
        ("page.html", b"<!DOCTYPE html>\n<html>404</html>"),
    ):
        (net.parent / name).write_bytes(content)
    with RecordWriter("x.rec") as writer:
        writer.write(b"a record")
    (net.parent / "x.lst").write_text("0\t0\timage.jpg\n")
    np.save(net.parent / "text.npy", np.array(["a", "b"]))
    return net.parent


@pytest.mark.slow("has many cases")
@pytest.mark.parametrize(("command", "argument"), OPTIONS, ids=[" ".join(key) for key in OPTIONS])
def test_a_bad_value_is_refused_in_one_line(
    command: str, argument: str, folder: Path, capsys: pytest.CaptureFixture[str]
):
    if argument in ("--mean", "--std"):
        pytest.importorskip("PIL.Image", reason="the extra `image` is not installed").new("L", (4, 4)).save("i.png")
    before = sorted(folder.rglob("*"))
    for value in OPTIONS[command, argument]:
        line = call(command, argument, value)
        try:
            code = main(line)
        except SystemExit as stop:
            code = stop.code
        out, err = capsys.readouterr()
        assert (code, out) == (2, ""), line
        *notes, last = err.splitlines()
        assert last.startswith("symjax-nnvm"), line
        assert ": error: " in last, line
        assert all(text.startswith(("parameters: ", "not given, zeros: ")) for text in notes), err
        assert err.replace("\n", "").isprintable(), err
        assert len(last) < 3000, line
    assert sorted(folder.rglob("*")) == before
