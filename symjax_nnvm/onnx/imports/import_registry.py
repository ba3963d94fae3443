"""The registry of ONNX' operators that can be read: `@onnx_import("Conv")`, as `onnx_form` is for writing, and those of
other domains under both names: `@onnx_import("com.microsoft.QGemm")`.

A form is `form(g, *inputs) -> value | values`: it composes symbols with the composer `g`, which has the node's
attributes. Inputs that are left out are None. Operators that cannot be read have a reason (`no_import`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import repeat
from typing import Any, TypeVar

from symjax_nnvm.onnx.imports.file_values import Value

ImportForm = Callable[..., Value | Sequence[Value]]
F = TypeVar("F", bound=ImportForm)


@dataclass(frozen=True)
class OnnxImport:
    """How an operator is read from opset `since` on; form None: it is not, for `reason`. ignores: attributes that
    change nothing in what it gives."""

    since: int
    form: ImportForm | None
    reason: str = ""
    fix: str = ""
    ignores: frozenset[str] = frozenset()


_IMPORTS: dict[str, list[OnnxImport]] = {}

_NONE = OnnxImport(
    0,
    None,
    "there is no form for it",
    'Register one: @symjax_nnvm.onnx.onnx_import("…") def form(g, *inputs): return g.op("…", *inputs).',
)


def onnx_import(*kinds: str, since: int = 1, ignores: Sequence[str] = ()) -> Callable[[F], F]:
    """Register the decorated function as what the named ONNX operators mean from an opset on; a form of a later opset
    takes the place of one of an earlier.

    A node with an attribute that the form does not read is refused, unless it has ONNX' default or is one of `ignores`:
    those that do not change the operator's result.
    """

    def register(form: F) -> F:
        for kind in kinds:
            _IMPORTS.setdefault(kind, []).append(OnnxImport(since, form, ignores=frozenset(ignores)))
        return form

    return register


def import_table(forms: Mapping[str, ImportForm]) -> None:
    """Register forms of every opset: one row each."""
    for kind, form in forms.items():
        onnx_import(kind)(form)


def same(op: str, **params: Any) -> ImportForm:
    """The form of what an operator computes of the same inputs."""
    return lambda g, *inputs: g.op(op, *inputs, **params)


def no_import(*kinds: str, reason: str, fix: str = "") -> None:
    """Register the reason why the named operators cannot be read."""
    for kind in kinds:
        _IMPORTS.setdefault(kind, []).append(OnnxImport(1, None, reason, fix))


def import_of(kind: str, opset: int) -> OnnxImport:
    """How an operator of an opset is read, or why it is not."""
    rows = [row for row in _IMPORTS.get(kind, ()) if row.since <= opset]
    return max(rows, key=lambda row: row.since, default=_NONE)


def input_problem(form: ImportForm, inputs: Sequence[Value | None]) -> str | None:
    """What is wrong with a node's inputs: one is left out that a form takes as a `Value`, not as a `Value | None`, or
    there are too many; None: nothing. Files leave out any."""
    needed, others_needed, most = _needed(form)
    if most is not None and len(inputs) > most:
        return f"it has {len(inputs)} inputs, not {most} at most"
    padded = [*inputs, *[None] * (len(needed) - len(inputs))]
    missing = next(
        (i for i, (x, need) in enumerate(zip(padded, [*needed, *repeat(others_needed, len(padded))], strict=False))
         if need and x is None), None
    )  # fmt: skip
    return None if missing is None else f"its input {missing} is left out"


@cache
def _needed(form: ImportForm) -> tuple[tuple[bool, ...], bool, int | None]:
    """Return whether each input of a form, and those that `*inputs` stands for, is annotated as a `Value`; and how many
    inputs it takes, None for any number."""
    _, *parameters = inspect.signature(form).parameters.values()
    named = [p for p in parameters if p.kind is not p.VAR_POSITIONAL]
    others = [p for p in parameters if p.kind is p.VAR_POSITIONAL]
    needed, are_values = ([p.annotation in ("Value", Value) for p in part] for part in (named, others))
    return tuple(needed), any(are_values), None if others else len(named)
