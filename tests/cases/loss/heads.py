"""Cases of the loss heads other than SoftmaxOutput."""

from typing import Any

from tests.cases import Case, T, Tensor

_HALF = "float16 keeps 11 bits"
_TIE = "where data equals label, MXNet takes -1 as the derivative of the absolute error"


def _both(dtype: str, *shape: int) -> tuple[Tensor, Tensor]:
    return T(*shape, dtype=dtype), T(*shape, dtype=dtype)


def _labels(classes: int, *shape: int, dtype: str = "float32") -> Tensor:
    return T(*shape, low=0, high=classes, kind="integers", dtype=dtype)


def _regression(op: str, data: Tensor, label: Tensor, **params: Any) -> Case:
    return Case(op, (data, label), params)


CASES = [
    *[
        case
        for op in ("LinearRegressionOutput", "MAERegressionOutput", "LogisticRegressionOutput")
        for case in (
            _regression(op, T(4, 3), T(4, 3)),
            *(_regression(op, T(4, 3), T(4, 3), grad_scale=grad_scale) for grad_scale in (-0.5, 3.0)),
            _regression(op, T(4), T(4), grad_scale=2.0),
            _regression(op, T(4, 1), T(4)),
            _regression(op, T(4, 1), T(4, 1)),
            _regression(op, T(4), T(4, 1)),
            _regression(op, T(2, 3, 2), T(2, 6)),
            _regression(op, T(2, 3, 2, low=-30, high=30), T(2, 3, 2, low=0)),
            _regression(op, *_both("float64", 4, 3)),
            Case(op, _both("float16", 4, 3), rtol=2e-3, rtol_reason=_HALF),
            Case(op, (T(4, 3), T(4, 3)), is_train=False),
        )
    ],
    Case("MAERegressionOutput", (_labels(2, 4, 3), _labels(2, 4, 3)), tag="ties", not_derivative=_TIE),
    Case("MakeLoss", (T(4, 3),)),
    Case("MakeLoss", (T(4, 3),), {"grad_scale": -2.5}),
    Case("MakeLoss", (T(4, 3),), {"normalization": "batch"}),
    Case("MakeLoss", (T(2, 3, 2),), {"normalization": "batch", "grad_scale": 0.3}),
    Case("MakeLoss", (T(5),), {"normalization": "batch"}),
    Case("MakeLoss", (T(4, 3),), {"normalization": "valid"}),
    Case("MakeLoss", (T(2, 3, 2),), {"normalization": "valid", "grad_scale": 2.0, "valid_thresh": 0.3}),
    Case("MakeLoss", (T(4, 3),), {"normalization": "valid", "valid_thresh": 5.0}),
    Case("MakeLoss", (T(4, 3, dtype="float64"),), {"normalization": "valid"}),
    Case("MakeLoss", (T(4, 3, dtype="float16"),), {"normalization": "batch"}, rtol=2e-3, rtol_reason=_HALF),
    Case("MakeLoss", (T(4, 3),), is_train=False),
    *(Case("make_loss", (given,)) for given in (T(4, 3), T(1), T(2, 3, 2, dtype="float64"))),
    *[
        Case("SVMOutput", (data, label), params)
        for data, label in [
            (T(4, 3, low=-2, high=2), _labels(3, 4)),
            (T(2, 3, 4, low=-2, high=2), _labels(4, 2, 3)),
            (T(4, 3, dtype="float64"), _labels(3, 4, dtype="float64")),
        ]
        for params in ({}, {"margin": 0.4, "regularization_coefficient": 0.7}, {"use_linear": True, "margin": 0.5})
    ],
    Case("SVMOutput", (T(4, 3, dtype="float16"), _labels(3, 4, dtype="float16")), rtol=2e-3, rtol_reason=_HALF),
]
