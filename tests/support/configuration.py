"""Conditions on configuration in the source (devices, platforms, JAX's options, the environment), and which of their
two outcomes tests see: `python -m pytest -p tests.support.configuration …` writes them to the file `OUTCOMES` names."""

import ast
import builtins
import importlib.machinery
import json
import os
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

ROOT = Path(__file__).parents[2]
PACKAGES = ("lowering", "symjax_nnvm")
OUTCOMES = "TESTS_OUTCOMES_OF_CONDITIONS"

READS = {
    *("jax.default_backend", "jax.device_count", "jax.devices", "jax.local_devices", "jax.process_count", "jax.config"),
    *("os.cpu_count", "os.environ", "os.name", "os.sched_getaffinity", "sys.executable", "sys.flags", "sys.platform"),
    *("platform.machine", "platform.system"),
}
"""What reads the configuration of a process or a machine."""


def sources() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


_ENDS = {name.rpartition(".")[2] for name in READS}


def _reads_directly(tree: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Attribute) and node.attr in _ENDS and ast.unparse(node) in READS for node in ast.walk(tree)
    )


@cache
def accessors() -> frozenset[str]:
    """Functions of the source that return what they read, with nothing else: `is_wide`, `cpu_streams.count`."""
    trees = (_parsed(path) for path in sources() if any(name in path.read_text(encoding="utf-8") for name in READS))
    functions = (n for tree in trees for n in ast.walk(tree) if isinstance(n, ast.FunctionDef))
    return frozenset(
        function.name
        for function in functions
        if isinstance(function.body[-1], ast.Return)
        and all(isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) for line in function.body[:-1])
        and _reads_directly(function.body[-1])
        and not function.args.args
    )


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _reads(tree: ast.AST) -> bool:
    """Whether an expression asks for configuration, by itself or by an accessor."""
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call) and not node.args)
    names = {call.id if isinstance(call, ast.Name) else getattr(call, "attr", "") for call in calls}
    return _reads_directly(tree) or not names.isdisjoint(accessors())


class _Recording(ast.NodeTransformer):
    """Has each condition on configuration report its outcome: comparisons, tests, operands of `and`, `or` and `not`,
    and values that are nothing but what was read. conditions: their names, as `file: condition`."""

    def __init__(self, file: str):
        self.file = file
        self.conditions: list[str] = []

    def _recorded(self, condition: ast.expr, key: ast.expr | None = None) -> Any:
        """key: of the environment, if the outcome is whether it is there."""
        if isinstance(condition, ast.BoolOp | ast.UnaryOp) or not _reads(condition):
            return self.visit(condition)
        name = f"{self.file}: {ast.unparse(condition)}"
        self.conditions.append(name)
        words = [] if key is None else [ast.keyword("key", key)]
        call = ast.Call(ast.Name("_outcome_of_condition", ast.Load()), [ast.Constant(name), condition], words)
        return ast.copy_location(call, condition)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        *others, last = node.values
        node.values = [*map(self._recorded, others), self.visit(last)]  # of a last value nothing hangs on the outcome
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        node.operand = self._recorded(node.operand) if isinstance(node.op, ast.Not) else self.visit(node.operand)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        return self._recorded(node) if _reads(node) else self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST:
        node.test = self._recorded(node.test)
        for rows in (node.body, node.orelse):
            rows[:] = map(self.visit, rows)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        node.test, node.body, node.orelse = self._recorded(node.test), self.visit(node.body), self.visit(node.orelse)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        is_option = isinstance(node.value, ast.Attribute) and ast.unparse(node.value) == "jax.config"
        return self._recorded(node) if is_option and node.attr not in ("read", "update") else self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        called = ast.unparse(node.func)
        if called in ("jax.config.read", "os.environ.get") or (called == "getattr" and _reads_directly(node.args[0])):
            return self._recorded(node, node.args[0] if called == "os.environ.get" and len(node.args) == 2 else None)
        return self.generic_visit(node)


def recording(path: Path) -> tuple[ast.Module, list[str]]:
    """The tree of a file that reports outcomes, and the conditions in it."""
    transformer = _Recording(str(path.relative_to(ROOT)))
    tree = ast.fix_missing_locations(transformer.visit(ast.parse(path.read_text(encoding="utf-8"))))
    return tree, transformer.conditions


def _may_have_conditions(path: Path) -> bool:
    text = path.read_text(encoding="utf-8")
    return any(word in text for word in (*READS, *(f"{name}()" for name in accessors())))


def conditions() -> Iterator[str]:
    """All conditions on configuration in the source."""
    for path in sources():
        if _may_have_conditions(path):
            yield from recording(path)[1]


# -- as a plugin -------------------------------------------------------------------------------------------------------

_seen: dict[str, set[bool]] = {}


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType | None:
        path = Path(self.path)
        if not _may_have_conditions(path):
            return super().get_code(fullname)
        return compile(recording(path)[0], self.path, "exec", dont_inherit=True)


class _Finder(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, fullname: str, path: Sequence[str] | None = None, target: object = None):
        spec = super().find_spec(fullname, path) if fullname.partition(".")[0] in PACKAGES else None
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def pytest_sessionfinish() -> None:
    rows = {name: sorted(outcomes) for name, outcomes in _seen.items()}
    Path(os.environ[OUTCOMES]).write_text(json.dumps(rows), encoding="utf-8")


if OUTCOMES in os.environ:

    def _outcome_of_condition(name: str, value: object, key: str | None = None) -> object:
        _seen.setdefault(name, set()).add(bool(value) if key is None else key in os.environ)
        return value

    builtins._outcome_of_condition = _outcome_of_condition  # pyright: ignore[reportAttributeAccessIssue]
    sys.meta_path.insert(0, _Finder)
