"""Convolutions and their gradients, channels last, by several algorithms: the same numbers at different speeds.

data (n, *size, c), weight (*kernel, c / g, f). ChooseAlgorithm chooses one.
"""

from lowering.convolutions.directions import data_gradient, forward, forward_transformed, weight_gradient
from lowering.convolutions.winograd import winograd_weight, winograd_weight_adjoint

__all__ = [
    "data_gradient",
    "forward",
    "forward_transformed",
    "weight_gradient",
    "winograd_weight",
    "winograd_weight_adjoint",
]
