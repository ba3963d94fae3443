"""What the gradient witness reports: a row for each argument, or for each direction; and the error that carries it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

from symjax_nnvm.errors import GradientError
from symjax_nnvm.tables import table_html, table_text

_SHOWN = 10


@dataclass(frozen=True)
class NodeFinding:
    """Reports a node whose gradient is not the derivative at the point. reason: why a deliberate one differs; else what
    differs."""

    node: str
    op: str
    kind: Literal["wrong", "at a kink", "deliberate"]
    reason: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.op} {self.node!r} ({self.reason})"


@dataclass(frozen=True)
class GradientRow:
    """Reports one argument: our gradient's differences from each witness, absolute and relative to its scale.

    fd_step: the least step of finite differences where the usual one crosses a kink, else None.
    """

    argument: str
    shape: tuple[int, ...]
    scale: float
    vjp_abs: float
    vjp_rel: float
    fd_abs: float | None
    fd_rel: float | None
    ok: bool
    fd_step: float | None = None


@dataclass(frozen=True)
class _Report:
    """The rows of a comparison. rtol, fd_rtol: the bounds, against JAX and against finite differences. nodes:
    those whose own gradient is not the derivative at the point, where something differed. moved: the rows are of a
    point beside the given one, off its kinks. trusted: at some of the nodes our own gradient counts."""

    rows: tuple[Any, ...]
    rtol: float
    fd_rtol: float
    _: KW_ONLY
    nodes: tuple[NodeFinding, ...] = ()
    moved: bool = False
    trusted: bool = False

    @property
    def ok(self) -> bool:
        """Return whether our gradient agrees with every witness, row by row."""
        return all(row.ok for row in self.rows)

    def _table(self) -> tuple[Sequence[str], list[tuple[str, ...]], list[str]]:
        """Return columns, rows and the lines under them."""
        raise NotImplementedError

    def __str__(self) -> str:
        columns, rows, notes = self._table()
        return "\n".join([table_text(columns, rows), *notes, *_reasons(self)])

    def _repr_html_(self) -> str:
        columns, rows, notes = self._table()
        return table_html(columns, rows, notes=[*notes, *_reasons(self)])


@dataclass(frozen=True)
class GradientReport(_Report):
    """The result of `check_gradients`; it prints as a table."""

    rows: tuple[GradientRow, ...]

    def _table(self) -> tuple[Sequence[str], list[tuple[str, ...]], list[str]]:
        header = ("argument", "shape", "max |grad|", "vs jax.vjp: abs", "rel", "vs finite diff.: abs", "rel", "verdict")
        rows = [
            (
                row.argument,
                str(row.shape),
                *map(_digits, (row.scale, row.vjp_abs, row.vjp_rel, row.fd_abs, row.fd_rel)),
                _verdict(row.ok),
            )
            for row in self.rows
        ]
        bounds = f"bounds, relative to max |grad|: {self.rtol:g} against jax.vjp, {self.fd_rtol:g} against finite"
        return header, rows, [f"{bounds} differences; all in float64"]


@dataclass(frozen=True)
class ProjectionRow:
    """Reports one direction: the derivative along it by our gradient, by `jax.jvp` and by finite differences, and the
    errors relative to the size that it has on average.

    fd_step: the step of finite differences where the usual one crosses a kink, else None.
    """

    ours: float
    jvp: float
    jvp_rel: float
    fd: float | None
    fd_rel: float | None
    ok: bool
    fd_step: float | None = None


@dataclass(frozen=True)
class ProjectionReport(_Report):
    """The result of `check_projection`; it prints as a table.

    Attributes:
        arguments: the number of arguments.
        elements: how many numbers each direction moves.
    """

    rows: tuple[ProjectionRow, ...]
    arguments: int
    elements: int

    def _table(self) -> tuple[Sequence[str], list[tuple[str, ...]], list[str]]:
        header = ("direction", "by MXGradient", "by jax.jvp", "rel. error", "by finite diff.", "rel. error", "verdict")
        rows = [
            (
                *(str(i + 1), f"{row.ours:.9e}", f"{row.jvp:.9e}", _digits(row.jvp_rel)),
                *("-" if row.fd is None else f"{row.fd:.9e}", _digits(row.fd_rel), _verdict(row.ok)),
            )
            for i, row in enumerate(self.rows)
        ]
        moved = f"each direction moves all {self.elements:,} elements of {self.arguments} arguments"
        bounds = f"bounds: {self.rtol:g} against jax.jvp, {self.fd_rtol:g} against finite differences; all in float64"
        return header, rows, [moved, bounds]


class GradientsDisagreeError(GradientError):
    """Our gradient differs from the witnesses'. report: the whole table."""

    def __init__(self, message: str, report: GradientReport | ProjectionReport):
        super().__init__(f"{message}\n{report}")
        self.report = report


def _reasons(report: _Report) -> list[str]:
    """Return lines about the nodes that differ by themselves, the wrong ones first; empty where there are none."""
    order = ("wrong", "deliberate", "at a kink")
    nodes = sorted(report.nodes, key=lambda finding: order.index(finding.kind))
    lines = [str(finding) for finding in nodes[:_SHOWN]]
    if len(nodes) > _SHOWN:
        lines.append(f"and {len(nodes) - _SHOWN} more such nodes")
    steps = [row.fd_step for row in report.rows if row.fd_step is not None]
    if steps:
        rows = "1 row" if len(steps) == 1 else f"{len(steps)} rows"
        least = f"steps down to {min(steps):.0e} agree"
        lines.append(f"In {rows} the usual finite differences cross a kink, or a bend as sharp; {least}.")
    if report.moved:
        lines.append("Compared at a nearby point without kinks: each argument was moved by 0.001 of its range.")
    if report.trusted:
        lines.append("There our own gradient is used, which finite differences cannot see; the rest is compared.")
    if not report.ok and not nodes:
        lines.append("No single operator's gradient differs: the error arises where gradients are combined.")
    return lines


def _digits(number: float | None) -> str:
    return "-" if number is None else f"{number:.1e}"


def _verdict(ok: bool) -> str:
    return "agrees" if ok else "DIFFERS"
