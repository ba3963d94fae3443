"""Write the generated files: `TARGETS` lists them.

The operator registry gives the page of operators, the stub that editors read and the number of operators on other
pages. The list of stages and `docs/internals/layers.txt` give the pictures of `docs/internals/architecture.md`. The
table of `docs/reference/benchmarks.md` gives its chart.

Run from the project's root after changing one of them: `python docs/tools/generate.py`. The suite fails while a file
is old.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
import types
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

import symjax_nnvm.symbol as sym  # noqa: E402
from docs.web.charts import zoo_chart  # noqa: E402
from symjax_nnvm.ir.attributes import FGradient, FLossEquivalent, TFileName, TMadeBy, TOwn  # noqa: E402
from symjax_nnvm.ir.op import Op, list_unique_ops  # noqa: E402
from symjax_nnvm.ir.params import ParamField  # noqa: E402
from symjax_nnvm.onnx.export import OPSET  # noqa: E402
from symjax_nnvm.onnx.writer import form_of  # noqa: E402
from symjax_nnvm.pipeline import STAGES  # noqa: E402
from symjax_nnvm.symbol.namespaces import Namespace  # noqa: E402
from symjax_nnvm.symbol.operator_functions import SCALAR_FUNCTIONS  # noqa: E402
from tests.cases import Case, families  # noqa: E402
from tests.meta.test_coverage import NO_CASES, NOT_DIFFERENTIABLE  # noqa: E402
from tests.support.import_graph import PACKAGES, layers  # noqa: E402

TARGETS = {
    "docs/reference/operators.md": "operators_page",
    "symjax_nnvm/symbol/__init__.pyi": "stub",
    "README.md": "readme",
    "CHANGELOG.md": "changelog",
    "docs/internals/architecture.md": "architecture",
    "docs/pictures/zoo.svg": zoo_chart.__name__,
}
"""File → the function below that makes its text."""


MXNET = frozenset(json.loads((ROOT / "tests" / "goldens" / "schemas.json").read_text(encoding="utf-8")))
"""The names of MXNet 1.9.1's operators, without its NumPy dialect's and those it makes for itself."""


def public_operators() -> list[Op]:
    """Every operator that a user may name, in the order of their names."""
    named = [op for op in list_unique_ops() if not op.name.startswith(("_backward_", "_test_", "Custom:"))]
    return sorted(named, key=lambda op: op.name)


def of_mxnet(op: Op) -> bool:
    """Whether MXNet 1.9.1 has the operator. What it has not, our gradient rules are written with."""
    return TFileName.get(op, op.name) in MXNET


def is_own(op: Op) -> bool:
    """Whether an operator's card says that MXNet 1.9.1 lacks it."""
    return TOwn.get(op, False)


def mxnet_count() -> str:
    """How many operators of MXNet are here, in the words of every page."""
    return f"{len({TFileName.get(op, op.name) for op in public_operators()} & MXNET)} operators of MXNet 1.9.1"


def _renumbered(path: str) -> str:
    """A page with the number of operators that is true now. Raises ValueError where it tells none."""
    text, found = re.subn(
        r"\d+ operators of MXNet 1\.9\.1",
        mxnet_count(),
        (ROOT / path).read_text(encoding="utf-8"),
    )
    if not found:
        raise ValueError(f"{path} does not say how many operators there are")
    return text


def readme() -> str:
    """README.md, its number of operators current."""
    return _renumbered("README.md")


def changelog() -> str:
    """CHANGELOG.md, its number of operators current."""
    return _renumbered("CHANGELOG.md")


# -- docs/internals/architecture.md ------------------------------------------------------------------------------------


def architecture() -> str:
    """docs/internals/architecture.md, its pictures current. Raises ValueError where it has no place for one."""
    text = (ROOT / "docs" / "internals" / "architecture.md").read_text(encoding="utf-8")
    for name, lines in {"pipeline": pipeline_picture(), "house": house_picture()}.items():
        picture = "".join(f"    {line}\n" for line in lines)
        place = rf"(<!-- generated: {name} -->\n)(?: {{4}}.*\n)*"
        text, found = re.subn(place, lambda match, picture=picture: match[1] + picture, text)
        if found != 1:
            raise ValueError(f"docs/internals/architecture.md has no place for the picture of the {name}")
    return text


