"""Cases of the functions of one array."""

from tests.cases import Case, T

_ANYWHERE = {"low": -2.0, "high": 2.0}
_POSITIVE = {"low": 0.3, "high": 3.0}
_NOT_ZERO = {"low": 0.3, "high": 2.0, "kind": "signs"}
_INSIDE_ONE = {"low": -0.9, "high": 0.9}
# Between the integers and their halves, where rounding has no step.
_NO_STEP = {"low": 2.05, "high": 2.45}

_DOMAINS = {
    **dict.fromkeys(("negative", "square", "exp", "expm1", "sin", "cos", "arctan", "degrees", "radians"), _ANYWHERE),
    **dict.fromkeys(("sinh", "cosh", "tanh", "arcsinh", "erf", "sigmoid", "_copy", "BlockGrad"), _ANYWHERE),
    **dict.fromkeys(("sqrt", "rsqrt", "log", "log10", "log2", "gamma", "gammaln"), _POSITIVE),
    **dict.fromkeys(("abs", "reciprocal", "cbrt", "rcbrt", "relu", "softsign", "sign", "logical_not"), _NOT_ZERO),
    **dict.fromkeys(("arcsin", "arccos", "arctanh", "erfinv", "log1p"), _INSIDE_ONE),
    "tan": {"low": -1.2, "high": 1.2},
    "arccosh": {"low": 1.3, "high": 4.0},
    **dict.fromkeys(("rint", "round", "ceil", "floor", "trunc", "fix"), _NO_STEP),
}

_KINK = "the values show the steps, where there is no derivative"
_STAIRCASE = "rounded to fewer digits the function is a staircase; the gradient is that of the identity, as in MXNet"
_BLOCKED = {"BlockGrad": "it blocks the gradient of the identity, which is its purpose"}
_HALF = "float16 has 11 bits, and MXNet rounds its intermediate results differently"

_NUMPY = {
    op: f"_npi_{op}" for op in _DOMAINS if op not in ("rsqrt", "gamma", "gammaln", "rcbrt", "softsign", "erf", "erfinv")
} | {"abs": "_npi_absolute", "relu": "_npx_relu", "sigmoid": "_npx_sigmoid"}
for _op in ("_copy", "BlockGrad", "round", "logical_not"):
    del _NUMPY[_op]

