"""The first sentence of a docstring has a finite verb: "Return the names …", "Holds the tables of a graph"."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import lowering
import symjax_nnvm
from tests.support.import_graph import ROOT, modules

_ELSEWHERE = re.compile(r"\.(mx|ops|imports)(\.|$)")
"""Packages whose docstrings are descriptions of operators, or of MXNet's names."""

_BEGINS = re.compile(
    r"abandon|add|adds|append|apply|ask|assign|be|begin|bind|bound|build|calculate|call|cast|change|"
    r"check|checks|choose|chooses|close|collects|compare|compile|complete|compose|compute|connect|convert|"
    r"copy|count|create|cut|declare|decode|describe|describes|draw|draws|drop|encode|end|enter|estimate|"
    r"evaluate|export|fill|fills|find|finds|fold|follow|forget|free|freeze|fuse|gather|get|give|gives|"
    r"go|group|have|hold|holds|implements|import|infer|initialise|insert|is|iterates|join|keep|keeps|"
    r"lay|leave|let|link|list|lists|load|lock|look|looks|lower|make|map|maps|match|measure|merge|"
    r"move|multiplies|name|names|nest|note|number|offers|open|order|pack|parse|parses|pass|place|plan|"
    r"plot|presents|print|prints|prove|push|put|puts|raise|read|reads|record|records|refuse|register|"
    r"remove|rename|replace|report|reports|represents|request|reshape|respell|return|rewrite|run|runs|"
    r"save|send|serve|set|show|shuffle|skip|slice|sort|split|stands|start|stop|store|substitute|sum|"
    r"summarize|take|takes|tell|tells|trace|train|trains|turn|turns|undo|unpack|update|upgrade|upsample|"
    r"use|validate|visit|wait|walk|warn|word|wrap|write|writes|yield"
)
"""Verbs that a first sentence begins with: orders of functions, statements of classes."""

_INSIDE = re.compile(
    r"are|becomes|builds|can|compares|computes|decides|depends|do|does|gets|gives|has|have|is|keeps|"
    r"makes|may|must|needs|reads|registers|reports|returns|runs|serves|sets|takes|tells|trains|was|"
    r"were|wins|words|writes"
)
"""Finite verbs inside a sentence."""

_CLAUSE = re.compile(r"that|which|who|whose|whom|where|what|how|whether|when|while|if|unless|as|than|because|since")
"""Words that begin a clause of its own, whose verb is not the sentence's."""


def has_finite_verb(docstring: str) -> bool:
    """Return whether the first sentence has one, beside those of its clauses."""
    sentence = re.split(r"\.(?:\s|$)|\n\s*\n", docstring.strip(), maxsplit=1)[0]
    plain = re.sub(r"\([^()]*\)|`[^`]*`", "X", " ".join(sentence.split()))
    words = [word.strip(".'").lower() for word in re.findall(r"[A-Za-z_'.]+", plain)]
    if words and _BEGINS.fullmatch(words[0]) and words[1:2] != ["of"]:
        return True
    clause = next((i for i, word in enumerate(words) if _CLAUSE.fullmatch(word)), len(words))
    return any(_INSIDE.fullmatch(word) for word in words[:clause])


def _packages() -> Iterator[str]:
    for root in (symjax_nnvm, lowering):
        yield root.__name__
        yield from (each.name for each in pkgutil.walk_packages(root.__path__, f"{root.__name__}.") if each.ispkg)


def public() -> Iterator[tuple[str, Any]]:
    """The packages, what their `__init__` files export, and the public methods of exported classes."""
    for name in _packages():
        if _ELSEWHERE.search(name):
            continue
        package = importlib.import_module(name)
        yield name, package
        for short, member in vars(package).items():
            if short[0] == "_" or not (inspect.isfunction(member) or inspect.isclass(member)):
                continue
            module = member.__module__ or ""
            if not module.startswith(("symjax_nnvm", "lowering")) or module.endswith(".functions"):
                continue
            yield f"{name}.{short}", member
            for key, value in vars(member).items() if inspect.isclass(member) else ():
                method = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
                if key[0] != "_" and inspect.isfunction(method) and method.__doc__:
                    yield f"{name}.{short}.{key}", method


def defined(node: ast.AST, hidden: bool = False) -> Iterator[tuple[Any, bool]]:
    """Yield the functions and classes in a syntax tree, and whether each is private or inside what is."""
    for child in ast.iter_child_nodes(node):
        inner = hidden
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            private = hidden or (child.name[0] == "_" and child.name[:2] != "__")
            yield child, private
            inner = private or not isinstance(child, ast.ClassDef)
        yield from defined(child, inner)


def written() -> Iterator[tuple[str, str]]:
    """Yield the docstrings in all modules by their place; of those of `_ELSEWHERE` private and inner ones alone."""
    for name, path in modules().items():
        if name.startswith("symjax_nnvm.ops."):
            continue  # rules, whose docstrings are formulas for the operators' page
        for node, private in defined(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
            docstring = ast.get_docstring(node)
            if docstring and (private or not _ELSEWHERE.search(name)):
                yield f"{path}:{node.lineno} {node.name}", docstring


def test_first_sentences_have_a_finite_verb():
    members = {id(member): (name, member) for name, member in public()}
    assert len(members) > 400
    assert [name for name, member in members.values() if not has_finite_verb(member.__doc__ or "")] == []


def test_first_sentences_have_a_finite_verb_in_private_too():
    docstrings = dict(written())
    assert sum(" _" in place for place in docstrings) > 500
    assert [place for place, docstring in docstrings.items() if not has_finite_verb(docstring)] == []


def test_noun_phrases_are_told_from_sentences():
    for sentence in ("Return the names.", "Holds the tables.", "This package has passes.", "`check` reports all."):
        assert has_finite_verb(sentence)
    for phrase in ("The names of those that are trained.", "Whether it is one.", "Names of outputs.", "A graph."):
        assert not has_finite_verb(phrase)
