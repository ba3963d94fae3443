"""Convolutions and their gradients, channels last, by several algorithms: the same numbers at different speeds.

data (n, *size, c), weight (*kernel, c / g, f). `symjax_nnvm/algorithms.py` says where each algorithm can be used, and
chooses one.
"""

from lowering.convolutions.directions import data_gradient, forward, forward_transformed, has_library, weight_gradient
from lowering.convolutions.winograd import winograd_weight, winograd_weight_adjoint

__all__ = [
    "data_gradient",
    "forward",
    "forward_transformed",
    "has_library",
    "weight_gradient",
    "winograd_weight",
    "winograd_weight_adjoint",
]
