"""Pages of the site for the operators, written from their cards: one for each operator, and one for each family.

An operator's page has the formula, the call, parameters, shapes, gradient, differences from MXNet, an example and
links to related operators. The example is the operator's first case with what shape inference says of it. The search
finds the page by every name of `known_names`.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import cache, partial
from io import StringIO

from docs.tools.generate import arguments_of, by_family, gradient_word, public_operators
from symjax_nnvm import symbol as sym
from symjax_nnvm.ir.attributes import FDeviation, FDraws, FGradient, FInferShape
from symjax_nnvm.ir.node import Node
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.rules.linear import Linear, self_adjoint
from symjax_nnvm.ops.formulas import formula_of
from symjax_nnvm.symbol.namespaces import FOREIGN_NAMES, Namespace
from symjax_nnvm.symbol.operator_functions import operator_function
from tests.cases import Case
from tests.support.import_graph import ROOT

INDEX = "reference/operators"
"""The page that lists all operators."""

NAMESPACES = {key: value.prefix for key, value in vars(sym).items() if isinstance(value, Namespace)}


def pages() -> dict[str, str]:
    """Path of a page below the site's root, without `.md` → its text, in Markdown."""
    groups, cases = by_family()
    texts = {_family_path(family): _family_page(family, ops, cases) for family, ops in groups.items()}
    return texts | {path_of(op): page(op, cases.get(op, [])) for ops in groups.values() for op in ops}


def families() -> list[str]:
    """Paths of the families' pages."""
    return [_family_path(family) for family in by_family()[0]]


@cache
def _family_of() -> dict[str, str]:
    """Name of an operator → its family."""
    return {op.name: family for family, ops in by_family()[0].items() for op in ops}


def path_of(op: Op) -> str:
    """Path of the operator's page below the site's root, without `.md`."""
    return f"{_family_path(_family_of()[op.name])}/{op.name}"


def _family_path(family: str) -> str:
    return f"{INDEX}/{family.replace(' ', '_')}"


def _family_page(family: str, ops: list[Op], cases: dict[Op, list[Case]]) -> str:
    source = ROOT / "symjax_nnvm" / "ops" / f"{family}.py"
    duty = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) if source.is_file() else None
    rows = [f"| {_link(op)} | {plain(_lead(op.description))} | {gradient_word(op, cases.get(op, []))} |" for op in ops]
    head = [f"# {family}\n", f"{plain(duty or 'Operators that have no case in the table.')}\n"]
    return "\n".join([*head, "| operator | meaning | gradient |\n|---|---|---|", *rows, ""])


def _link(op: Op) -> str:
    return f"[`{function(op)}`](/{path_of(op)}.md)"


# -- an operator's page ------------------------------------------------------------------------------------------------


def page(op: Op, cases: list[Case]) -> str:
    """What the card of an operator says, under the name of its function.

    The page is not in the navigation: with 379 more entries on every page the site takes ten times as long to build.
    """
    entries = "".join(f"   ! single: {name}\n" for name in known_names(op))
    parts = [f"---\norphan: true\n---\n\n```{{eval-rst}}\n.. index::\n{entries}```", f"# `{function(op)}`"]
    equations = formulas(op)
    if op.description.removesuffix(".") not in equations:
        parts.append(plain(op.description))
    if equations:
        parts.append("```\n" + "\n".join(equations) + "\n```")
    parts.append(f"```python\n{signature(op)}\n```")
    others = sorted({op.name, *op.aliases} - {function(op).removeprefix("sym.")})
    if others:
        parts.append("Other names: " + ", ".join(f"`{name}`" for name in others) + ".")
    parts += [*_parameters(op), "\n".join(_facts(op, cases))]
    program = example(op, cases)
    if program:
        parts += ["## Example", f"```python\n{program}```", f"```\n{printed(program)}```"]
    parts += ["## Related", "\n".join(_related(op, cases))]
    return "\n\n".join(filter(None, parts)) + "\n"


def signature(op: Op) -> str:
    """The operator's function with its own arguments and `name`, one a line where they are many."""
    arguments = [a.replace("_DType", "dtype") for a in arguments_of(op) if not a.startswith(("attr:", "**attributes:"))]
    line = f"{function(op)}({', '.join(arguments)})"
    return line if len(line) < 100 else f"{function(op)}(\n    " + ",\n    ".join(arguments) + ",\n)"


def function(op: Op) -> str:
    """The call that people write: `sym.contrib.box_nms`, or a name without an underscore where the operator has one."""
    for key, prefix in NAMESPACES.items():
        short = op.name.removeprefix(prefix)
        if op.name.startswith(prefix) and short.isidentifier() and short not in getattr(sym, key).functions:
            return f"sym.{key}.{short}"
    names = (name for name in (op.name, *op.aliases) if not name.startswith("_") and not _is_written_out(name))
    return f"sym.{next(names, op.name)}"


