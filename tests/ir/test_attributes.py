"""The catalogue of operator attributes: a key that is used anywhere is declared, once, with its meaning."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.import_graph import ROOT, modules

KEY = re.compile(r"[FT][A-Z][a-z]\w+")
DECLARED_IN = ("symjax_nnvm/ir/", "symjax_nnvm/flops.py")
"""Where keys are declared: the catalogue, ir/attributes.py, and files that have the types of their values."""


def declared(tree: ast.Module) -> Iterator[str]:
    """Keys that a module declares: `KEY: OpMap[...] = Op.get_attr("KEY")`, and a docstring below."""
    for node, below in zip(tree.body, [*tree.body[1:], None], strict=True):
        match node, below:
            case (
                ast.AnnAssign(
                    target=ast.Name(id=name),
                    annotation=ast.Subscript(value=ast.Name(id="OpMap")),
                    value=ast.Call(func=ast.Attribute(attr="get_attr"), args=[ast.Constant(value=key)]),
                ),
                ast.Expr(value=ast.Constant(value=str())),
            ):
                assert name == key, f"the table of {key} is called {name}"
                yield name


def used(tree: ast.AST) -> set[str]:
    """Keys that a module sets or asks for: as a text of their own, or as keywords (of `register_op`)."""
    texts = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    texts |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.keyword) and n.arg is not None}
    return {text for text in texts if KEY.fullmatch(text)}


@cache
def trees() -> dict[Path, ast.Module]:
    """The modules in whose text a key may stand."""
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path in modules().values()}
    return {
        path: ast.parse(text)
        for path, text in texts.items()
        if re.search(r"""["'][FT][A-Z][a-z]|\b[FT][A-Z][a-z]\w+=""", text)
    }


@pytest.mark.slow("computes much")
def test_a_key_is_declared_once():
    places = {path: list(declared(tree)) for path, tree in trees().items()}
    assert [(path, keys) for path, keys in places.items() if keys and not str(path).startswith(DECLARED_IN)] == []
    counts = Counter(key for keys in places.values() for key in keys)
    assert [key for key, count in counts.items() if count > 1] == []
    assert {"FGradient", "FInferShape", "FLowering", "THasDeterministicOutput"} <= counts.keys()


@pytest.mark.slow("computes much")
def test_a_key_that_is_used_is_declared():
    found = trees()
    known = {key for tree in found.values() for key in declared(tree)}
    assert {str(path): sorted(used(tree) - known) for path, tree in found.items() if used(tree) - known} == {}


def test_a_misspelt_key_is_found():
    tree = ast.parse(
        'A: OpMap[int] = Op.get_attr("A")\nop.set_attr("FGradeint", f)\nregister_op("x", TIsBackwards=True)'
    )
    assert used(tree) == {"FGradeint", "TIsBackwards"}
    assert list(declared(tree)) == []  # without a docstring
