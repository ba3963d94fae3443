"""NumpyOp and NDArrayOp: operators in Python as MXNet had them before CustomOp, which `mx.operator` makes of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any


class PythonOp:
    """An operator: an object that is called with symbols, or by the words of `list_arguments`, and makes a symbol.

    A subclass says `forward` and `backward`, which write arrays in place, and where need be the names and shapes.
    need_top_grad: whether `backward` reads the gradients of the outputs.
    """

    as_symbol: Callable[..., Any]
    """(operator, symbols, words) → the symbol of its call; set by `mx.operator`."""

    def __init__(self, need_top_grad: bool = True):
        self.need_top_grad_ = need_top_grad
        warnings.warn(f"{type(self).__name__} has been deprecated. Please use CustomOp", stacklevel=2)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """`get_symbol`."""
        return self.get_symbol(*args, **kwargs)

    def get_symbol(self, *args: Any, **kwargs: Any) -> Any:
        """The symbol of the operator on symbols. Raises NotImplementedError for what is neither of the subclasses."""
        raise NotImplementedError("get_symbol needs a subclass of NumpyOp or NDArrayOp")

    def forward(self, in_data: Any, out_data: Any) -> None:
        """Write the outputs, `out_data[0][:] = value`."""
        out_data[0][:] = in_data[0]

    def backward(self, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any) -> None:
        """Write the gradients of the inputs, `in_grad[0][:] = value`."""
        in_grad[0][:] = 1.0

    def infer_shape(self, in_shape: Any) -> Any:
        """(shapes of inputs, of outputs) from the inputs'."""
        return in_shape, [in_shape[0]]

    def list_outputs(self) -> list[str]:
        """The names of the outputs."""
        return ["output"]

    def list_arguments(self) -> list[str]:
        """The names of the inputs."""
        return ["data"]

    def need_top_grad(self) -> bool:
        """Whether `backward` reads the gradients of the outputs."""
        return self.need_top_grad_


class NumpyOp(PythonOp):
    """One whose arrays are NumPy's."""

    def get_symbol(self, *args: Any, **kwargs: Any) -> Any:
        """The symbol of the operator on symbols."""
        return PythonOp.as_symbol(self, args, kwargs, lambda array: array.asnumpy())


class NDArrayOp(PythonOp):
    """One whose arrays are NDArrays."""

    def get_symbol(self, *args: Any, **kwargs: Any) -> Any:
        """The symbol of the operator on symbols."""
        return PythonOp.as_symbol(self, args, kwargs, lambda array: array.copy())

    def declare_backward_dependency(self, out_grad: list[int], in_data: list[int], out_data: list[int]) -> list[int]:
        """Which of these numbers of arrays `backward` reads, in MXNet, which does not keep the others; here it has all
        of them."""
        return [*(out_grad if self.need_top_grad() else ()), *in_data, *out_data]