def _is_written_out(name: str) -> bool:
    """Whether `sym` has a function, class or module of this name that was not made from the registry."""
    value = vars(sym).get(name)
    return value is not None and getattr(value, "__module__", "") != operator_function.__module__


def known_names(op: Op) -> list[str]:
    """The names that the search knows an operator by, in lower case.

    They are its name and aliases, each also in snake case and without underscores; the calls in MXNet (`mx.sym.dot`,
    `npx.convolution`); and the names of its layer in Gluon, PyTorch and Keras.
    """
    names: set[str] = set()
    for name in (op.name, *op.aliases):
        prefixes = {**NAMESPACES, "npx": "_npx_", "np": "_np_"}.items()
        space = next((key for key, prefix in prefixes if name.startswith(prefix)), "")
        short = name.removeprefix(f"_{space}_") if space else name
        snake = re.sub(r"(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", short)
        calls = [f"{space}.{short}", f"mx.{space}.{short}", f"sym.{name}"] if space.startswith("np") else []
        if not calls:
            calls = [f"{root}{'.' * bool(space)}{space}.{short}" for root in ("sym", "mx.sym", "mx.nd")]
        names |= {name, short, snake, short.replace("_", ""), *calls}
    for layer in (layer for layer, name in FOREIGN_NAMES.items() if name in (op.name, *op.aliases)):
        names |= {layer, layer.replace("_", "")}
    return sorted({name.lower() for name in names if name})


_CONNECTIVES = re.compile(r"\b(?:where|else|and|or|both|exactly|one|are|is|not)\b")


def formulas(op: Op) -> list[str]:
    """The formula in an operator's description, else that of `symjax_nnvm.ops.formulas`; and those in the docstring of
    its gradient rule."""
    clauses = re.split(r"[:;] |, with ", _lead(op.description).removesuffix("."))
    described = [*filter(_is_formula, clauses)][:1]
    return (described or list(formula_of(op.name))) + [line.removesuffix(".") for line in _gradient_words(op)[0]]


def _is_formula(clause: str) -> bool:
    has_sign = re.search(r"[=+·/√²ˣ|]|Γ\(|m(?:ax|in)\(", clause)
    has_prose = re.search(r"[A-Za-z]{3,} [a-z]{2,}|→", _CONNECTIVES.sub(";", clause))
    return bool(has_sign) and not has_prose and clause.count("(") == clause.count(")")


def _lead(text: str) -> str:
    """The first sentence."""
    return re.split(r"(?<=[\w)\]|²ˣᵀ]\.) (?=[A-Z`])", text, maxsplit=1)[0]


def _gradient_words(op: Op) -> tuple[list[str], str]:
    """(Formulas, the rest) of the docstring of an operator's gradient rule."""
    rule = FGradient.get(op, None)
    if isinstance(getattr(rule, "__self__", None), Linear) or rule is self_adjoint:
        return [], "The operator is linear; its gradient is the adjoint."
    words = _words(rule)
    lead = _lead(words)
    if re.match(r"d[A-Z]\w* = ", lead):
        return [lead], words.removeprefix(lead).strip()
    return [], words


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
    how = plain(_gradient_words(op)[1])
    yield f"- **Gradient.** {_DEGREES.get(degree) or plain(f'None: {degree}.')} {how}".rstrip()
    for one in FDeviation.get(op, ()):  # pyright: ignore[reportGeneralTypeIssues] - a tuple, see Deviations
        yield f"- **Unlike MXNet 1.9.1:** {plain(one.what)}."
    if op in FDraws:
        yield "- **Random.** A compiled function with this operator takes a key."


def _words(rule: object) -> str:
    function = rule.func if isinstance(rule, partial) else rule
    return " ".join((inspect.getdoc(function) or "").split()) if rule is not None else ""


def plain(text: str) -> str:
    """Text of ours as Markdown that shows it as it stands: signs keep no meaning but that of `code`."""
    spans = re.split(r"(`[^`]+`)", text)
    spans[::2] = (re.sub(r"[\\*_<>\[\]|#$~`]", r"\\\g<0>", span) for span in spans[::2])
    spans[1::2] = (span.replace("|", "\\|") for span in spans[1::2])
    return "".join(spans)


# -- related operators -------------------------------------------------------------------------------------------------

_COMMON_WORDS = re.compile(
    "broadcast|contrib|elemwise|like|linalg|mp|multi|np|npx|pdf|preloaded|random|sample|scalar|sparse|v1"
)
"""Words in names that tell variants of one function apart."""

_MOST_LINKS = 12


