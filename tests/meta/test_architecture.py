"""The imports keep to docs/internals/layers.txt, and data take the ways that docs/internals/architecture.md tells."""

import ast
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType

import jax
import numpy as np
import pytest

import lowering
import lowering.training  # before what is called is listed
import symjax_nnvm as nn
from symjax_nnvm import symbol as sym
from tests.support.import_graph import (
    PACKAGES,
    ROOT,
    all_imports,
    cycle,
    foreign_privates,
    imports_of,
    layers,
    modules,
    parsed,
    unused,
)

PAGE = (ROOT / "docs" / "internals" / "architecture.md").read_text(encoding="utf-8")
MODULES = modules()
LAYERS: dict[str, list[list[str]]] = {package: [names for names, _ in rows] for package, rows in layers().items()}
"""Package → its layers in docs/internals/layers.txt, the highest first: the files and folders of each."""

MUTUAL = {
    ("symjax_nnvm.ir.op", "symjax_nnvm.ir.node"),
    ("symjax_nnvm.ir.op", "symjax_nnvm.ir.params"),
    ("symjax_nnvm.ir.attributes", "symjax_nnvm.ir.node"),
}
"""(module, module that it names for types alone): a node has an operator, and an operator's functions take nodes."""


TEXTS = {str(path): (ROOT / path).read_text(encoding="utf-8") for path in MODULES.values()}


@pytest.fixture(scope="module", autouse=True)
def trees() -> Iterator[None]:
    """Each module is parsed once for all tests, and forgotten."""
    yield
    parsed.cache_clear()


def layer(module: str) -> int:
    """How high a module stands; `lowering` stands on all of `symjax_nnvm`."""
    path = MODULES[module]
    package, *rest = path.parts
    rows = LAYERS[package]
    entries = ["/".join(rest), *(f"{'/'.join(rest[:depth])}/" for depth in range(len(rest) - 1, 0, -1))]
    found = [[i for i, row in enumerate(rows) if entry in row] for entry in entries]
    own = next((places for places in found if places), [])
    assert len(own) == 1, f"{path} must stand once in docs/internals/layers.txt"
    return len(rows) - own[0] + 1000 * PACKAGES.index(package)


def test_every_module_has_its_layer():
    assert all(layer(module) for module in MODULES)


@pytest.mark.slow("computes much")
def test_every_module_says_what_it_is_for():
    assert [path for path, text in TEXTS.items() if not ast.get_docstring(parsed(text)[0])] == []


def test_every_entry_of_the_layers_is_there():
    names = [ROOT / package / entry for package, rows in LAYERS.items() for row in rows for entry in row]
    assert [path for path in names if not path.exists()] == []


@pytest.mark.slow("reads all sources")
def test_imports_point_downwards():
    """Those for types alone, too."""
    upwards = {(found.source, found.target) for found in all_imports() if layer(found.target) > layer(found.source)}
    assert upwards == set()


@pytest.mark.slow("reads the whole project")
def test_no_import_closes_a_cycle():
    """Nor does one for types alone, but for those of nodes and operators."""
    edges: dict[str, set[str]] = {}
    for found in all_imports():
        if not found.typing or (found.source, found.target) not in MUTUAL:
            edges.setdefault(found.source, set()).add(found.target)
    assert cycle(edges) == []
    assert {(found.source, found.target) for found in all_imports() if found.typing} >= MUTUAL


@pytest.mark.slow("computes much")
def test_no_package_names_what_is_private_to_another():
    assert foreign_privates(TEXTS) == []


def test_a_foreign_private_name_is_found():
    texts = {
        "a/one.py": "from b.two import _x\ny._other\nz._replace",
        "a/three.py": "class T:\n    __slots__ = ('_slot',)",
    }
    assert foreign_privates({**texts, "b/two.py": "_x = 1\ndef f(o):\n    return o._slot"}) == [
        "a/one.py: _x",
        "a/one.py: _other",
        "b/two.py: _slot",
    ]
    assert foreign_privates({"a/one.py": "t._slot = 1", "a/two.py": "from a.one import _slot\nt._slot"}) == []


@pytest.mark.slow("computes much")
def test_nothing_is_left_that_nobody_uses():
    others = [p for folder in ("tests", "examples", "benchmarks", "docs") for p in (ROOT / folder).rglob("*.py")]
    assert unused(TEXTS, "".join(path.read_text() for path in others)) == []