def pipeline_picture() -> list[str]:
    """The way of a network: the stages in a box, each with what it does and what it needs."""
    rows = [
        (stage.name, stage.about, f"needs {', '.join(need.what for need in stage.needs)}" if stage.needs else "always")
        for stage in STAGES
    ]
    return [
        "Symbol → Graph",
        "  │",
        *_box("STAGES", rows),
        "  │",
        "IndexedGraph → Program → one pure JAX function → jax.jit → XLA",
    ]


def house_picture() -> list[str]:
    """The two packages, one upon the other: in each the layers, the highest first, with what they are for."""
    lines: list[str] = []
    for package in reversed(PACKAGES):
        rows: list[tuple[str, str]] = []
        for names, about in layers()[package]:
            columns = textwrap.wrap(", ".join(names), 34), textwrap.wrap(about, 70)
            height = max(map(len, columns))
            padded = [column + [""] * (height - len(column)) for column in columns]
            rows += zip(*padded, strict=True)
        lines += _box(package, rows, (34, 70))
    return lines


def _box(title: str, rows: Sequence[Sequence[str]], least: Sequence[int] = (0, 0, 0)) -> list[str]:
    """A table in a frame. least: widths that its columns have at least."""
    widths = [max(low, *map(len, column)) for low, column in zip(least, zip(*rows, strict=True), strict=True)]
    lines = ["│ " + " │ ".join(map(str.ljust, row, widths)) + " │" for row in rows]
    edges = ["─" * (width + 2) for width in widths]
    return [f"┌─ {title} " + "┬".join(edges)[len(title) + 3 :] + "┐", *lines, "└" + "┴".join(edges) + "┘"]


# -- docs/reference/operators.md ---------------------------------------------------------------------------------------

_PAGE_HEAD = """# Operators

Generated by `python docs/tools/generate.py` from the registry and the table of cases.

{counts}

Parameters in *italics* are required.

*gradient* says how far an operator can be differentiated:

- **any**: to any order. Every smooth case checks the second order.
- **first**: once. No case of the operator is smooth twice.
- **MXNet's**: MXNet's gradient is deliberately not the derivative of the output.
- **loss**: the operator is a head that starts a gradient of its own.
- Otherwise the reason why it has none.

*ONNX* says whether the operator can be [written into an ONNX file](../guide/onnx.md): from which opset on, where that
is later than 18, or why not.

*checked* gives the number of cases and what they are compared with:

- **v**: MXNet 1.9.1's values.
- **g**: MXNet's gradients.
- **d**: `jax.vjp` and finite differences in float64.
- **2**: `jax.grad` of `jax.grad`, for the second order.

Every case also checks inference and JSON. Evaluation without jit, vmap, second order, and **d** where MXNet's gradients
are compared, take one case of each operator. `pytest --whole-ladder` takes all.
"""


def by_family() -> tuple[dict[str, list[Op]], dict[Op, list[Case]]]:
    """(`nn/pooling` → its public operators by name, operator → its cases); what has no case comes last."""
    by_op: dict[Op, list[Case]] = {}
    family_of: dict[Op, str] = {}
    for family, cases in families().items():
        for case in cases:
            op = Op.get(case.op)
            by_op.setdefault(op, []).append(case)
            family_of.setdefault(op, family.replace(".", "/"))
    groups: dict[str, list[Op]] = {}
    for op in sorted(public_operators(), key=lambda op: op.name.lower()):
        groups.setdefault(family_of.get(op, "without cases"), []).append(op)
    return dict(sorted(groups.items(), key=lambda item: (item[0] == "without cases", item[0]))), by_op


