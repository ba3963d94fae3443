"""The report of a check: problems for programs, and an aligned text for people."""

from __future__ import annotations

import dataclasses
import textwrap
from dataclasses import dataclass
from typing import Any, Literal

from symjax_nnvm.errors import plain_list, printable, printable_lines
from symjax_nnvm.tables import table_html

Severity = Literal["error", "warning", "note"]
"""error: the model does not run. warning: it runs, and may give other results than in MXNet. note: good to know."""

Kind = Literal[
    "unknown operator",
    "custom operator",
    "no lowering rule",
    "no ONNX form",
    "unknown parameter",
    "bad parameter",
    "broken node",
    "contradiction",
    "missing parameter",
    "wrong shape",
    "data-dependent shape",
    "undecided shape",
    "64 bits",
    "difference",
    "random numbers",
    "control flow",
    "sparse storage",
    "8-bit integers",
    "repeated name",
    "batch size",
    "newer file",
    "cost",
    "input",
    "label",
    "unused array",
]

_SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
_WIDTH = 110
_MAX_NAMES = 6
_NOT_CHECKED = "Shapes were not checked: give some, as in shapes={'data': (1, 3, 224, 224)}."


@dataclass(frozen=True)
class Problem:
    """One finding, for all nodes that it concerns.

    Attributes:
        nodes: names of nodes or variables, `outer/inner` inside subgraphs; empty when it concerns the file.
        op: the operator's name.
        reason: what is wrong.
        fix: what to do about it; None where nothing helps.
    """

    kind: Kind
    severity: Severity
    nodes: tuple[str, ...]
    op: str | None
    reason: str
    fix: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the problem as a plain dict."""
        return {**dataclasses.asdict(self), "nodes": list(self.nodes)}

    def __str__(self) -> str:
        return "\n".join(_lines(self, 0))


@dataclass(frozen=True)
class CheckReport:
    """The findings of `check`, errors first; printing it shows them all.

    Attributes:
        num_nodes: the number of nodes that were checked, subgraphs included.
        shapes_checked: whether `check` had shapes or parameters; without them it finds only contradictions among
            declared shapes.
        peak_bytes: the memory of one forward pass, in bytes, as `symjax_nnvm.estimate` counts it; None while shapes are
            unknown.
        flops: its floating-point operations, counted likewise.
    """

    problems: tuple[Problem, ...]
    num_nodes: int
    shapes_checked: bool
    peak_bytes: int | None = None
    flops: int | None = None

    @property
    def ok(self) -> bool:
        """Return whether there is no error."""
        return not any(problem.severity == "error" for problem in self.problems)

    def to_json(self) -> dict[str, Any]:
        """Return a plain dict: `ok`, `num_nodes`, `shapes_checked`, `peak_bytes`, `flops`, `problems`."""
        return {
            "ok": self.ok,
            "num_nodes": self.num_nodes,
            "shapes_checked": self.shapes_checked,
            "peak_bytes": self.peak_bytes,
            "flops": self.flops,
            "problems": [problem.to_json() for problem in self.problems],
        }

    def _repr_html_(self) -> str:
        rows = [
            (p.severity, p.kind, p.op or "", plain_list(p.nodes) if p.nodes else "", p.reason, p.fix or "")
            for p in self.problems
        ]
        columns = ("severity", "kind", "operator", "nodes", "reason", "what to do")
        places = [i for i, _ in enumerate(columns) if any(row[i] for row in rows)]
        notes = [self._heading(), *([] if self.shapes_checked else [_NOT_CHECKED])]
        return table_html([columns[i] for i in places], [[row[i] for i in places] for row in rows], notes=notes)

    def _heading(self) -> str:
        counts = [(s, sum(problem.severity == s for problem in self.problems)) for s in _SEVERITIES]
        counted = ", ".join(f"{n} {severity}{'s' * (n != 1)}" for severity, n in counts if n)
        if any(n for severity, n in counts if severity != "note"):
            return f"{counted} in {self.num_nodes} nodes."
        return f"No problem in {self.num_nodes} nodes{f'; {counted}' if counted else ''}."

    def __str__(self) -> str:
        lines = [self._heading()]
        width = max((len(problem.kind) for problem in self.problems), default=0)
        for problem in self.problems:
            lines += ["", *_lines(problem, width)]
        if not self.shapes_checked:
            lines += ["", _NOT_CHECKED]
        return "\n".join(lines)


def _lines(problem: Problem, width: int) -> list[str]:
    """The problem's heading, and indented below it why it is one and what to do."""
    indent = " " * 9
    shown = plain_list(problem.nodes[:_MAX_NAMES]) if problem.nodes else ""
    if len(problem.nodes) > _MAX_NAMES:
        shown += f" and {len(problem.nodes) - _MAX_NAMES} more"
    count = f" ×{len(problem.nodes)}" if len(problem.nodes) > 1 else ""
    subject = (
        f"{printable(problem.op)}{count}: {shown}" if problem.op else f"{shown}{count and f' ({len(problem.nodes)})'}"
    )
    lines = [f"{problem.severity:<7}  {problem.kind:<{width}}  {subject}".rstrip()]
    for text in (problem.reason, problem.fix and f"→ {problem.fix}"):
        if text:
            lines += textwrap.wrap(
                printable_lines(text), _WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False
            )
    return lines


class Findings:
    """Collects findings: equal findings of several nodes become one problem."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[Kind, Severity, str | None, str, str | None], list[str]] = {}

    def add(
        self, kind: Kind, severity: Severity, node: str | None, reason: str, *, op: str | None = None, fix: str = ""
    ) -> None:
        """Note one finding about a node, or about the file when node is None."""
        nodes = self._nodes.setdefault((kind, severity, op, reason, fix or None), [])
        if node is not None:
            nodes.append(node)

    def problems(self) -> tuple[Problem, ...]:
        """List all findings, errors first, each severity in the order in which they were found."""
        problems = [
            Problem(kind, severity, tuple(dict.fromkeys(nodes)), op, reason, fix)
            for (kind, severity, op, reason, fix), nodes in self._nodes.items()
        ]
        return tuple(sorted(problems, key=lambda problem: _SEVERITIES.index(problem.severity)))
