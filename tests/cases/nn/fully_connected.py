"""Cases of FullyConnected."""

from tests.cases import Case, T

_NO_HALF = "MXNet has no float16 kernel for it on a CPU"

_NO_GRADIENT = "MXNet has no gradient of it"

_FLAGS = [(False, False), (True, False), (False, True), (True, True)]


def _transposes(a: bool, b: bool) -> dict[str, bool]:
    return {name: True for name, given in (("transpose_a", a), ("transpose_b", b)) if given}


def _double(*shape: int):
    return T(*shape, dtype="float64")


def _half(*shape: int):
    return T(*shape, dtype="float16")


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
    Case("FullyConnected", (_double(4, 5), _double(3, 5), _double(3)), {"num_hidden": 3}),
    Case("FullyConnected", (_half(4, 5), _half(3, 5), _half(3)), {"num_hidden": 3}, no_mxnet=_NO_HALF),
]