def operators_page() -> str:
    """One table per family."""
    groups, by_op = by_family()
    ops = public_operators()
    gradients = sum(op in FGradient for op in ops)
    losses = sum(op in FLossEquivalent for op in ops)
    backward = sum(op.name.startswith("_backward_") for op in list_unique_ops())
    own = sum(map(is_own, ops))
    others = len(ops) - own - sum(map(of_mxnet, ops))
    dialect = sum(op.name.startswith("_np") for op in ops)
    integers = sum(len(members) for family, members in groups.items() if family.startswith("quantization/"))
    counts = (
        f"{mxnet_count()}{f', {own} of this library alone' * bool(own)} and {others} more that gradient rules are "
        f"written with;\n{gradients} of them have gradients "
        f"({losses} are loss heads). {backward} `_backward_…` operators, which only gradients hold,\nare not listed. "
        f"{sum(map(len, families().values()))} cases.\n\n"
        f"{dialect} of them are of MXNet's NumPy dialect (`_np…`), {integers} compute with 8-bit integers, and "
        f"{len(ops) - dialect - integers} are of the classic dialect and of images."
    )
    parts = [_PAGE_HEAD.format(counts=counts)]
    for family, members in groups.items():
        parts.append(f"## {family}\n")
        parts.append("| operator | inputs | parameters | gradient | ONNX | checked |\n|---|---|---|---|---|---|")
        parts += [_row(op, by_op.get(op, [])) for op in members]
        parts.append("")
    return "\n".join(parts)


def _row(op: Op, cases: list[Case]) -> str:
    names = f"`{op.name}`" + "".join(f"<br>`{alias}`" for alias in sorted(op.aliases))
    inputs = f"`{op.key_var_num_args}` of any" if op.key_var_num_args else ", ".join(op.inputs)
    fields = op.params.fields.values() if op.params is not None else ()
    params = ", ".join(f"*{field.name}*" if field.required else field.name for field in fields)
    checked = f"{len(cases)}: {_checks(op, cases)}" if cases else NO_CASES.get(op.name, "see its tests")
    return f"| {names} | {inputs} | {params} | {gradient_word(op, cases)} | {_onnx(op)} | {checked} |"


def _onnx(op: Op) -> str:
    """Whether it can be written into an ONNX file, from which opset on, or why not."""
    form = form_of(op)
    if form.form is None:
        return f"no: {form.reason}"
    return "yes" if form.opset <= OPSET else f"opset {form.opset}"


def gradient_word(op: Op, cases: list[Case]) -> str:
    """How far an operator can be differentiated, as the page says at its head."""
    if op not in FGradient:
        return NOT_DIFFERENTIABLE.get(op.name, "-")
    if op in FLossEquivalent:
        return "loss"
    derivative = [case for case in cases if not case.not_derivative]
    if cases and not derivative:
        return "MXNet's"
    return "any" if not cases or any(case.smooth for case in derivative) else "first"


def _checks(op: Op, cases: list[Case]) -> str:
    differentiated = [case for case in cases if op in FGradient and case.wrt != ()]
    letters = {
        "v": any(not case.no_mxnet for case in cases),
        "g": any(case.is_train and not case.no_mxnet for case in differentiated),
        "d": any(not case.not_derivative for case in differentiated),
        "2": any(case.smooth and not case.not_derivative for case in differentiated),
    }
    return " ".join(letter for letter, holds in letters.items() if holds)


# -- the stub --------------------------------------------------------------------------------------------------------

_STUB_HEAD = '''# Generated by `python docs/tools/generate.py` from the operator registry.
# ruff: noqa: A, D, E501, F811, N, PYI, UP
"""The symbolic front end: `Variable`, `Group`, scopes, and one function per registered operator."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

{imports}

_DType: TypeAlias = str | type[Any] | np.dtype[Any]
_Attr: TypeAlias = Mapping[str, str] | None

def __getattr__(name: str) -> Callable[..., Symbol]: ...  # operators that users register
'''


