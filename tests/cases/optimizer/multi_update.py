"""Cases of the optimisers' updates of many weights, and of LARS."""

from typing import Any

from tests.cases import Case, T, Tensor

_HALF = "float16 keeps 11 bits, and MXNet rounds every step to them"
_MISREAD = "MXNet reads float32 learning rates as if they had the dtype of the weights; mended"

_SHAPES = ((2, 3), (4,))
_POSITIVE = {"low": 0.1, "high": 1.0}


def _multi(op: str, each: str, dtype: str = "float32", single: str = "", **given: Any) -> Case:
    """A case of two weights; the inputs named in `single` are float32 whatever the others are.

    shared: inputs after all weights.
    """
    shared: tuple[Tensor, ...] = given.pop("shared", ())
    names = each.split()
    # MXNet's graphs cannot infer what the outputs are.
    fields: dict[str, Any] = {"writes_over": (0, len(names)), "no_mxnet": given.pop("no_mxnet", "")}
    inputs = [
        T(*shape, dtype="float32" if name in single.split() else dtype, **(_POSITIVE if name == "var" else {}))
        for shape in _SHAPES
        for name in names
    ]
    if dtype == "float16":
        fields |= {"rtol": 4e-3, "rtol_reason": _HALF}
    count = "num_tensors" if "lamb" in op else "num_weights"
    return Case(op, (*inputs, *shared), {**given, count: 2}, wrt=(), **fields)


_SGD = {"lrs": (0.1, 0.2), "wds": (0.3, 0.0), "rescale_grad": 0.5, "clip_gradient": 0.2}
_MOM = {**_SGD, "momentum": 0.9}
_PRELOADED = {"rescale_grad": 0.5, "clip_gradient": 0.2, "shared": (T(2, **_POSITIVE), T(2, **_POSITIVE))}
_PRELOADED_MOM = {**_PRELOADED, "momentum": 0.9}
_ADAM = {"beta1": 0.7, "beta2": 0.8, "epsilon": 0.1, "wds": (0.3, 0.0), "clip_gradient": 0.2}
_ADAMW = {**_ADAM, "lrs": (0.1, 0.2), "etas": (0.5, 0.7)}
_LAMB = {**_ADAM, "learning_rates": (0.1, 0.2), "rescale_grad": 0.5, "step_count": (3, 1), "upper_bound": 1.3}

CASES = [
    *[_multi("multi_sgd_update", "weight grad", dtype, **_SGD) for dtype in ("float32", "float16")],
    Case("multi_sgd_update", (T(3), T(3)), {"lrs": (0.1,), "wds": (0.3,)}, wrt=(), writes_over=(0,)),
    _multi("multi_sgd_mom_update", "weight grad mom", **_MOM),
    _multi("multi_mp_sgd_update", "weight grad weight32", "float16", "weight32", **_SGD),
    _multi("multi_mp_sgd_mom_update", "weight grad mom weight32", "float16", "mom weight32", **_MOM),
    *[_multi("preloaded_multi_sgd_update", "weight grad", t, **_PRELOADED) for t in ("float32", "float16", "float64")],
    _multi("preloaded_multi_sgd_mom_update", "weight grad mom", **_PRELOADED_MOM),
    _multi("preloaded_multi_mp_sgd_update", "weight grad weight32", "float16", "weight32", **_PRELOADED),
    _multi(
        "preloaded_multi_mp_sgd_mom_update", "weight grad mom weight32", "float16", "mom weight32", **_PRELOADED_MOM
    ),
    _multi("_multi_adamw_update", "weight grad mean var", **_ADAMW, shared=(T(1, **_POSITIVE),)),
    *[
        _multi(
            "_multi_adamw_update",
            "weight grad mean var",
            dtype,
            **_ADAMW,
            shared=(T(1, dtype=dtype, **_POSITIVE),),
            no_mxnet=_MISREAD,
        )
        for dtype in ("float16", "float64")
    ],
    _multi(
        "_multi_mp_adamw_update",
        "weight grad mean var weight32",
        "float16",
        "mean var weight32",
        **_ADAMW,
        shared=(T(1, **_POSITIVE),),
    ),
    *[_multi("_multi_lamb_update", "weight grad mean var", t, **_LAMB) for t in ("float32", "float16", "float64")],
    _multi("_multi_lamb_update", "weight grad mean var", **_LAMB, bias_correction=False, lower_bound=1.2),
    _multi("_multi_mp_lamb_update", "weight grad mean var weight32", "float16", "mean var weight32", **_LAMB),
    Case(
        "multi_lars", (T(4), T(4, **_POSITIVE), T(4, **_POSITIVE), T(4, **_POSITIVE)), {"eta": 0.3, "eps": 0.1}, wrt=()
    ),
    Case(
        "multi_lars",
        (T(4), T(4, low=0, high=2, kind="integers"), T(4, low=0, high=2, kind="integers"), T(4, **_POSITIVE)),
        {"eta": 0.3, "eps": 0.1, "rescale_grad": 0.5},
        wrt=(),
    ),
]
