"""The signature of an operator function for `help`, completion and `inspect.signature`: inputs, parameters by name."""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Iterator
from inspect import Parameter, Signature
from typing import Any

from symjax_nnvm.ir.op import Op
from symjax_nnvm.symbol.symbol import Symbol


def signature_of(op: Op) -> Signature:
    """Return `(data: Symbol, weight: Symbol = None, …, *, num_hidden: int, …, name=None, attr=None, **attributes) ->
    Symbol`.

    A required parameter after an optional one can be passed only by keyword; the function itself takes all by
    position, too, in this order, as MXNet's.
    """
    return Signature([*_parameters(op)], return_annotation=Symbol)


def _parameters(op: Op) -> Iterator[Parameter]:
    taken = {"name", "attr"}
    kind, defaulted = Parameter.POSITIONAL_OR_KEYWORD, False
    if not op.inputs and (op.fixed_num_inputs is None or op.params is None):
        yield Parameter("data", Parameter.VAR_POSITIONAL, annotation=Symbol)
        taken.add("data")
        kind = Parameter.KEYWORD_ONLY
    for i, name in enumerate(op.inputs):
        taken.add(name)
        yield Parameter(name, kind, default=None if i else Parameter.empty, annotation=Symbol)
        defaulted = i > 0
    for field in op.params.fields.values() if op.params is not None else ():
        if field.name in taken or not field.name.isidentifier() or keyword.iskeyword(field.name):
            continue
        counts = field.name == op.key_var_num_args
        if field.required and defaulted:
            kind = Parameter.KEYWORD_ONLY
        default: Any = None if counts else Parameter.empty if field.required else field.default
        yield Parameter(field.name, kind, default=default, annotation=field.annotation)
        defaulted = defaulted or default is not Parameter.empty
    for name in ("name", "attr"):
        yield Parameter(name, Parameter.KEYWORD_ONLY, default=None)
    yield Parameter("attributes", inspect.Parameter.VAR_KEYWORD)
