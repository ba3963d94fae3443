"""Pages of the site for the operators, written from their cards: one page for a file of operators, one section each.

A section tells the formula, the call, parameters, shapes, gradient, where MXNet differs, and an example, which is the
operator's first case with what shape inference says of it.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO

from docs.tools.generate import arguments_of, by_family, gradient_word
from symjax_nnvm import symbol as sym
from symjax_nnvm.ir.attributes import FDeviation, FDraws, FGradient, FInferShape
from symjax_nnvm.ir.linear import Linear, self_adjoint
from symjax_nnvm.ir.op import Op
from symjax_nnvm.symbol.namespaces import Namespace
from tests.cases import Case
from tests.support.import_graph import ROOT

INDEX = "reference/operators"
"""The page that lists all operators."""

NAMESPACES = {key: value.prefix for key, value in vars(sym).items() if isinstance(value, Namespace)}


def pages() -> dict[str, str]:
    """Path of a page below the site's root, without `.md` → its text, in Markdown."""
    groups, cases = by_family()
    return {
        _path(family): "\n".join([_head(family), *(section(op, cases.get(op, [])) for op in ops)])
        for family, ops in groups.items()
    }


def places() -> dict[str, str]:
    """Operator → where its section is: page and anchor."""
    groups, _ = by_family()
    return {op.name: f"{_path(family)}.md#{op.name.lower()}" for family, ops in groups.items() for op in ops}


def _path(family: str) -> str:
    return f"{INDEX}/{family.replace(' ', '_')}"


def _head(family: str) -> str:
    source = ROOT / "symjax_nnvm" / "ops" / f"{family}.py"
    duty = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) if source.is_file() else None
    return f"# {family}\n\n{plain(duty or 'Operators of which no case stands in the table.')}\n"


def section(op: Op, cases: list[Case]) -> str:
    """What the card of an operator says, below a heading of its name."""
    parts = [f"## `{op.name}`", plain(op.description), f"```python\n{signature(op)}\n```"]
    if op.aliases:
        parts.append("Also called " + ", ".join(f"`{alias}`" for alias in sorted(op.aliases)) + ".")
    parts += [*_parameters(op), "\n".join(_facts(op, cases))]
    program = example(op, cases)
    if program:
        parts += ["An example:", f"```python\n{program}```", f"```\n{printed(program)}```"]
    return "\n\n".join(filter(None, parts)) + "\n"


def signature(op: Op) -> str:
    """The operator's function with its own arguments and `name`, one a line where they are many."""
    arguments = [a.replace("_DType", "dtype") for a in arguments_of(op) if not a.startswith(("attr:", "**attributes:"))]
    line = f"{function(op)}({', '.join(arguments)})"
    return line if len(line) < 100 else f"{function(op)}(\n    " + ",\n    ".join(arguments) + ",\n)"


def function(op: Op) -> str:
    """How people write the operator: `sym.contrib.box_nms`, or by a name without an underscore where it has one."""
    for key, prefix in NAMESPACES.items():
        short = op.name.removeprefix(prefix)
        if op.name.startswith(prefix) and short.isidentifier() and short not in getattr(sym, key).functions:
            return f"sym.{key}.{short}"
    names = (name for name in (op.name, *op.aliases) if not name.startswith("_") and name not in vars(sym))
    return f"sym.{next(names, op.name)}"


def _parameters(op: Op) -> Iterator[str]:
    described = [argument for argument in op.arguments if argument.name not in op.inputs]
    if described:
        rows = [f"| `{a.name}` | {plain(a.type)} | {plain(a.description)} |" for a in described]
        yield "\n".join(["| parameter | values | meaning |", "|---|---|---|", *rows])


_DEGREES = {
    "any": "Of any order.",
    "first": "Of first order.",
    "loss": "A loss head: it starts a gradient of its own.",
    "MXNet's": "MXNet's, which on purpose is not the derivative of the output.",
    "-": "None.",
}


def _facts(op: Op, cases: list[Case]) -> Iterator[str]:
    """What holds of an operator, as items of a list."""
    shapes = _words(FInferShape.get(op, None))
    if shapes:
        yield f"- **Shapes.** {plain(shapes)}"
    degree = gradient_word(op, cases)
    rule = FGradient.get(op, None)
    linear = isinstance(getattr(rule, "__self__", None), Linear) or rule is self_adjoint
    how = "The operator is linear, its gradient the adjoint." if linear else plain(_words(rule))
    yield f"- **Gradient.** {_DEGREES.get(degree) or plain(f'None: {degree}.')} {how}".rstrip()
    for one in FDeviation.get(op, ()):  # pyright: ignore[reportGeneralTypeIssues] - a tuple, see Deviations
        yield f"- **Unlike MXNet 1.9.1:** {plain(one.what)}."
    if op in FDraws:
        yield "- **Random.** What is compiled of it takes a key."


def _words(rule: object) -> str:
    return " ".join((inspect.getdoc(rule) or "").split()) if rule is not None else ""


def plain(text: str) -> str:
    """Text of ours as Markdown that shows it as it stands: signs keep no meaning but that of `code`."""
    spans = re.split(r"(`[^`]+`)", text)
    spans[::2] = (re.sub(r"[\\*_<>\[\]|#$~`]", r"\\\g<0>", span) for span in spans[::2])
    spans[1::2] = (span.replace("|", "\\|") for span in spans[1::2])
    return "".join(spans)


# -- examples ----------------------------------------------------------------------------------------------------------

_LONGEST = 12
"""Lines of a gradient's graph that an example shows."""


def example(op: Op, cases: list[Case]) -> str:
    """A program that calls the operator as its first case does, and prints shapes and the gradient as a graph; empty
    where no case is a plain call."""
    case = next((case for case in cases if case.graph is None), None)
    if case is None:
        return ""
    inputs = [sym.Variable(f"x{i}") for i in range(len(case.inputs))]
    names = op.inputs[: len(inputs)] or [node.name for node in inputs]
    arguments = [*(f'sym.Variable("{name}")' for name in names), *(f"{k}={v!r}" for k, v in case.params.items())]
    call = f"{function(op)}({', '.join(arguments)})"
    if len(call) > 90:
        call = f"{function(op)}(\n    " + ",\n    ".join(arguments) + ",\n)"
    given = ", ".join(f"{name}={tensor.shape}" for name, tensor in zip(names, case.inputs, strict=True))
    lines = ["from symjax_nnvm import graph, symbol as sym", "", f"out = {call}", f"print(out.infer_shape({given})[1])"]
    program = "\n".join(lines) + "\n"
    if op in FGradient and names and case.wrt != ():
        longer = f'{program}print(graph.create(out.gradient(["{names[(case.wrt or (0,))[0]]}"])).ir())\n'
        if printed(longer).count("\n") <= _LONGEST:
            return longer
    return program


def printed(program: str) -> str:
    """What a program prints. Raises what it raises."""
    out = StringIO()
    with redirect_stdout(out), sym.NameManager():
        exec(compile(program, "example", "exec", dont_inherit=True), {})
    return out.getvalue()
