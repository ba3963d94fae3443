"""Cases of the draws from what is listed. Where only one result is possible MXNet is the judge."""

from tests.cases import Case, T

_OWN = "draws its own numbers"
_ONE = {"low": 1.0, "high": 1.0}
_SOME = {"low": 0.1, "high": 0.4}

CASES = [
    Case("_sample_multinomial", (T(2, 4, **_SOME),), {"shape": (3,)}, wrt=(), no_mxnet=_OWN),
    Case("_sample_multinomial", (T(3, 5, **_SOME),), {"shape": (4,), "get_prob": True}, no_mxnet=_OWN),
    Case("_sample_multinomial", (T(4, **_SOME),), {"get_prob": True}, no_mxnet=_OWN),
    Case(
        "_sample_multinomial",
        (T(2, 2, 70, **_SOME),),
        {"shape": (3, 2), "dtype": "uint8"},
        wrt=(),
        no_mxnet=_OWN,
        tag="searched",
    ),
    # one class
    Case("_sample_multinomial", (T(1, **_ONE),), wrt=()),
    Case("_sample_multinomial", (T(2, 3, 1, **_ONE),), {"dtype": "float32"}, wrt=()),
    Case("_sample_multinomial", (T(2, 3, 1, **_ONE),), {"shape": (2, 2), "get_prob": True}),
    Case("_sample_multinomial", (T(1, **_ONE),), {"shape": (3,), "get_prob": True, "dtype": "float16"}),
    Case("_sample_multinomial", (T(2, 1, dtype="float16", **_ONE),), {"get_prob": True, "dtype": "uint8"}),
    Case("_sample_multinomial", (T(2, 1, dtype="float64", **_ONE),), {"get_prob": True, "dtype": "float64"}),
    Case(
        "_probability_of_draw",
        (T(2, 3), T(2, 4, kind="integers", low=0, high=3, dtype="int32")),
        wrt=(0,),
        no_mxnet="MXNet has no such operator",
    ),
    Case("_sample_unique_zipfian", (), {"range_max": 9, "shape": (2, 5)}, no_mxnet=_OWN),
    Case("_sample_unique_zipfian", (), {"range_max": 1, "shape": (3, 1)}),
    Case("_shuffle", (T(5, 2),), wrt=(), no_mxnet=_OWN),
    Case("_shuffle", (T(6),), wrt=(), no_mxnet=_OWN),
    Case("_shuffle", (T(1, 4),), wrt=()),
    Case("_shuffle", (T(1, 2, 2, dtype="float16"),), wrt=()),
    Case("_shuffle", (T(3, low=7, high=8, kind="integers", dtype="int32"),), wrt=()),
]