@pytest.mark.slow("computes much")
def test_tables_of_cases_hold_no_names_that_nothing_reads():
    texts = {str(path): path.read_text() for path in (ROOT / "tests" / "cases").rglob("*.py")}
    assert unused(texts, "CASES") == []


def test_a_name_that_nobody_uses_is_found():
    texts = {
        "a/one.py": "X = 1\nclass Y: ...\n@made\ndef f(): ...\ndef g(): return Z",
        "a/two.py": "from b import X\nZ = 2",
    }
    assert unused(texts) == ["a/one.py: Y", "a/one.py: g", "a/two.py: Z"]
    assert unused(texts, "Y g Z") == []


def test_no_import_of_ours_hides_in_a_function():
    assert [f"{found.source} → {found.target}" for found in all_imports() if found.late] == []


def test_the_import_graph_is_read_right():
    text = """
import lowering.ops.dual
from symjax_nnvm import graph, symbol
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from lowering.core.program import Program
else:
    import lowering.ops
def f():
    from symjax_nnvm.errors import explain
"""
    found = {(i.target, i.typing, i.late) for i in imports_of("here", text, MODULES)}
    assert found == {
        *(
            ("lowering.ops.dual", False, False),
            ("symjax_nnvm.graph", False, False),
            ("symjax_nnvm.symbol", False, False),
        ),
        *(("lowering.core.program", True, False), ("lowering.ops", False, False), ("symjax_nnvm.errors", False, True)),
    }
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert cycle({"a": {"b", "c"}, "b": {"c"}}) == []


# -- the ways through the house ------------------------------------------------------------------------------------


def a_symbols_life(folder: Path) -> None:
    net = sym.FullyConnected(sym.Variable("x"), num_hidden=2, name="fc")
    arrays = {"x": np.ones((1, 3)), "fc_weight": np.ones((2, 3)), "fc_bias": np.zeros(2)}
    lowering.compile(net)(arrays)


def a_files_life(folder: Path) -> None:
    symbol, args, aux = nn.load_checkpoint(ROOT / "tests" / "goldens" / "files" / "net", 3)
    nn.save_checkpoint(folder / "net", 3, symbol, args, aux)


def a_training_steps_life(folder: Path) -> None:
    net = sym.LinearRegressionOutput(sym.FullyConnected(sym.Variable("data"), num_hidden=1, name="fc"), name="loss")
    batches = lowering.training.Batches({"data": np.ones((4, 3)), "loss_label": np.ones((4, 1))}, batch_size=2)
    trainer = lowering.Trainer(net, "sgd")
    trainer.init(jax.random.key(0), data=(2, 3), loss_label=(2, 1))
    trainer.fit(batches, epochs=1, metrics=["mse"])


LIVES: dict[str, Callable[[Path], None]] = {
    "A symbol's life": a_symbols_life,
    "A file's life": a_files_life,
    "A training step's life": a_training_steps_life,
}


def files_called(function: Callable[[Path], None], folder: Path) -> list[str]:
    """The files that have a function which is called, in the order in which they are first reached."""
    codes: dict[CodeType, None] = {}

    def note(frame: FrameType, event: str, argument: object) -> None:
        codes.setdefault(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function(folder)
    finally:
        sys.setprofile(before)
    paths = dict.fromkeys(Path(code.co_filename) for code in codes)
    return [path.relative_to(ROOT).as_posix() for path in paths if path.is_relative_to(ROOT)]


@pytest.mark.slow("computes much")
@pytest.mark.parametrize("title", LIVES)
def test_data_take_the_way_that_a_life_tells(title: str, tmp_path: Path):
    """They pass through every file that it names, and its steps begin in its order."""
    told = re.split(r"^## ", PAGE.partition(f"## {title}\n")[2], flags=re.MULTILINE)[0]
    steps = [re.findall(r"`([\w/]+\.py)`", step) for step in re.split(r"^\d\. ", told, flags=re.MULTILINE)[1:]]
    assert len(steps) >= 4
    called = files_called(LIVES[title], tmp_path)
    assert [file for step in steps for file in step if file not in called] == []
    begun = [called.index(step[0]) for step in steps]
    assert begun == sorted(begun)
