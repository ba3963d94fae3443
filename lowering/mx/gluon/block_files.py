"""`Block.save` and `Block.load`: the tree of blocks as JSON, with the graphs that were traced."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

from lowering.mx import symbol as sym
from lowering.mx.gluon.gluon_errors import MismatchError
from symjax_nnvm.io.files import read_bounded, write_file

_LIMIT = 1 << 28
"""Bytes of a file with a tree."""


def save_tree(block: Any, path: str) -> None:
    """Write the tree: each block under its class and number, with its name, its graph and its children's names."""
    write_file(path, json.dumps(_described(block, itertools.count())))


def load_tree(block: Any, path: str) -> None:
    """Give a block and its children, in their order, the names and the graphs of a file. Raises MismatchError where the
    file is of another tree, FileError."""
    tree = json.loads(read_bounded(path, _LIMIT, "a tree of blocks"))
    _restore(block, tree, itertools.count(), path)


def _described(block: Any, numbers: Iterator[int]) -> dict[str, Any]:
    facts: dict[str, Any] = {"orig_name": block.name}
    key = f"{type(block).__name__.lower()}{next(numbers)}"
    graph = getattr(block, "_cached_graph", None)
    if graph is not None:
        facts["hybridized"] = bool(graph)
    if graph:
        facts |= {"in_format": block._in_format, "out_format": block._out_format}
        facts |= {"inputs": [variable.tojson(False) for variable in graph[0]], "symbol": graph[1].tojson(False)}
    facts["children"] = {child.name: name for name, child in block._children.items()}
    for child in block._children.values():
        facts |= _described(child, numbers)
    return {key: facts}


def _restore(block: Any, tree: Any, numbers: Iterator[int], path: str) -> None:
    key = f"{type(block).__name__.lower()}{next(numbers)}"
    facts = tree.get(key) if isinstance(tree, dict) else None
    if not isinstance(facts, dict) or len(facts.get("children", ())) != len(block._children):
        problem = f"{path} was saved from another network: it has no {key} with {len(block._children)} children"
        raise MismatchError(problem, fix="Build the network with the code that built the saved one.")
    before = f"{block.name}_"
    block._name = facts["orig_name"]
    params = block.params._params
    renamed = {f"{block.name}_{name.removeprefix(before)}": param for name, param in params.items()}
    params.clear()
    params.update(renamed)
    if facts.get("hybridized"):
        block._in_format, block._out_format = facts["in_format"], facts["out_format"]
        block._cached_graph = [sym.load_json(text) for text in facts["inputs"]], sym.load_json(facts["symbol"])
        block._active = True
    children = list(block._children.values())
    for child in children:
        _restore(child, facts, numbers, path)
    block._children.clear()
    block._children.update({facts["children"][child.name]: child for child in children})
