"""Cases of FullyConnected."""

from tests.cases import NO_HALF, Case, T, double, half

CASES = [
    Case("FullyConnected", (T(4, 5), T(3, 5), T(3)), {"num_hidden": 3}),
    Case("FullyConnected", (T(4, 2, 3), T(5, 6), T(5)), {"num_hidden": 5}),
    Case("FullyConnected", (T(4, 5), T(3, 5)), {"num_hidden": 3, "no_bias": True}),
    Case("FullyConnected", (T(2, 4, 5), T(3, 5), T(3)), {"num_hidden": 3, "flatten": False}),
    Case("FullyConnected", (T(2, 4, 5), T(3, 5)), {"num_hidden": 3, "flatten": False, "no_bias": True}),
    Case("FullyConnected", (T(2, 1, 2, 3), T(2, 3), T(2)), {"num_hidden": 2, "flatten": False}),
    Case("FullyConnected", (T(5), T(3, 1), T(3)), {"num_hidden": 3}),
    Case("FullyConnected", (T(5), T(3, 5), T(3)), {"num_hidden": 3, "flatten": False}),
    Case("FullyConnected", (T(1, 1), T(1, 1), T(1)), {"num_hidden": 1}),
    Case("FullyConnected", (double(4, 5), double(3, 5), double(3)), {"num_hidden": 3}),
    Case("FullyConnected", (half(4, 5), half(3, 5), half(3)), {"num_hidden": 3}, no_mxnet=NO_HALF),
]
