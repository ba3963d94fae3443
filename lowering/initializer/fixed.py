"""Initialisers that draw nothing: Zero, One, Constant, Bilinear, LSTMBias."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from lowering.initializer.initializer_base import Initializer, Shape, alias, bilinear, register


@register
@alias("zeros")
class Zero(Initializer):
    """Sets weights to 0."""

    def __init__(self):
        super().__init__()

    def _init_weight(self, desc: str, shape: Shape, key: jax.Array | None) -> Any:
        return 0.0


@register
@alias("ones")
class One(Initializer):
    """Sets weights to 1."""

    def __init__(self):
        super().__init__()

    def _init_weight(self, desc: str, shape: Shape, key: jax.Array | None) -> Any:
        return 1.0


@register
class Constant(Initializer):
    """Sets weights to one value.

    Args:
        value: a number, or an array that broadcasts to the parameter's shape.
    """

    def __init__(self, value: Any):
        super().__init__(value=value)
        self.value = value

    def _init_weight(self, desc: str, shape: Shape, key: jax.Array | None) -> Any:
        return np.asarray(self.value)


@register
class Bilinear(Initializer):
    """Sets the weight (n, c, h, w) of an upsampling deconvolution to the kernel of bilinear interpolation."""

    def __init__(self):
        super().__init__()

    def _init_weight(self, desc: str, shape: Shape, key: jax.Array | None) -> Any:
        return bilinear(desc, shape)


@register
class LSTMBias(Initializer):
    """Sets the biases (4 h,) of an LSTM cell: those of the forget gate to one value, the others to 0.

    Args:
        forget_bias: the value; Jozefowicz et al. (2015) recommend 1.
    """

    def __init__(self, forget_bias: float = 1.0):
        super().__init__(forget_bias=forget_bias)
        self.forget_bias = forget_bias

    def _init_weight(self, desc: str, shape: Shape, key: jax.Array | None) -> Any:
        value = np.zeros(shape, np.float32)
        hidden = shape[0] // 4
        value[hidden : 2 * hidden] = self.forget_bias
        return value
