"""Cases of the operators that put new values where a mask holds."""

from tests.cases import Case, T

_IN_PLACE = "MXNet's works in place only; tests/ops/indexing/test_mask_assign.py has its results"


def _mask(*shape: int, low: int = 1):
    return T(*shape, kind="integers", low=low, high=2, dtype="bool")


CASES = [
    Case(
        "_npi_boolean_mask_assign_scalar",
        (T(2, 3), _mask(2, 3, low=0)),
        {"value": 2.5, "start_axis": 0},
        no_mxnet=_IN_PLACE,
    ),
    Case(
        "_npi_boolean_mask_assign_scalar",
        (T(2, 3), _mask(3, low=0)),
        {"value": 2.5, "start_axis": 1},
        no_mxnet=_IN_PLACE,
    ),
    *[
        Case(
            "_npi_boolean_mask_assign_tensor",
            (T(2, 3), _mask(*mask), T(*value)),
            {"start_axis": axis},
            no_mxnet=_IN_PLACE,
        )
        for mask, value, axis in (
            *(((2, 3), (6,), 0), ((2, 3), (1,), 0), ((3,), (2, 3), 1), ((2,), (3,), 0)),
            *(((2,), (), 0), ((3,), (2, 1), 1)),
        )
    ],
    Case("_values_at_mask", (T(2, 3), _mask(2, 3), T(6)), {"start_axis": 0}, wrt=(0,), no_mxnet="an operator of ours"),
]