CASES = [
    # the NumPy dialect: the same functions
    *[Case(op, (T(2, 3, **_DOMAINS[name]),)) for name, op in _NUMPY.items()],
    *[Case(op, (T(),)) for op in ("_npi_exp", "_npi_negative", "_npx_relu", "_npi_sign")],
    Case("_npi_tanh", (T(2, 0),), wrt=()),
    Case("_npi_exp", (T(3, low=1, high=9, kind="integers", dtype="int32"),)),
    Case("_npi_rint", (T(4, 5, low=-30, high=30),), smooth=False, tag="any"),
    *[Case(op, (T(3, 4, **domain),), not_derivative=_BLOCKED.get(op, "")) for op, domain in _DOMAINS.items()],
    *[
        Case(op, (T(5, dtype="float64", **domain),), not_derivative=_BLOCKED.get(op, ""))
        for op, domain in _DOMAINS.items()
    ],
    *[
        Case(op, (T(6, dtype="float16", **domain),), rtol=2e-3, rtol_reason=_HALF, not_derivative=_BLOCKED.get(op, ""))
        for op, domain in _DOMAINS.items()
    ],
    # other ranks
    Case("exp", (T(1),)),
    Case("tanh", (T(2, 1, 3, 2),)),
    # both sides of the steps and kinks
    Case("relu", (T(4, 5, low=-2, high=3, kind="integers", dtype="float32"),), not_derivative=_KINK),
    Case("abs", (T(4, 5, low=-2, high=3, kind="integers", dtype="float32"),), not_derivative=_KINK),
    Case("sign", (T(4, 5, low=-2, high=3, kind="integers", dtype="float32"),), not_derivative=_KINK),
    Case("logical_not", (T(4, 5, low=-2, high=3, kind="integers", dtype="float32"),), not_derivative=_KINK),
    *[
        Case(op, (T(4, 5, low=-30, high=30),), smooth=False, tag="any")
        for op in ("rint", "round", "ceil", "floor", "trunc", "fix")
    ],
    # reflection of Γ
    Case("gamma", (T(2, 3, low=-1.9, high=-1.1),), smooth=False, tag="negative"),
    Case("gammaln", (T(2, 3, low=-2.9, high=-2.1),), smooth=False, tag="negative"),
    Case("gamma", (T(5, low=3.0, high=9.0),)),
    # integers
    *[
        Case(op, (T(3, 4, low=-4, high=5, kind="integers", dtype=dtype),))
        for op in ("abs", "negative", "square", "sign", "relu", "logical_not", "_copy", "BlockGrad", "rint", "floor")
        for dtype in ("int32", "int8")
    ],
    *[
        Case(op, (T(3, 3, low=0, high=9, kind="integers", dtype="uint8"),))
        for op in ("abs", "negative", "sign", "relu", "logical_not", "round", "trunc")
    ],
    *[
        Case(op, (T(3, 4, low=1, high=9, kind="integers", dtype="int32"),))
        for op in ("sqrt", "exp", "log", "sin", "degrees", "sigmoid", "reciprocal", "arctan")
    ],
    # functions with parameters
    Case("clip", (T(4, 5, low=-2.0, high=2.0),), {"a_min": -1.0, "a_max": 0.7}),
    Case("clip", (T(4, 5, low=-2.0, high=2.0, dtype="float64"),), {"a_min": -0.1, "a_max": 10.0}),
    Case("clip", (T(4, low=-2.0, high=2.0, dtype="float16"),), {"a_min": -0.5, "a_max": 0.5}),
    Case("clip", (T(4, 4, low=-3, high=4, kind="integers", dtype="int32"),), {"a_min": -1.5, "a_max": 2.7}),
    Case("clip", (T(4, 4, low=-3, high=4, kind="integers"),), {"a_min": -1.0, "a_max": 2.0}, not_derivative=_KINK),
    *[Case("smooth_l1", (T(4, 5, low=-2.0, high=2.0),), {"scalar": scalar}) for scalar in (1.0, 2.0, 0.6)],
    Case("smooth_l1", (T(4, low=-2.0, high=2.0, dtype="float64"),), {"scalar": 1.5}),
    Case("smooth_l1", (T(6, low=-4, high=5, kind="integers", dtype="int32"),), {"scalar": 1.5}),
    Case("hard_sigmoid", (T(3, 4, low=-4.0, high=4.0),)),
    Case("hard_sigmoid", (T(3, 4, low=-1.0, high=1.0),), {"alpha": 1.2, "beta": 0.4}),
    Case("hard_sigmoid", (T(3, 4, low=-1.0, high=1.0, dtype="float64"),), {"alpha": -0.7}),
    # our own: the derivatives of log Γ
    *[
        Case("_polygamma", (T(5, low=0.4, high=4.0),), {"n": n}, no_mxnet="MXNet has no such operator")
        for n in (0, 1, 2)
    ],
    # casts
    *[
        Case("Cast", (T(3, 4, low=-9.0, high=9.0),), {"dtype": dtype}, not_derivative=_STAIRCASE)
        for dtype in ("float16", "float32", "int32", "int64", "int8")
    ],
    Case("Cast", (T(3, 4, low=-9.0, high=9.0),), {"dtype": "float64"}),
    Case("Cast", (T(3, 4, low=0.0, high=9.0),), {"dtype": "uint8"}, not_derivative=_STAIRCASE),
    Case("Cast", (T(4, low=-2, high=2, kind="integers", dtype="int32"),), {"dtype": "bool"}),
    Case("Cast", (T(4, low=-2, high=2, kind="integers", dtype="int32"),), {"dtype": "float32"}),
    Case("Cast", (T(4, low=-2, high=2, dtype="float16"),), {"dtype": "float32"}, not_derivative=_STAIRCASE),
    Case(
        "Cast", (T(4),), {"dtype": "bfloat16"}, no_mxnet="bfloat16 arrays cannot be stored", not_derivative=_STAIRCASE
    ),
    Case("_cast_like", (T(3, 4), T(2, dtype="float64")), no_mxnet="MXNet has no such operator"),
    Case("_cast_like", (T(3, 4), T(3, 4, dtype="float16")), no_mxnet="MXNet has no such operator", wrt=()),
    Case("_identity_with_attr_like_rhs", (T(3, 4), T(3, 4))),
]
