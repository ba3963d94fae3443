"""The ONNX form of each operator, kept as just another operator attribute, FOnnx.

A form is `form(g, params, *inputs) -> tensor | tensors`: it writes ONNX nodes with the builder `g` and gives the node's
visible outputs. It is a form for inference. Operators without a form have a reason (`refuses`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from symjax_nnvm.ir import attributes
from symjax_nnvm.ir.attributes import with_twin
from symjax_nnvm.ir.op import OpMap
from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.tensors import Tensor

Form = Callable[..., Tensor | Sequence[Tensor]]
"""(builder, parameters, inputs) → outputs."""


@dataclass(frozen=True)
class OnnxForm:
    """How an operator is written, or why it is not.

    form: None where there is none, for `reason`; `fix` is the way out. opset: the lowest version of ONNX'
    operators that has what the form writes.
    """

    form: Form | None
    opset: int = 0
    reason: str = ""
    fix: str = ""


FOnnx: OpMap[OnnxForm] = attributes.FOnnx
"""The operator attribute that holds the forms."""


F = TypeVar("F", bound=Form)


def onnx_form(*names: str, opset: int = 0) -> Callable[[F], F]:
    """Register the decorated function as the form of the named operators, and of their twins."""

    def register(form: F) -> F:
        for op in (op for name in names for op in with_twin(name)):
            op.set_attr("FOnnx", OnnxForm(form, opset))
        return form

    return register


def onnx_table(forms: Mapping[str, Callable[..., Tensor]]) -> None:
    """Register forms that need no parameters, `(builder, inputs) -> output`: one row each."""
    for name, form in forms.items():
        onnx_form(name)(_without_params(form))


def _without_params(form: Callable[..., Tensor]) -> Form:
    return lambda g, p, *inputs: form(g, *inputs)


def direct(kind: str) -> Callable[..., Tensor]:
    """Return the form of what an ONNX operator without attributes computes, of the same inputs."""
    return lambda g, *inputs: g.op(kind, *inputs)


def identity(g: Builder, p: Any, data: Tensor, *others: Tensor) -> Tensor:
    """Return the form of an operator that returns its first input."""
    return data


def refuses(*names: str, reason: str, fix: str = "") -> None:
    """Register the reason why the named operators have no form."""
    for op in (op for name in names for op in with_twin(name)):
        op.set_attr("FOnnx", OnnxForm(None, reason=reason, fix=fix))
