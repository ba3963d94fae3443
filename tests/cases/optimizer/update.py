"""Cases of the optimisers' updates of one weight."""

from typing import Any

from tests.cases import Case, T, Tensor

_HALF = "float16 keeps 11 bits, and MXNet rounds every step to them"

# What an input is like when it is not uniform in [-1, 1): squares are positive, norms too.
_DOMAINS: dict[str, dict[str, float]] = {
    "var": {"low": 0.1, "high": 1.0},
    "n": {"low": 1.0, "high": 2.0},
    "v": {"low": 0.1, "high": 1.0},
    "d": {"low": 0.5, "high": 1.5},
    "r1": {"low": 0.5, "high": 1.5},
    "r2": {"low": 0.5, "high": 1.5},
    "rescale_grad": {"low": 0.5, "high": 1.5},
}
_NUMBERS = {"r1", "r2", "rescale_grad"}


def _input(name: str, dtype: str, domain: dict[str, float] | None = None) -> Tensor:
    shape = (1,) if name in _NUMBERS else (3, 4)
    return T(*shape, dtype=dtype, **(_DOMAINS.get(name, {}) if domain is None else domain))


def _update(op: str, inputs: str, dtype: str = "float32", single: str = "", **given: Any) -> Case:
    """A case; the inputs named in `single` are float32 whatever the others are."""
    fields = {name: given.pop(name) for name in ("tag", "no_mxnet") if name in given}
    tensors = tuple(_input(name, "float32" if name in single.split() else dtype) for name in inputs.split())
    if "float16" in {tensor.dtype for tensor in tensors}:
        fields |= {"rtol": 4e-3, "rtol_reason": _HALF}
    return Case(op, tensors, given, wrt=(), **fields)


def _precisions(op: str, inputs: str, single: str = "", *, plain: dict[str, Any], full: dict[str, Any]) -> list[Case]:
    """Every option at work in float32 and float16, and none that is optional in float64."""
    return [
        _update(op, inputs, single=single, **full),
        _update(op, inputs, "float16", single, **full),
        _update(op, inputs, "float64", single, **plain),
    ]


_SGD = {"lr": 0.1, "wd": 0.3, "rescale_grad": 0.5, "clip_gradient": 0.2}
_MOM = {**_SGD, "momentum": 0.9}
_ADAM = {**_SGD, "beta1": 0.7, "beta2": 0.8, "epsilon": 0.1}
_ADAMW = {"lr": 0.1, "eta": 0.5, "wd": 0.3, "clip_gradient": 0.2, "beta1": 0.7, "beta2": 0.8, "epsilon": 0.1}
_FTML = {"lr": 0.1, "t": 3, "wd": 0.3, "rescale_grad": 0.5, "clip_grad": 0.2, "beta1": 0.7, "beta2": 0.8}
_LAMB = {"t": 3, "wd": 0.3, "rescale_grad": 0.5, "clip_gradient": 0.2, "beta1": 0.7, "beta2": 0.8, "epsilon": 0.1}
_RMSPROP = {**_SGD, "gamma1": 0.7, "epsilon": 0.1, "clip_weights": 0.4}
_FTRL = {**_SGD, "lr": 1.0, "lamda1": 0.05, "beta": 0.5}
_PLAIN: dict[str, Any] = {"lr": 0.1, "wd": 0.3}

_MASTERS = (
    ("mp_sgd_update", "weight grad weight32", "weight32", _SGD),
    ("mp_sgd_mom_update", "weight grad mom weight32", "mom weight32", _MOM),
    ("mp_nag_mom_update", "weight grad mom weight32", "mom weight32", {**_MOM, "wd": 0.0}),
    ("_mp_adamw_update", "weight grad mean var weight32 rescale_grad", "mean var weight32 rescale_grad", _ADAMW),
    ("mp_lamb_update_phase1", "weight grad mean var weight32", "mean var weight32", _LAMB),
)

_DECAYS_LATE = "MXNet decays the momentum by the new weight; mended: by the old one, as the single form"
_NEVER_WRITTEN = "MXNet never writes weight32, so that the weight does not learn; mended: it does"

CASES = [
    *_precisions("sgd_update", "weight grad", plain=_PLAIN, full=_SGD),
    _update("sgd_update", "weight grad", lr=0.1, clip_gradient=0.0),
    _update("sgd_update", "weight grad", lr=0.1, clip_gradient=-0.5, lazy_update=False),
    *_precisions("sgd_mom_update", "weight grad mom", plain={**_PLAIN, "momentum": 0.9}, full=_MOM),
    *_precisions("nag_mom_update", "weight grad mom", plain={**_PLAIN, "momentum": 0.9}, full=_MOM),
    *_precisions("signsgd_update", "weight grad", plain=_PLAIN, full=_SGD),
    *_precisions("signum_update", "weight grad mom", plain={**_PLAIN, "momentum": 0.9}, full={**_MOM, "wd_lh": 0.2}),
    *_precisions("adam_update", "weight grad mean var", plain={**_PLAIN, "beta2": 0.999}, full=_ADAM),
    *_precisions(
        "_adamw_update", "weight grad mean var rescale_grad", "rescale_grad", plain={**_PLAIN, "eta": 0.5}, full=_ADAMW
    ),
    *_precisions("ftml_update", "weight grad d v z", plain={**_PLAIN, "t": 1}, full={**_FTML, "epsilon": 0.1}),
    *_precisions("ftrl_update", "weight grad z n", plain=_PLAIN, full=_FTRL),
    *_precisions("rmsprop_update", "weight grad n", plain=_PLAIN, full=_RMSPROP),
    *_precisions("rmspropalex_update", "weight grad n g delta", plain=_PLAIN, full={**_RMSPROP, "gamma2": 0.7}),
    *_precisions("lamb_update_phase1", "weight grad mean var", plain={"t": 1, "wd": 0.3}, full=_LAMB),
    _update("lamb_update_phase1", "weight grad mean var", **_LAMB, bias_correction=False),
    *_precisions("lamb_update_phase2", "weight g r1 r2", plain={"lr": 0.1}, full={"lr": 0.1, "lower_bound": 1.6}),
    _update("lamb_update_phase2", "weight g r1 r2", lr=0.1, lower_bound=0.1, upper_bound=0.3),
    *[_update(op, inputs, "float16", single, **full) for op, inputs, single, full in _MASTERS],
    _update("mp_sgd_mom_update", "weight grad mom weight32", single="mom weight32", **_PLAIN),
    _update("mp_nag_mom_update", "weight grad mom weight32", "float16", "mom weight32", **_MOM, no_mxnet=_DECAYS_LATE),
    _update(
        "mp_lamb_update_phase2",
        "weight g r1 r2 weight32",
        "float16",
        "g r1 r2 weight32",
        lr=0.1,
        no_mxnet=_NEVER_WRITTEN,
    ),
]
