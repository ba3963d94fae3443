"""Cases of the operators that shift, turn and surround arrays as NumPy does."""

from tests.cases import Case, T

_BACK = "MXNet turns the gradient on, not back"
_REFUSED = "MXNet has no gradient of it"
_WIDTHS = {"pad_width": ((1, 0), (0, 2))}

CASES = [
    Case("_np_roll", (T(2, 3),), {"shift": (2,)}),
    Case("_np_roll", (T(2, 3),), {"shift": (-1,), "axis": (1,)}),
    Case("_np_roll", (T(2, 3),), {"shift": (1, 5), "axis": (0, -1)}),
    Case("_np_roll", (T(2, 3),), {"shift": (1,), "axis": (0, 1)}),
    Case("_np_roll", (T(),), {"shift": (1,)}),
    *[Case("_npi_rot90", (T(2, 3),), {"k": k, "axes": (0, 1)}, wrt=()) for k in (1, -1)],
    Case("_npi_rot90", (T(2, 3),), {"k": 2, "axes": (0, 1)}),
    Case("_npi_rot90", (T(2, 3, 4),), {"k": 3, "axes": (2, 0)}, no_mxnet=_BACK),
    Case("_npi_pad", (T(2, 3),), _WIDTHS),
    Case("_npi_pad", (T(2, 3),), {**_WIDTHS, "mode": "constant", "constant_value": 2.5}),
    *[
        Case("_npi_pad", (T(2, 3),), {**_WIDTHS, "mode": mode}, wrt=())
        for mode in ("edge", "reflect", "symmetric", "maximum", "minimum")
    ],
    Case("_npi_pad", (T(2, 3),), {"pad_width": ((0, 0), (3, 5)), "mode": "reflect"}, no_mxnet=_REFUSED),
    Case("_npi_pad", (T(2, 3),), {"pad_width": ((1, 2),), "mode": "edge"}, no_mxnet=_REFUSED),
    Case("_npi_pad", (T(3),), {"pad_width": ((2, 4),), "mode": "symmetric"}, no_mxnet=_REFUSED),
    Case("_npi_pad", (T(2, 3),), {"pad_width": ((1, 2),), "mode": "maximum"}, no_mxnet=_REFUSED),
    Case("_npi_pad", (T(3, 2),), {"pad_width": ((0, 3), (2, 1)), "mode": "minimum"}, no_mxnet=_REFUSED),
    Case("_pad_extremes", (T(2, 3), T(2, 3)), {**_WIDTHS, "mode": "maximum"}, wrt=(0,), no_mxnet="not MXNet's"),
]
