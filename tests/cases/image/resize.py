"""Cases of images in other sizes, and of rectangles of them."""

from tests.cases import Case, T

_BYTES = {"dtype": "uint8", "kind": "integers", "low": 0, "high": 256}
_NO_GRADIENT = "MXNet's gradient stops with an error"
_BYTE = {"rtol": 6e-3, "rtol_reason": "the ONNX form computes bytes as floating-point numbers"}
_UNKNOWN = "MXNet hands OpenCV this dtype as another one"
_CUT = {"x": 1, "y": 2, "width": 3, "height": 2}

CASES = [
    *[
        Case("_image_resize", (T(5, 7, 3, low=0.0, high=255.0),), {"size": size, "interp": interp}, wrt=())
        for interp in range(5)
        for size in ((3, 2), (9, 12), (10, 4))
    ],
    *[
        Case("_image_resize", (T(6, 8, 3, **_BYTES),), {"size": size, "interp": interp}, wrt=(), **_BYTE)
        for interp in range(5)
        for size in ((4, 3), (11, 9))
    ],
    Case("_image_resize", (T(2, 4, 6, 1, low=0.0, high=1.0),), {"size": (5,)}, wrt=()),
    Case("_image_resize", (T(6, 4, 3, low=0.0, high=1.0),), {"size": 3, "keep_ratio": True}, wrt=()),
    Case("_image_resize", (T(4, 7, 3, low=0.0, high=1.0),), {"size": 3, "keep_ratio": True}, wrt=()),
    *[
        Case("_image_resize", (T(3, 4, 1),), {"size": size, "interp": interp}, no_mxnet=_NO_GRADIENT)
        for interp in range(5)
        for size in ((2, 2), (5, 6))
    ],
    Case("_image_resize", (T(2, 3, 4, 2),), {"size": (5, 2)}, no_mxnet=_NO_GRADIENT),
    Case("_image_resize", (T(3, 4, 1, dtype="float16"),), {"size": (5, 6)}, no_mxnet=_UNKNOWN, rtol=1e-3,
         rtol_reason="one unit in the last place of float16"),
    Case("_image_resize", (T(3, 4, 1, dtype="float64"),), {"size": (5, 6)}, no_mxnet=_UNKNOWN),
    Case("_image_crop", (T(5, 6, 3),), _CUT),
    Case("_image_crop", (T(2, 4, 4, 1),), _CUT),
    Case("_image_crop", (T(5, 6, 3, **_BYTES),), _CUT, wrt=()),
    Case("_image_crop", (T(4, 4, 1, dtype="float64"),), {"x": 0, "y": 0, "width": 4, "height": 4}),
]  # fmt: skip