def stub() -> str:
    """A typed signature and a docstring for every operator function, but those of operators that the pipeline makes."""
    source = (ROOT / "symjax_nnvm/symbol/__init__.py").read_text()
    lines = [line for line in source.splitlines() if line.startswith("from symjax_nnvm.symbol") and " as " in line]
    namespaces = {name: value for name, value in vars(sym).items() if isinstance(value, Namespace)}
    modules = {f.__module__ for namespace in namespaces.values() for f in namespace.functions.values()}
    private = [f"import {module} as _{module.rsplit('.')[-1]}" for module in sorted(modules)]
    parts = [_STUB_HEAD.format(imports="\n".join([*private, *lines]))]
    ops = [op for op in public_operators() if op not in TMadeBy]
    taken = {name for line in lines for name in [line.rsplit(" ", 1)[-1]]} | SCALAR_FUNCTIONS.keys()
    for op in ops:
        parts.append(_function(op))
        parts += [f"{alias} = {op.name}" for alias in op.aliases if alias.isidentifier() and alias not in taken]
    for name in SCALAR_FUNCTIONS:
        parts.append(f"def {name}(left: Symbol | float, right: Symbol | float, name: str | None = None) -> Any: ...")
    for name, namespace in namespaces.items():
        parts += ["", *_namespace(name, namespace)]
    return "\n".join(parts) + "\n"


def _function(op: Op) -> str:
    arguments = list(arguments_of(op))
    described = [f"    - {line}" for line in _argument_lines(op)]
    description = op.description.replace("\\", "\\\\") or op.name
    doc = "\n".join([description, *([""] if described else []), *described])
    return f'def {op.name}({", ".join(arguments)}) -> Symbol:\n    """{doc}"""'


def arguments_of(op: Op) -> Iterator[str]:
    """The function's arguments: inputs, then parameters; by keyword only once a required one follows a default."""
    defaulted = keyword_only = False
    if not op.inputs and (op.fixed_num_inputs is None or op.params is None):
        yield "*data: Symbol"
        keyword_only = True
    for i, name in enumerate(op.inputs):
        yield f"{name}: Symbol" if i == 0 else f"{name}: Symbol | None = None"
        defaulted = i > 0
    for field in op.params.fields.values() if op.params is not None else ():
        if field.name == op.key_var_num_args:
            yield f"{field.name}: int | None = None"
            continue
        if field.required and defaulted and not keyword_only:
            yield "*"
            keyword_only = True
        yield f"{field.name}: {_type(field.annotation)}" + ("" if field.required else f" = {_default(field)}")
        defaulted = defaulted or not field.required
    for field in op.params.fields.values() if op.params is not None else ():
        if field.alias:
            yield f"{field.alias}: {_type(field.annotation)} = ..."
    yield "name: str | None = None"
    yield "attr: _Attr = None"
    yield "**attributes: Any" if op.params is None else "**attributes: str"


def _type(annotation: Any) -> str:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return "_DType" if "float32" in args else f"Literal[{', '.join(map(repr, args))}]"
    if origin is tuple:
        return f"Sequence[{_type(args[0])}] | {_type(args[0])}"
    if origin in (typing.Union, types.UnionType):
        return " | ".join("None" if arg is type(None) else _type(arg) for arg in args)
    return annotation.__name__


def _default(field: ParamField) -> str:
    return repr(field.default)


def _argument_lines(op: Op) -> list[str]:
    described = [argument for argument in op.arguments if argument.description]
    return [f"{a.name}: {a.type}. {a.description}.".replace("..", ".").replace("\\", "\\\\") for a in described]


def _namespace(name: str, namespace: Namespace) -> list[str]:
    prefix, functions = namespace.prefix, namespace.functions.items()
    rows = [
        f"    {short} = staticmethod({op.name})"
        for op in public_operators()
        for full in (op.name, *op.aliases)
        if full.startswith(prefix)
        and (short := full.removeprefix(prefix)).isidentifier()
        and short not in namespace.functions
    ]
    rows += [f"    {key} = staticmethod(_{f.__module__.rsplit('.')[-1]}.{f.__name__})" for key, f in functions]
    return [f"class {name}:", *(rows or ["    ..."])]


def main() -> None:
    """Write every generated file."""
    for path, maker in TARGETS.items():
        (ROOT / path).write_text(globals()[maker](), encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
