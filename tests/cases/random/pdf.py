"""Cases of the densities: each distribution, as density and as logarithm."""

from tests.cases import Case, T

_HALF = "float16 has 11 bits, and MXNet rounds every intermediate result to them"
_COUNTS = "the sample consists of counts: nothing flows to it, as in MXNet"

_ANY = {"low": -1.5, "high": 1.5}
_POSITIVE = {"low": 0.5, "high": 3.0}
_SHARE = {"low": 0.2, "high": 0.8}
_COUNT = {"low": 0, "high": 6, "kind": "integers"}

# The sample's domain, and that of each parameter.
_DOMAINS = {
    "dirichlet": (_SHARE, _POSITIVE),
    "exponential": (_POSITIVE, _POSITIVE),
    "gamma": (_POSITIVE, _POSITIVE, _POSITIVE),
    "generalized_negative_binomial": (_COUNT, _POSITIVE, _POSITIVE),
    "negative_binomial": (_COUNT, _POSITIVE, _SHARE),
    "normal": (_ANY, _ANY, _POSITIVE),
    "poisson": (_COUNT, _POSITIVE),
    "uniform": (_ANY, {"low": -3.0, "high": -2.0}, {"low": 2.0, "high": 3.0}),
}


def case(name: str, sample: tuple[int, ...], parameter: tuple[int, ...], dtype: str = "float32", **kwargs) -> Case:
    """A density of samples of one shape, under parameters of another."""
    of_sample, *others = _DOMAINS[name]
    inputs = (T(*sample, dtype=dtype, **of_sample), *(T(*parameter, dtype=dtype, **domain) for domain in others))
    if "wrt" not in kwargs and of_sample is _COUNT:
        kwargs["wrt"] = tuple(range(1, len(inputs)))
    return Case(f"_random_pdf_{name}", inputs, **kwargs)


_LOG = {"is_log": True}
_SCALARS = [name for name in _DOMAINS if name != "dirichlet"]

CASES = [
    *[case(name, (2, 4), (2,)) for name in _SCALARS],
    *[case(name, (2, 4), (2,), params=_LOG) for name in _SCALARS],
    *[
        case(name, (2, 4), (2,), wrt=None, not_derivative=_COUNTS, tag="to the sample")
        for name in _SCALARS
        if _DOMAINS[name][0] is _COUNT
    ],
    *[case(name, (3,), (3,), "float16", rtol=2e-3, rtol_reason=_HALF) for name in ("normal", "poisson")],
    *[case(name, (2, 3), (2,), "float64") for name in ("gamma", "negative_binomial")],
    case("normal", (2, 3, 2, 2), (2, 3)),
    case("gamma", (3,), (3,), params=_LOG),
    *[
        case("dirichlet", sample, parameter, params=params)
        for sample, parameter, params in (
            ((2, 4, 3), (2, 3), {}),
            ((2, 4, 3), (2, 3), _LOG),
            ((2, 2, 2, 3), (2, 3), _LOG),
            ((4, 3), (3,), {}),
            ((3,), (3,), _LOG),
        )
    ],
    case("dirichlet", (2, 2, 3), (2, 3), "float64"),
    case("dirichlet", (2, 2, 3), (2, 3), "float16", rtol=1e-2, rtol_reason=_HALF),
    Case("_repeat_over_samples", (T(2, 3), T(2, 3, 4)), wrt=(0,), no_mxnet="MXNet has no such operator"),
    Case(
        "_repeat_over_samples",
        (T(2, 3), T(2, 4, 3)),
        {"event_axes": 1},
        wrt=(0,),
        no_mxnet="MXNet has no such operator",
    ),
]
