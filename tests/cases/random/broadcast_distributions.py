"""Cases of the NumPy dialect's draws. Where only one value can be drawn MXNet is the judge.

`tests/ops/random/test_broadcast_distributions.py` holds everything else against the distributions.
"""

from tests.cases import Case, T

_OWN = "draws its own numbers"
_BLOCKED = "nothing flows through a draw, as in MXNet"
NARROW = "draws of float32, whose differences are too coarse"
_WIDE = {"dtype": "float64"}
_POSITIVE = T(2, 1, low=0.5, high=3.0)

_LOCATION_SCALE = ("_npi_normal", "_npi_gumbel", "_npi_logistic")
_BOTH = {"loc": None, "scale": None}

CASES = [
    *[Case(op, (), {"loc": -1.0, "scale": 2.0, "size": (2, 3)}, no_mxnet=_OWN) for op in _LOCATION_SCALE],
    *[Case(op, (T(3), _POSITIVE), {**_BOTH, **_WIDE}, no_mxnet=_OWN) for op in ("_npi_normal", "_npi_normal_n")],
    *[
        Case(op, (T(3), _POSITIVE), _BOTH, not_derivative=NARROW, no_mxnet=_OWN)
        for op in ("_npi_gumbel", "_npi_logistic")
    ],
    Case("_npi_normal", (_POSITIVE,), {"loc": 1.0, "scale": None, "size": (2, 4), **_WIDE}, no_mxnet=_OWN),
    Case("_npi_normal_n", (T(3),), {"loc": None, "scale": 2.0, "size": (2,), **_WIDE}, no_mxnet=_OWN),
    Case("_npi_normal_n", (), {"loc": 1.0, "scale": 2.0, "size": (2,), "dtype": "float16"}, no_mxnet=_OWN),
    *[Case(op, (), {"scale": 2.0, "size": (3,)}, no_mxnet=_OWN) for op in ("_npi_exponential", "_npi_rayleigh")],
    *[
        Case(op, (_POSITIVE,), {"scale": None}, not_derivative=NARROW, no_mxnet=_OWN)
        for op in ("_npi_exponential", "_npi_rayleigh")
    ],
    *[
        Case(op, (_POSITIVE,), {"size": (2, 3)}, not_derivative=NARROW, no_mxnet=_OWN)
        for op in ("_npi_pareto", "_npi_weibull")
    ],
    *[Case(op, (), {"a": 2.0}, no_mxnet=_OWN) for op in ("_npi_pareto", "_npi_weibull", "_npi_powerd")],
    Case("_npi_powerd", (_POSITIVE,), {}, not_derivative=_BLOCKED, no_mxnet=_OWN),
    *[
        Case(op, (T(3), _POSITIVE), {"low": None, "high": None}, not_derivative=_BLOCKED, no_mxnet=_OWN)
        for op in ("_npi_uniform", "_npi_uniform_n")
    ],
    *[
        Case(op, (), {"low": -1.0, "high": 2.0, "size": (2, 2)}, no_mxnet=_OWN)
        for op in ("_npi_uniform", "_npi_uniform_n")
    ],
    Case("_npi_gamma", (_POSITIVE,), {"shape": None, "scale": 2.0}, not_derivative=_BLOCKED, no_mxnet=_OWN),
    Case("_npi_gamma", (), {"shape": 2.0, "scale": 0.5, "size": (3,), "dtype": "float64"}, no_mxnet=_OWN),
    Case("_npi_bernoulli", (), {"prob": 0.4, "logit": None, "is_logit": False, "size": (4,)}, no_mxnet=_OWN),
    Case(
        "_npi_bernoulli",
        (T(2, 3),),
        {"prob": None, "logit": None, "is_logit": True, "dtype": "bool"},
        wrt=(),
        no_mxnet=_OWN,
    ),
    Case("_npi_choice", (), {"a": 5, "size": (2, 3)}, no_mxnet=_OWN),
    Case("_npi_choice", (), {"a": 5, "size": (3,), "replace": False}, no_mxnet=_OWN),
    Case("_npi_choice", (T(4, 2),), {"a": None, "size": None}, wrt=(), no_mxnet=_OWN),
    Case("_npi_choice", (T(4, low=0.1),), {"a": 4, "size": (6,), "weighted": True}, wrt=(), no_mxnet=_OWN),
    Case("_npi_multinomial", (), {"n": 5, "pvals": (0.2, 0.3, 0.5)}, no_mxnet=_OWN),
    Case("_npi_multinomial", (T(3, low=0.1, high=0.3),), {"n": 5, "size": (2, 2)}, wrt=(), no_mxnet=_OWN),
    # parameters that leave no choice
    Case("_npi_normal", (), {"loc": 1.5, "scale": 0.0, "size": (2, 0)}),
    Case("_npi_normal", (T(3),), {"loc": None, "scale": 0.0}, not_derivative=NARROW),
    Case(
        "_npi_normal_n", (T(3, dtype="float32"),), {"loc": None, "scale": 0.0, "size": (2,), "dtype": "float64"}, wrt=()
    ),
    Case("_npi_uniform", (), {"low": 1.5, "high": 1.5}),
    Case("_npi_uniform_n", (T(2, low=1.0, high=1.0),), {"low": 1.0, "high": None, "size": (3,)}, wrt=()),
    Case("_npi_bernoulli", (), {"prob": 1.0, "logit": None, "is_logit": False, "dtype": "int32"}),
    Case("_npi_choice", (), {"a": 1, "size": None}),
    Case("_npi_multinomial", (), {"n": 4, "pvals": (0.0, 1.0), "size": (2,)}),
]
