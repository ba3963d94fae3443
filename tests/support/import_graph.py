"""The import graph of the two packages, read from their source: who names whom, where, and whether for types alone."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES: tuple[str, ...] = ("symjax_nnvm", "lowering")


@dataclass(frozen=True)
class Import:
    """One import of one of our modules by another. typing: under `if TYPE_CHECKING`. late: inside a function."""

    source: str
    target: str
    typing: bool
    late: bool


NAMEDTUPLES = frozenset({"_asdict", "_fields", "_make", "_replace"})
"""Public names of Python's with an underscore."""


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules() -> dict[str, Path]:
    """Every module of both packages → its file, relative to the project's root."""
    files = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    return {_name(path): path.relative_to(ROOT) for path in files}


def layers() -> dict[str, list[tuple[list[str], str]]]:
    """Package → its layers in docs/internals/layers.txt, the highest first: files and folders of each, and its duty."""
    text = (ROOT / "docs" / "internals" / "layers.txt").read_text(encoding="utf-8")
    packages: dict[str, list[tuple[list[str], str]]] = {}
    for package, block in re.findall(r"^(\w+)\n((?: {4}\S.*\n)+)", text, re.MULTILINE):
        rows = (re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in block.splitlines())
        packages[package] = [(names.split(", "), about) for names, about in rows]
    return packages


def imports_of(source: str, text: str, known: dict[str, Path]) -> list[Import]:
    """The imports of known modules in a module's text. Raises ValueError for a relative one, which we never write."""

    def targets(node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise ValueError(f"{source} has a relative import in line {node.lineno}")
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                yield submodule if submodule in known else str(node.module)

    def walk(node: ast.AST, typing: bool, late: bool) -> Iterator[Import]:
        yield from (Import(source, target, typing, late) for target in targets(node) if target in known)
        guarded = isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        late = late or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                continue  # no import is in one
            yield from walk(child, typing or (guarded and child in node.body), late)  # pyright: ignore

    return list(walk(parsed(text)[0], False, False))


@cache
def parsed(text: str) -> tuple[ast.Module, list[ast.AST]]:
    """A module's tree, and all of its nodes: `parsed.cache_clear()` lets go of them."""
    tree = ast.parse(text)
    return tree, list(ast.walk(tree))


@cache
def all_imports() -> list[Import]:
    """Every import of one of our modules by another."""
    known = modules()
    return [found for name, path in known.items() for found in imports_of(name, (ROOT / path).read_text(), known)]


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in NAMEDTUPLES


def _made_in(nodes: list[ast.AST]) -> set[str]:
    """The names that a module gives to something: what it defines, assigns, imports under another name, or spells out
    (`__slots__`)."""
    made: set[str] = set()
    for node in nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                made.add(name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                made.add(name)
            case ast.Constant(value=str(name)) | ast.alias(asname=str(name)):
                made.add(name)
    return made


def foreign_privates(texts: dict[str, str]) -> list[str]:
    """`module: name` of each _private name that a module imports, or asks an object for, and that no module of its own
    folder makes. texts: module path, `folder/file.py` → source."""
    modules = {Path(path): parsed(text)[1] for path, text in texts.items()}
    made: dict[Path, set[str]] = {}
    for path, nodes in modules.items():
        made.setdefault(path.parent, set()).update(_made_in(nodes))
    found = []
    for path, nodes in modules.items():
        for node in nodes:
            names = [node.attr] if isinstance(node, ast.Attribute) else []
            if isinstance(node, ast.ImportFrom):
                names = [alias.name for alias in node.names]
            foreign = [name for name in names if _is_private(name) and name not in made[path.parent]]
            if foreign and ast.unparse(node) != "os._exit":  # Python documents it
                found += [f"{path}: {name}" for name in foreign]
    return found


def unused(texts: dict[str, str], elsewhere: str = "") -> list[str]:
    """`module: name` of what a module defines at its top and nothing uses: neither it nor another module, nor the text
    of elsewhere. What a decorator takes is used by it; so is what a package's `__init__` makes. texts: as above."""
    modules = {Path(path): parsed(text) for path, text in texts.items()}
    loaded = {path: {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
              for path, (_, nodes) in modules.items()}  # fmt: skip
    asked = set(re.findall(r"\w+", elsewhere))
    for _, nodes in modules.values():
        asked.update(node.attr for node in nodes if isinstance(node, ast.Attribute))
        asked.update(a.name for node in nodes if isinstance(node, ast.ImportFrom) for a in node.names)
    found = []
    for path, (tree, _) in modules.items():
        for node in tree.body if path.name != "__init__.py" else []:
            match node:
                case ast.FunctionDef(name=name, decorator_list=[]) | ast.ClassDef(name=name, decorator_list=[]):
                    names = [name]
                case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                    names = [name] if not name.startswith("__") else []
                case _:
                    names = []
            found += [f"{path}: {name}" for name in names if name not in loaded[path] and name not in asked]
    return found


def cycle(edges: dict[str, set[str]]) -> list[str]:
    """The modules on a cycle of a graph, in order; empty when there is none."""
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> list[str]:
        if name in trail:
            return [*trail[trail.index(name) :], name]
        if name in done:
            return []
        found = next((c for target in sorted(edges.get(name, ())) if (c := visit(target, (*trail, name)))), [])
        done.add(name)
        return found

    return next((found for name in sorted(edges) if (found := visit(name, ()))), [])