def stem(name: str) -> str:
    """What the names of variants have in common: `div` of `broadcast_div`, `elemwise_div` and `_div_scalar`."""
    words = [word for word in name.lower().split("_") if not _COMMON_WORDS.fullmatch(word)]
    return "".join(words)


@cache
def _by_stem() -> dict[str, list[Op]]:
    """Stem → the operators with a name of it."""
    found: dict[str, list[Op]] = {}
    for op in public_operators():
        for key in {stem(name) for name in (op.name, *op.aliases)} - {""}:
            found.setdefault(key, []).append(op)
    return found


def variants(op: Op) -> list[Op]:
    """The other operators with a name of the same stem: the v1 form, the one with a scalar, …"""
    near = {other.name: other for name in (op.name, *op.aliases) for other in _by_stem().get(stem(name), [])}
    return [near[name] for name in sorted(near, key=str.lower) if near[name] is not op]


def mentioned(op: Op) -> list[Op]:
    """The operators that the description names: within a sentence, by a name that is not an ordinary word."""
    words = re.findall(r"(?<!^)(?<![.:] )(?<!\w)\w*[A-Z_]\w*", op.description)
    found = {word: Op.get(word) for word in words if Op.exists(word) and word.lower() not in op.arguments}
    return list({other.name: other for other in found.values() if other is not op}.values())


def gradient_operators(op: Op, cases: list[Case]) -> list[Op]:
    """The operators that the gradient rule answers with, for the parameters of all plain cases."""
    found: dict[str, Op] = {}
    for case in cases if op in FGradient else []:
        if case.graph is not None or case.wrt == ():
            continue
        variables = [sym.Variable(f"x{i}") for i in range(len(case.inputs))]
        node = operator_function(op, op.name)(*variables, **case.params).outputs[0].node
        heads = [sym.Variable(f"dy{i}").outputs[0] for i in range(node.num_outputs())]
        entries = [entry for entry in FGradient[op](node, heads) if entry is not None]
        for made in _made_by_rule([entry.node for entry in entries], node):
            found.setdefault(made.name, made)
    return [found[name] for name in sorted(found, key=str.lower)]


def _made_by_rule(nodes: list[Node], forward: Node) -> Iterator[Op]:
    seen = {id(forward)}
    while nodes:
        node = nodes.pop()
        if id(node) not in seen and node.op is not None:
            yield node.op
            nodes += [entry.node for entry in node.inputs]
        seen.add(id(node))


def _related(op: Op, cases: list[Case]) -> Iterator[str]:
    """Links to related operators, as items of a list."""
    public = _family_of()
    for made in gradient_operators(op, cases):
        if made.name not in public:
            yield f"- `{made.name}`, of its gradient: {plain(_lead(made.description))}"
    links = [_link(made) for made in gradient_operators(op, cases) if made.name in public and made is not op]
    if links:
        yield "- Its gradient is written with " + ", ".join(links) + "."
    if variants(op):
        yield "- Similar names: " + ", ".join(map(_link, variants(op))) + "."
    named = [other for other in mentioned(op) if other.name in public and other not in variants(op)]
    if named:
        yield "- Mentioned above: " + ", ".join(map(_link, named)) + "."
    family = public[op.name]
    others = [other for other in by_family()[0][family] if other is not op]
    links = ": " + ", ".join(map(_link, others)) if 0 < len(others) <= _MOST_LINKS else ""
    yield f"- Family [{family}](/{_family_path(family)}.md){links}."


# -- examples ----------------------------------------------------------------------------------------------------------

_LONGEST = 12
"""Lines of a gradient's graph that an example shows."""


def example(op: Op, cases: list[Case]) -> str:
    """A program that calls the operator as its first case does, and prints shapes and the gradient as a graph; empty
    where no case is a plain call of arrays with elements and axes."""
    plain_calls = (case for case in cases if case.graph is None)
    case = next((case for case in plain_calls if all(t.shape and 0 not in t.shape for t in case.inputs)), None)
    if case is None:
        return ""
    inputs = [sym.Variable(f"x{i}") for i in range(len(case.inputs))]
    names = op.inputs[: len(inputs)] or [node.name for node in inputs]
    arguments = [*(f'sym.Variable("{name}")' for name in names), *(f"{k}={v!r}" for k, v in case.params.items())]
    call = f"{function(op)}({', '.join(arguments)})"
    if len(call) > 90:
        call = f"{function(op)}(\n    " + ",\n    ".join(arguments) + ",\n)"
    sizes = ", ".join(f"{name}={tensor.shape}" for name, tensor in zip(names, case.inputs, strict=True))
    lines = ["from symjax_nnvm import graph, symbol as sym", "", f"out = {call}", f"print(out.infer_shape({sizes})[1])"]
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
