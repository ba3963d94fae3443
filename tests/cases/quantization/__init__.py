"""Cases: arithmetic of 8-bit networks."""

from typing import Any

from tests.cases import Case, T, Tensor


def signed(*shape: int) -> Tensor:
    """An array of int8."""
    return T(*shape, kind="integers", low=-127, high=128, dtype="int8")


def unsigned(*shape: int) -> Tensor:
    """An array of uint8."""
    return T(*shape, kind="integers", low=0, high=256, dtype="uint8")


LOW, HIGH, ZERO = T(1, low=-2, high=-1), T(1, low=1, high=2), T(1, low=0, high=1, kind="integers")
"""Ends of ranges."""


def case(op: str, *inputs: Tensor, tag: str = "", graph: Any = None, no_mxnet: str = "", **params: Any) -> Case:
    """A case at inference, where gradients end."""
    return Case(op, inputs, params, wrt=(), is_train=False, tag=tag, graph=graph, no_mxnet=no_mxnet)
