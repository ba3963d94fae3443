"""Cases of images as networks take them."""

from tests.cases import Case, T

_BYTES = {"dtype": "uint8", "kind": "integers", "low": 0, "high": 256}
_NO_GRADIENT = "MXNet's gradient stops with an error"
_STAIRCASE = "the result is float32, whatever the dtype: a staircase to finite differences in float64"
_HALF = {"rtol": 1e-3, "rtol_reason": "one unit in the last place of float16"}
_THREE = {"mean": (0.5, 0.4, 0.3), "std": (0.25, 0.5, 2.0)}

CASES = [
    Case("_image_to_tensor", (T(3, 4, 3, **_BYTES),), wrt=()),
    Case("_image_to_tensor", (T(2, 3, 4, 1, **_BYTES),), wrt=()),
    Case("_image_to_tensor", (T(2, 3, 5, low=0.0, high=255.0),), wrt=()),
    Case("_image_to_tensor", (T(2, 3, 3, dtype="float16", low=0.0, high=255.0),), wrt=(), **_HALF),
    Case("_image_to_tensor", (T(3, 2, 3),), no_mxnet=_NO_GRADIENT, not_derivative=_STAIRCASE, tag="gradient"),
    Case("_image_to_tensor", (T(2, 3, 2, 1),), no_mxnet=_NO_GRADIENT, not_derivative=_STAIRCASE, tag="gradient"),
    Case("_image_normalize", (T(3, 2, 4),), _THREE),
    Case("_image_normalize", (T(2, 3, 2, 2),), {"mean": (0.5,), "std": (2.0,)}),
    Case("_image_normalize", (T(2, 1, 2, 2),), {"mean": (0.5,), "std": (4.0,)}),
    Case("_image_normalize", (T(3, 2, 2),), {"mean": (0.5,), "std": (1.0, 2.0, 4.0)}),
    Case("_image_normalize", (T(3, 2, 2, **_BYTES),), {"mean": (1.5,), "std": (2.0,)}, wrt=()),
    Case("_image_normalize", (T(3, 2, 2, dtype="float64"),), _THREE),
    Case("_image_normalize", (T(3, 2, 2, dtype="float16"),), _THREE, **_HALF),
]
