"""`Custom`: operators that users register under an `op_type`.

A node made by `Custom(…, op_type="name")`, or loaded from a file that holds one, is a node of the operator registered
for that type; files show it as MXNet writes it, as `Custom` with an `op_type`.
"""

from __future__ import annotations

from typing import Any

from symjax_nnvm.errors import OpNotRegisteredError, ParamError
from symjax_nnvm.ir.node import NodeAttrs
from symjax_nnvm.ir.op import Op, list_all_names, register
from symjax_nnvm.ir.register import NoParams, register_op

_PREFIX = "Custom:"


def custom_name(op_type: str) -> str:
    """The name in the registry of the operator of an `op_type`."""
    return f"{_PREFIX}{op_type}"


def register_custom(op_type: str, **declaration: Any) -> Op:
    """Register the operator that `Custom(op_type=…)` runs.

    Its lowering rule is declared like any other: `@lowering.lowers_custom("op_type") def rule(params, *inputs): ...`.

    Args:
        op_type: the type's name.
        declaration: arguments of `register_op`: `params` (a frozen dataclass of typed parameters), `inputs` (names in
            order, auxiliary states last and listed in `mutates`), `outputs`, `infer_shape`, `infer_type`, `gradient`,
            `loss`, ….

    Returns:
        The operator.

    Raises:
        AttributeConflictError: the type is registered already.
    """
    op = register_op(custom_name(op_type), **{"THasDeterministicOutput": False, "recompute": "never", **declaration})
    op.set_attr("TFileName", "Custom")
    schema = op.params
    assert schema is not None

    def parser(attrs: NodeAttrs) -> None:
        parameters = {key: value for key, value in attrs.dict.items() if key != "op_type"}
        attrs.parsed = NoParams() if schema.cls is NoParams else schema.parse(parameters, op.name, attrs.name)

    return op.set_attr_parser(parser)


def _resolve(attrs: NodeAttrs) -> None:
    """Make the node one of the operator registered for its type. Raises ParamError, OpNotRegisteredError."""
    op_type = attrs.dict.get("op_type")
    if op_type is None:
        raise ParamError("Required parameter op_type of string is not presented", op="Custom", node=attrs.name)
    name = custom_name(op_type)
    if not Op.exists(name):
        op_types = [n.removeprefix(_PREFIX) for n in list_all_names() if n.startswith(_PREFIX)]
        raise OpNotRegisteredError(
            f"No operator is registered for op_type {op_type!r}",
            op="Custom",
            node=attrs.name,
            expected=f"one of {op_types}" if op_types else "a registered op_type, but none is registered yet",
            fix=f"Register it: symjax_nnvm.register_custom({op_type!r}, inputs=…, infer_shape=…, gradient=…), and "
            f"its JAX rule: @lowering.lowers_custom({op_type!r}).",
        )
    attrs.op = Op.get(name)
    attrs.parse()


register("Custom").add_alias("_npi_Custom").describe(
    "An operator of the user's own: op_type names it, further keywords are its parameters. See `register_custom`."
).add_argument("data", "NDArray-or-Symbol[]", "Inputs, as the operator declares them.").add_argument(
    "op_type", "string, required", "The type it was registered under."
).set_attr_parser(_resolve)
