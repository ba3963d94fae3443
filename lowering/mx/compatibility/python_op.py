"""NumpyOp and NDArrayOp: operators in Python as MXNet had them before CustomOp, which `mx.operator` makes of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any


class PythonOp:
    """An operator in Python: an object that is called with symbols, in the order of `list_arguments` or by name.

    A subclass must define `forward` and `backward`, which write arrays in place; it may define names and shapes.

    Args:
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
        """Return the symbol of the operator on symbols; an object that is neither subclass raises
        NotImplementedError."""
        raise NotImplementedError("get_symbol needs a subclass of NumpyOp or NDArrayOp")

    def forward(self, in_data: Any, out_data: Any) -> None:
        """Write the outputs, `out_data[0][:] = value`."""
        out_data[0][:] = in_data[0]

    def backward(self, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any) -> None:
        """Write the gradients of the inputs, `in_grad[0][:] = value`."""
        in_grad[0][:] = 1.0

    def infer_shape(self, in_shape: Any) -> Any:
        """Return the shapes of inputs and of outputs from those of the inputs."""
        return in_shape, [in_shape[0]]

    def list_outputs(self) -> list[str]:
        """Return the names of the outputs."""
        return ["output"]

    def list_arguments(self) -> list[str]:
        """Return the names of the inputs."""
        return ["data"]

    def need_top_grad(self) -> bool:
        """Return whether `backward` reads the gradients of the outputs."""
        return self.need_top_grad_


class NumpyOp(PythonOp):
    """A PythonOp whose arrays are NumPy's."""

    def get_symbol(self, *args: Any, **kwargs: Any) -> Any:
        """Return the symbol of the operator on symbols."""
        return PythonOp.as_symbol(self, args, kwargs, lambda array: array.asnumpy())


class NDArrayOp(PythonOp):
    """A PythonOp whose arrays are NDArrays."""

    def get_symbol(self, *args: Any, **kwargs: Any) -> Any:
        """Return the symbol of the operator on symbols."""
        return PythonOp.as_symbol(self, args, kwargs, lambda array: array.copy())

    def declare_backward_dependency(self, out_grad: list[int], in_data: list[int], out_data: list[int]) -> list[int]:
        """Return the numbers of arrays that `backward` reads in MXNet, which drops the others; here it has all of
        them."""
        return [*(out_grad if self.need_top_grad() else ()), *in_data, *out_data]
