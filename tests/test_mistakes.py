"""What people get wrong with files, symbols, `check`, surgery and drawings: each message holds the way out.

A row: what is done, the error's class, and the words of its message that a reader who is stuck needs.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symjax_nnvm as nn
from symjax_nnvm import symbol as sym
from symjax_nnvm.cli import main
from symjax_nnvm.errors import SymbolTypeError, SymbolValueError
from tests.cli.conftest import FILES

X = sym.Variable("data")


def mlp(head: int = 4) -> nn.Symbol:
    hidden = sym.Activation(sym.FullyConnected(X, num_hidden=8, name="fc1"), act_type="relu", name="relu1")
    return sym.SoftmaxOutput(sym.FullyConnected(hidden, num_hidden=head, name="fc2"), name="softmax")


def arrays(head: int = 4) -> dict[str, np.ndarray]:
    shapes = {"fc1_weight": (8, 3), "fc1_bias": (8,), "fc2_weight": (head, 8), "fc2_bias": (head,)}
    return {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}


def fixed_batch() -> nn.Symbol:
    return sym.FullyConnected(sym.reshape(X, shape=(32, -1), name="flat"), num_hidden=3, name="fc")


def unknown_operators() -> str:
    document = json.loads(mlp().tojson())
    for node in document["nodes"]:
        if node["op"] == "FullyConnected":
            node["op"] = "FullyConected"
    return json.dumps(document)


def written(name: str, content: str | bytes) -> str:
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    return name


def half(name: str, content: str) -> str:
    return written(name, content[: len(content) // 2])


def many(count: int) -> nn.Symbol:
    return sym.add_n(*(sym.Variable(f"x{i}") for i in range(count)))


Row = tuple[Callable[[], Any], type[Exception], tuple[str, ...]]

FILES_: dict[str, Row] = {
    "wrong epoch": (lambda: nn.load_checkpoint("net", 7), nn.ModelNotFoundError, ("'net' has epochs 3.",)),
    "wrong prefix": (lambda: nn.load_checkpoint("ner", 3), nn.ModelNotFoundError, ("Did you mean 'net'",)),
    "a folder as prefix": (lambda: nn.load_checkpoint(".", 3), nn.ModelNotFoundError, ("is a folder", ": net.")),
    "no prefix": (lambda: nn.load_checkpoint(None, 3), SymbolTypeError, ("prefix", "NoneType")),  # type: ignore[arg-type]
    "epoch as a word": (lambda: nn.load_checkpoint("net", "best"), nn.ParamsFormatError, ("prefix-0003.params",)),
    "a prefix to load": (lambda: sym.load("net"), nn.ModelNotFoundError, ("Did you mean", "'net-symbol.json'")),
    "text to load": (lambda: sym.load(mlp().tojson()), SymbolTypeError, ("symbol.load_json",)),
    "a dict to load_json": (lambda: sym.load_json({}), SymbolTypeError, ("json.dumps",)),  # type: ignore[arg-type]
    "a page": (lambda: sym.load(written("a.json", "<html>")), nn.JSONFormatError, ("a.json", "HTML", "Download")),
    "half a file": (lambda: sym.load(half("a.json", mlp().tojson())), nn.JSONFormatError, ("a.json", "cut off")),
    "parameters as symbol": (lambda: sym.load("net-0003.params"), nn.JSONFormatError, ("load_arrays",)),
    "symbol as parameters": (lambda: nn.load_arrays("net-symbol.json"), nn.ParamsFormatError, ("symbol.load",)),
    "both swapped": (
        lambda: nn.load_model("net-0003.params", "net-symbol.json"),
        nn.JSONFormatError,
        ("net-0003.params", "MXNet's file of arrays"),
    ),
    "unknown operators": (
        lambda: sym.load_json(unknown_operators()),
        nn.JSONFormatError,
        ("Did you mean 'FullyConnected'?", "symjax_nnvm.check(file)"),
    ),
    "another model's parameters": (
        lambda: nn.load_model(written("mlp-symbol.json", mlp().tojson()), "net-0003.params"),
        nn.ParamsMismatchError,
        ("missing (4): fc1_weight, fc1_bias, fc2_weight, fc2_bias", "the file is another model"),
    ),
    "arrays in a list": (lambda: nn.match_params(mlp(), [1]), SymbolTypeError, ("by name", "zip")),  # type: ignore[arg-type]
    "half of the parameters": (
        lambda: nn.match_params(mlp(), {"fc1_weight": arrays()["fc1_weight"]}).raise_if_incomplete(),
        nn.ParamsMismatchError,
        ("missing (3): fc1_bias, fc2_weight, fc2_bias", "lowering.init_params"),
    ),
    "another number of classes": (
        lambda: nn.match_params(mlp(10), arrays(4)).raise_if_incomplete(),
        nn.ParamsMismatchError,
        ("wrong shape: fc2_weight: (4, 8), expected (10, 8)", "symjax_nnvm.replace_head"),
    ),
    "saved in a list": (
        lambda: nn.save_checkpoint("new", 0, mlp(), [np.ones(3)], {}),  # type: ignore[arg-type]
        SymbolTypeError,
        ("args are arrays by name",),
    ),
}

SYMBOLS: dict[str, Row] = {
    "an operator misspelt": (lambda: sym.Convolutoin, AttributeError, ("Did you mean symbol.Convolution or",)),
    "another group's": (lambda: sym.box_nms, AttributeError, ("symbol.contrib.box_nms",)),
    "no group's": (lambda: sym.contrib.Convolution, AttributeError, ("Did you mean symbol.Convolution?",)),  # type: ignore
    "in a group": (lambda: sym.contrib.boxnms, AttributeError, ("symbol.contrib.box_nms",)),  # type: ignore
    "Keras' name": (lambda: sym.Dense, AttributeError, ("symbol.FullyConnected",)),
    "PyTorch's name": (lambda: sym.Conv2d, AttributeError, ("symbol.Convolution",)),
    "an operator by text": (lambda: nn.Op.get("Convolutoin"), nn.OpNotRegisteredError, ("'Convolution'",)),
    "a parameter": (lambda: sym.Convolution(X, num_filters=3), nn.ParamError, ("Did you mean 'num_filter'?",)),  # type: ignore
    "an input": (lambda: sym.FullyConnected(X, wieght=X, num_hidden=3), nn.ComposeError, ("Did you mean 'weight'?",)),  # type: ignore
    "a choice": (lambda: sym.Activation(X, act_type="rleu"), nn.ParamError, ("Did you mean 'relu'?",)),  # type: ignore
    "a parameter left out": (lambda: sym.FullyConnected(X), nn.ParamError, ("Pass num_hidden=.",)),  # type: ignore
    "an array as input": (
        lambda: sym.FullyConnected(np.zeros((200, 3)), num_hidden=3),  # type: ignore[arg-type]
        SymbolTypeError,
        ("an array of shape (200, 3)", "symbol.Variable(name)"),
    ),
    "a list of inputs": (lambda: sym.concat([X, X]), SymbolTypeError, ("op(*symbols)",)),  # type: ignore[arg-type]
    "an array added": (lambda: X + np.zeros(3), SymbolTypeError, ("symbol.Variable(name)",)),
    "the shape of a symbol": (lambda: X.shape, AttributeError, ("infer_shape",)),  # type: ignore[attr-defined]
    "a method": (lambda: X.list_argument(), AttributeError, ("'list_arguments'",)),  # type: ignore[attr-defined]
    "an output inside": (lambda: mlp()["fc1"], SymbolValueError, ("symjax_nnvm.cut(symbol, name)",)),
    "an argument": (lambda: mlp().infer_shape(dta=(1, 3)), nn.InferenceError, ("Did you mean 'data'?",)),
    "of a thousand": (lambda: many(1000)(y=X), nn.ComposeError, ("… (1000 in all)",)),
}

CHECK_AND_SURGERY: dict[str, Row] = {
    "shapes without names": (lambda: nn.check(mlp(), (1, 3)), SymbolTypeError, ("{'data': (1, 3,",)),  # type: ignore[arg-type]
    "a number as shape": (lambda: nn.check(mlp(), {"data": 3}), SymbolTypeError, ("(5,)",)),  # type: ignore[dict-item]
    "an array as shape": (
        lambda: nn.summarize(mlp(), {"data": np.zeros((2, 3))}),  # type: ignore[dict-item]
        SymbolTypeError,
        ("array.shape",),
    ),
    "a shape's name": (lambda: nn.check(mlp(), {"dta": (1, 3)}), SymbolValueError, ("Did you mean 'data'?",)),
    "a dtype": (lambda: nn.check(mlp(), dtypes={"data": "flaot32"}), SymbolValueError, ("Did you mean 'float32'",)),
    "a number to check": (lambda: nn.check(3), SymbolTypeError, ("the path of a symbol file",)),  # type: ignore[arg-type]
    "a file to summarize": (lambda: nn.summarize("net-symbol.json"), SymbolTypeError, ("symbol.load(path)",)),  # type: ignore[arg-type]
    "a file to plot": (lambda: nn.plot_network("net-symbol.json"), SymbolTypeError, ("symbol.load(path)",)),  # type: ignore[arg-type]
    "a drawing's suffix": (lambda: nn.plot_network(mlp()).save("a.jpg"), nn.NNVMError, ("expected .dot, .gv, .svg",)),
    "an output to cut at": (lambda: nn.cut(mlp(), "fc3"), SymbolValueError, ("Did you mean 'fc2' or 'fc1'",)),
    "a symbol to cut at": (lambda: nn.cut(mlp(), mlp()), SymbolTypeError, ("list_outputs()",)),  # type: ignore[arg-type]
    "a file to cut": (lambda: nn.cut("net", "fc1"), SymbolTypeError, ("symbol.load(path)",)),  # type: ignore[arg-type]
    "a head": (lambda: nn.replace_head(mlp(), "relu1", X), SymbolTypeError, ("lambda features:",)),  # type: ignore[arg-type]
    "no head": (lambda: nn.replace_head(mlp(), "relu1", print), SymbolTypeError, ("`return`",)),  # type: ignore[arg-type]
    "where a head goes": (
        lambda: nn.replace_head(mlp(), "relu_1", sym.Flatten),
        SymbolValueError,
        ("Did you mean 'relu1'",),
    ),
    "what to rename": (lambda: nn.rename(mlp(), {"fc_1": "a"}), SymbolValueError, ("Did you mean 'fc1'?",)),
    "a name to rename": (lambda: nn.rename(mlp(), "fc1"), SymbolTypeError, ("{'fc1': 'head'}",)),  # type: ignore[arg-type]
    "a pattern": (lambda: nn.freeze(mlp(), "conv*"), SymbolValueError, ("arguments are data, fc1_weight",)),
    "a frozen name": (lambda: nn.freeze(mlp(), "fc1_wieght"), SymbolValueError, ("mean 'fc1_weight'",)),
    "a batch in text": (lambda: nn.set_batch_size(fixed_batch(), "8"), SymbolValueError, ("whole number",)),  # type: ignore[arg-type]
    "an old batch": (
        lambda: nn.set_batch_size(fixed_batch(), 8, old=5),
        SymbolValueError,
        ("No batch size 5", "Reshape flat: shape=(32, -1)"),
    ),
}

MISTAKES = FILES_ | SYMBOLS | CHECK_AND_SURGERY


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("net-symbol.json", "net-0003.params"):
        shutil.copy(FILES / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("what", MISTAKES)
def test_the_message_holds_the_way_out(what: str, here: Path):
    mistake, kind, words = MISTAKES[what]
    with pytest.raises(kind) as error:
        mistake()
    text = str(error.value)
    assert not [word for word in words if word not in text], text
    assert len(text) < 900, text


COMMANDS: dict[str, tuple[list[str], tuple[str, ...]]] = {
    "a model misspelt": (["inspect", "nte"], ("Did you mean 'net'?",)),
    "an epoch": (["inspect", "net", "--epoch", "4"], ("'net' has epochs 3.",)),
    "a folder": (["inspect", "."], ("is a folder", ": net.")),
    "a shape's name": (["inspect", "net", "--shape", "dta=1,1,8,8"], ("Did you mean 'data'?",)),
    "an input's name": (["run", "net", "dta=zeros", "--shape", "data=1,1,8,8"], ("Did you mean 'data'?",)),
    "an array's file": (["run", "net", "data=net.npy", "--shape", "data=1,1,8,8"], ("No such file: net.npy", "In /")),
    "an argument": (["verify", "net", "--shape", "data=1,1,8,8", "--wrt", "fc_wieght"], ("Did you mean 'fc_weight'",)),
    "ONNX": (["convert", "net", "m.onnx"], ("shape of the input 'data'", "--shape data=batch")),
    "a suffix": (["convert", "net", "m.pt"], (".pt is not a format", ".stablehlo", "--to")),
    "MXNet's suffix": (["convert", "net", "m.params"], ("m-symbol.json", "m-0000.params")),
    "an option": (["run", "net", "--tpok", "3"], ("unrecognized arguments: --tpok", "usage: symjax-nnvm")),
}


@pytest.mark.parametrize("what", COMMANDS)
def test_the_commands_message_holds_the_way_out(what: str, here: Path, capsys: pytest.CaptureFixture[str]):
    line, words = COMMANDS[what]
    before = sorted(here.iterdir())
    with pytest.raises(SystemExit) as stop:
        raise SystemExit(main(line))
    assert stop.value.code == 2
    text = capsys.readouterr().err
    assert not [word for word in words if word not in text], text
    assert sorted(here.iterdir()) == before


def test_a_name_that_ends_in_a_version_is_a_prefix(here: Path):
    assert main(["convert", "net", "mobilenet1.0"]) == 0
    assert (here / "mobilenet1.0-symbol.json").is_file()


def test_check_tells_of_a_hard_coded_batch():
    report = nn.check(fixed_batch(), {"data": (32, 5)})
    (problem,) = (problem for problem in report.problems if problem.kind == "batch size")
    assert report.ok
    assert (problem.severity, problem.nodes, problem.op) == ("note", ("flat",), "Reshape")
    assert "symjax_nnvm.set_batch_size(symbol, n)" in str(report)
    assert not [p for p in nn.check(mlp(), {"data": (32, 5)}).problems if p.kind == "batch size"]


def test_a_mistake_in_the_names_does_not_bring_python_to_its_knees():
    assert not hasattr(X, "shape")
    assert not hasattr(sym, "__wrapped__")
    assert getattr(X, "_nothing", None) is None
