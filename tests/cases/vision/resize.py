"""Cases of bilinear resizing, adaptive average pooling and cropping."""

from tests.cases import Case, T

_RESIZE, _POOL = "_contrib_BilinearResize2D", "_contrib_AdaptiveAvgPooling2D"
_HALF = {"rtol": 1e-3, "rtol_reason": "one unit in the last place of float16"}
_FLOAT32 = "MXNet's Crop takes float32 alone"

CASES = [
    *[
        Case(_RESIZE, (T(1, 2, 3, 4),), {"height": h, "width": w, "align_corners": align})
        for h, w in ((5, 7), (2, 3))
        for align in (True, False)
    ],
    Case(_RESIZE, (T(1, 1, 3, 4),), {"height": 3, "width": 1}),
    Case(_RESIZE, (T(1, 1, 4, 5),), {"scale_height": 1.5, "scale_width": 0.7}),
    Case(_RESIZE, (T(1, 2, 4, 3), T(2, 1, 5, 2)), {"mode": "like"}),
    Case(_RESIZE, (T(1, 1, 4, 3),), {"mode": "odd_scale", "scale_height": 1.5, "scale_width": 1.7}),
    *[
        Case(_RESIZE, (T(1, 1, 4, 3),), {"mode": mode, "align_corners": align})
        for mode, align in (("to_even_down", True), ("to_even_up", False), ("to_odd_down", True), ("to_odd_up", False))
    ],
    Case(_RESIZE, (T(1, 1, 2, 3, dtype="float64"),), {"height": 4, "width": 4}),
    Case(_RESIZE, (T(1, 1, 2, 3, dtype="float16"),), {"height": 4, "width": 4}, **_HALF),
    Case(_POOL, (T(2, 2, 3, 4),)),
    Case(_POOL, (T(1, 2, 4, 6),), {"output_size": (2, 3)}),
    Case(_POOL, (T(1, 2, 5, 4),), {"output_size": (3,)}),
    Case(_POOL, (T(1, 1, 2, 3),), {"output_size": (4, 5)}),
    Case(_POOL, (T(1, 1, 3, 4, dtype="float64"),), {"output_size": (2, 2)}),
    Case(_POOL, (T(1, 1, 3, 4, dtype="float16"),), {"output_size": (2, 2)}, **_HALF),
    Case("Crop", (T(1, 2, 4, 5),), {"num_args": 1, "h_w": (2, 3)}),
    Case("Crop", (T(1, 2, 4, 5),), {"num_args": 1, "h_w": (2, 3), "offset": (1, 2)}),
    Case("Crop", (T(1, 2, 5, 6),), {"num_args": 1, "h_w": (2, 3), "offset": (3, 3), "center_crop": True}),
    Case("Crop", (T(1, 2, 4, 5), T(2, 3, 2, 2)), {"num_args": 2, "offset": (1, 2)}),
    Case("Crop", (T(1, 2, 4, 5), T(1, 1, 4, 2)), {"num_args": 2, "h_w": (1, 1), "center_crop": True}),
    Case("Crop", (T(1, 1, 3, 3, dtype="float64"),), {"num_args": 1, "h_w": (2, 2)}, no_mxnet=_FLOAT32),
]
