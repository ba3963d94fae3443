"""Cases of turned images. MXNet's gradients are of images that were not turned."""

from tests.cases import Case, T

_BYTES = {"dtype": "uint8", "kind": "integers", "low": 0, "high": 256}
_MENDED = "MXNet does not turn the gradient"
_OWN = "draws its own numbers"
_BLOCKED = "the head gradient is handed on as it is, as in MXNet"

_SAME = {"kind": "integers", "low": 7, "high": 8}
_MIDDLE = "MXNet leaves the middle as it was in the memory"
_WAYS = ("left_right", "top_bottom")

CASES = [
    *[Case(f"_image_flip_{way}", (T(4, 6, 3),), wrt=()) for way in _WAYS],
    *[Case(f"_image_flip_{way}", (T(2, 2, 1, **_BYTES),), wrt=()) for way in _WAYS],
    *[Case(f"_image_flip_{way}", (T(4, 2, 3),), no_mxnet=_MENDED) for way in _WAYS],
    *[Case(f"_image_flip_{way}", (T(3, 5, 3),), no_mxnet=_MIDDLE) for way in _WAYS],
    *[Case(f"_image_random_flip_{way}", (T(3, 4, 3),), not_derivative=_BLOCKED, no_mxnet=_OWN) for way in _WAYS],
    # turned or not, these are the same
    *[Case(f"_image_random_flip_{way}", (T(2, 4, 3, **_SAME),), not_derivative=_BLOCKED) for way in _WAYS],
    *[Case(f"_image_random_flip_{way}", (T(4, 2, 1, dtype="uint8", **_SAME),), wrt=()) for way in _WAYS],
]
