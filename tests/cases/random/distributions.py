"""Cases of the draws. Where only one value can be drawn MXNet is the judge.

`tests/ops/random/test_distributions.py` holds everything else against the distributions.
"""

from tests.cases import Case, T

_OWN = "draws its own numbers"
_BLOCKED = "nothing flows through a draw, as in MXNet"

_POSITIVE = {"low": 0.5, "high": 3.0}
_SHARE = {"low": 0.2, "high": 0.8}
_ZERO = {"low": 0.0, "high": 0.0}
_ONE = {"low": 1.0, "high": 1.0}

# Parameters as numbers, and the domains of parameters as arrays, where these are not in _CERTAIN.
_DOMAINS = {
    "exponential": ({"lam": 2.0}, (_POSITIVE,)),
    "gamma": ({"alpha": 2.5, "beta": 0.5}, (_POSITIVE, _POSITIVE)),
    "generalized_negative_binomial": ({"mu": 3.0, "alpha": 0.4}, ()),
    "negative_binomial": ({"k": 3, "p": 0.4}, ()),
    "normal": ({"loc": -1.0, "scale": 2.0}, ({"low": -2.0, "high": 2.0}, _POSITIVE)),
    "poisson": ({"lam": 4.0}, (_POSITIVE,)),
    "uniform": ({"low": -2.0, "high": 3.0}, ()),
}

# Parameters that leave no choice.
_CERTAIN = {
    "generalized_negative_binomial": ({"mu": 0.0}, (_ZERO, _ONE)),
    "negative_binomial": ({"k": 0, "p": 0.5}, (_ZERO, _SHARE)),
    "normal": (None, (_ONE, _ZERO)),
    "poisson": ({"lam": 0.0}, (_ZERO,)),
    "uniform": ({"low": 1.5, "high": 1.5}, (_ONE, _ONE)),
}


def sample(name: str, domains: tuple, params: dict | None = None, dtype: str = "float32", **kwargs) -> Case:
    """`_sample_*` of parameters (2, 3)."""
    inputs = tuple(T(2, 3, dtype=dtype, **domain) for domain in domains)
    return Case(f"_sample_{name}", inputs, params or {}, not_derivative=_BLOCKED, **kwargs)


CASES = [
    *[
        Case(f"_random_{name}", (), {**numbers, "shape": (2, 3)}, no_mxnet=_OWN)
        for name, (numbers, _) in _DOMAINS.items()
    ],
    *[
        Case(f"_random_{name}_like", (T(2, 3),), numbers, wrt=(), no_mxnet=_OWN)
        for name, (numbers, _) in _DOMAINS.items()
    ],
    *[
        sample(name, _DOMAINS[name][1], {"shape": (4,)}, no_mxnet=_OWN)
        for name in ("exponential", "gamma", "normal", "poisson")
    ],
    *[
        Case(f"_random_{name}", (), {**numbers, "shape": (2, 2), "dtype": dtype})
        for (name, (numbers, _)), dtype in zip(
            _CERTAIN.items(), ("float16", "float32", "", "float64", None), strict=True
        )
        if numbers is not None
    ],
    *[
        sample(name, domains, params)
        for (name, (_, domains)), params in zip(
            _CERTAIN.items(),
            ({}, {"shape": (2,)}, {"shape": (2, 2), "dtype": "float64"}, {"dtype": "float16"}, {"shape": (1,)}),
            strict=True,
        )
    ],
    sample("normal", (_ONE, _ZERO), {"shape": (2,)}, "float64"),
    sample("normal", (_ONE, _ZERO), {"shape": (2,)}, "float16"),
    Case("_sample_poisson", (T(2, dtype="int32", kind="integers", low=0, high=1),), {"shape": (2,)}, wrt=()),
    Case("_random_exponential", (), {"shape": (2, 3), "dtype": "float16"}, no_mxnet=_OWN),
    Case("_random_gamma", (), {"shape": (2, 3), "dtype": "float64"}, no_mxnet=_OWN),
    Case("_random_uniform_like", (T(2, 3, dtype="float16"),), wrt=(), no_mxnet=_OWN),
    Case("_random_normal_like", (T(2, 3, dtype="float64"),), wrt=(), no_mxnet=_OWN),
    Case("_random_randint", (), {"low": -3, "high": 9, "shape": (2, 3)}, no_mxnet=_OWN),
    Case("_random_randint", (), {"low": 7, "high": 8, "shape": (2, 3)}),
    Case("_random_randint", (), {"low": -7, "high": -6, "shape": (2,), "dtype": "int64"}),
]
