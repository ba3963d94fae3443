"""Cases of changed colours. Where only one factor can be drawn MXNet is the judge."""

from tests.cases import Case, T

_BYTES = {"dtype": "uint8", "kind": "integers", "low": 0, "high": 256}
_COLOUR = {"low": 0.0, "high": 255.0}
_OWN = "draws its own numbers"
_BLOCKED = "the head gradient is handed on as it is, as in MXNet"
_BYTE = {"rtol": 4e-3, "rtol_reason": "a value next to a whole number is cut off to either byte"}
_HALF = {"rtol": 1e-3, "rtol_reason": "one unit in the last place of float16"}
_UNWRITTEN = "MXNet's result is what the memory held"

_FACTORS = {"brightness": (0.5, 1.75), "contrast": (0.5, 1.75), "saturation": (0.25, 1.5), "hue": (0.125, 0.3)}


def certain(name: str, factor: float, *shape: int, dtype: str = "float32", **kwargs) -> Case:
    """A factor that leaves no choice."""
    params = {"min_factor": factor, "max_factor": factor}
    image = T(*shape, **(_BYTES if dtype == "uint8" else {**_COLOUR, "dtype": dtype}))
    wrt = {"wrt": ()} if dtype == "uint8" else {"not_derivative": _BLOCKED}
    return Case(f"_image_random_{name}", (image,), params, **wrt, **kwargs)


_NOTHING = {"brightness": 0.0, "contrast": 0.0, "saturation": 0.0, "hue": 0.0}

CASES = [
    Case("_image_adjust_lighting", (T(2, 3, 3, **_COLOUR),), {"alpha": (0.1, -0.2, 0.3)}),
    Case("_image_adjust_lighting", (T(2, 3, 1, **_COLOUR),), {"alpha": (0.1, -0.2, 0.3)}, no_mxnet=_UNWRITTEN),
    Case("_image_adjust_lighting", (T(3, 3, 3, **_BYTES),), {"alpha": (1.0, -2.0, 0.5)}, wrt=(), **_BYTE),
    Case("_image_adjust_lighting", (T(2, 3, 3, dtype="float64"),), {"alpha": (0.1, -0.2, 0.3)}),
    Case("_image_adjust_lighting", (T(2, 2, 3, dtype="float16"),), {"alpha": (0.1, -0.2, 0.3)}, **_HALF),
    *[certain(name, factor, 3, 4, 3) for name, factors in _FACTORS.items() for factor in factors],
    *[certain(name, _FACTORS[name][1], 3, 2, 1) for name in ("brightness", "contrast", "saturation")],
    certain("hue", 0.3, 3, 2, 1, no_mxnet=_UNWRITTEN),
    *[certain(name, factors[1], 4, 4, 3, dtype="uint8", **_BYTE) for name, factors in _FACTORS.items()],
    *[certain(name, factors[0], 2, 2, 3, dtype="float16", **_HALF) for name, factors in _FACTORS.items()],
    *[
        Case(
            f"_image_random_{name}",
            (T(2, 3, 3, **_COLOUR),),
            {"min_factor": 0.2, "max_factor": 0.9},
            not_derivative=_BLOCKED,
            no_mxnet=_OWN,
        )
        for name in _FACTORS
    ],
    Case("_image_random_lighting", (T(2, 3, 3, **_COLOUR),), {"alpha_std": 0.0}, not_derivative=_BLOCKED),
    Case("_image_random_lighting", (T(2, 3, 3, **_COLOUR),), not_derivative=_BLOCKED, no_mxnet=_OWN),
    Case(
        "_image_random_color_jitter",
        (T(3, 4, 3, **_COLOUR),),
        {"brightness": 0.3, "contrast": 0.2, "saturation": 0.4, "hue": 0.1},
        not_derivative=_BLOCKED,
        no_mxnet=_OWN,
    ),
    Case(
        "_image_random_color_jitter", (T(3, 4, 3, **_COLOUR),), _NOTHING, not_derivative=_BLOCKED, no_mxnet=_UNWRITTEN
    ),
]
