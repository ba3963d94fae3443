"""Cases of SoftmaxOutput and softmax_cross_entropy."""

from itertools import product
from typing import Any

from tests.cases import Case, T, Tensor

_HALF = "float16 keeps 11 bits; MXNet also adds up in float16"
_OUT_GRAD = "MXNet 1.9 multiplies with the output where out_grad asks for the head gradient"
_CLIPPED = "probabilities are clipped at 1e-8, which the gradient disregards"


def _labels(classes: int, *shape: int, dtype: str = "float32") -> Tensor:
    return T(*shape, low=0, high=classes, kind="integers", dtype=dtype)


def _ignoring(classes: int, *shape: int) -> Tensor:
    return T(*shape, low=-1, high=classes, kind="integers")


def _head(data: Tensor, label: Tensor, tag: str = "", **params: Any) -> Case:
    return Case("SoftmaxOutput", (data, label), params, tag=tag)


# data, label, parameters that say how the two belong together
_LAYOUTS: list[tuple[Tensor, Tensor, dict[str, Any]]] = [
    (T(4, 3), _ignoring(3, 4), {}),
    (T(3, 4, 2), _ignoring(4, 3, 2), {"multi_output": True}),
    (T(3, 2, 4), _ignoring(4, 3, 2), {"preserve_shape": True}),
]

CASES = [
    *[
        _head(data, label, **layout, normalization=normalization, use_ignore=use_ignore, grad_scale=0.5)
        for (data, label, layout), normalization, use_ignore in product(
            _LAYOUTS, ("null", "batch", "valid"), (False, True)
        )
    ],
    _head(T(4, 3), _labels(3, 4)),
    _head(T(4, 3, low=-40, high=40), _labels(3, 4), tag="large"),
    _head(T(4, 3), _labels(3, 4), grad_scale=-2.0),
    _head(T(4, 3), T(4, 3, low=0)),
    _head(T(4, 3), T(4, 3, low=0), grad_scale=3.0, normalization="batch", use_ignore=True),
    _head(T(4, 3), T(4, low=-4, high=8, kind="integers"), tag="labels that are no class"),
    _head(T(4, 1), _labels(1, 4)),
    _head(T(4, 3), _labels(3, 4), smooth_alpha=0.1),
    _head(T(4, 3), _ignoring(3, 4), smooth_alpha=0.3, use_ignore=True, normalization="valid"),
    _head(T(4, 3), _labels(3, 4), use_ignore=True, ignore_label=1.0, normalization="valid"),
    _head(T(4, 3), _labels(3, 4), use_ignore=True, ignore_label=7.0, normalization="valid"),
    _head(T(2, 3), _labels(1, 2), use_ignore=True, ignore_label=0.0, normalization="valid"),
    # all axes but the first are classes; of the labels the first count
    _head(T(3, 4, 2), _labels(8, 3, 4)),
    _head(T(3, 4, 2), _labels(8, 3, 4), normalization="batch"),
    _head(T(3, 4, 2), T(3, 4, 2, low=0)),
    _head(T(3, 4, 1, 1), _labels(4, 3, 4, 1)),
    # the forms of labels for several places
    _head(T(2, 4, 3, 2), _labels(4, 2, 6), multi_output=True),
    _head(T(2, 4, 3, 2), _labels(4, 2, 3, 2), multi_output=True),
    _head(T(2, 4, 3, 2), _labels(4, 2, 1, 3, 2), multi_output=True, normalization="valid"),
    _head(T(2, 4, 3), T(2, 4, 3, low=0), multi_output=True),
    _head(T(4, 3), _labels(3, 4, 1), multi_output=True),
    _head(T(3, 4, 2), _labels(4, 3, 2), multi_output=True, smooth_alpha=0.2),
    _head(T(2, 3, 4), T(2, 3, 4, low=0), preserve_shape=True),
    _head(T(2, 3, 4), _labels(4, 2, 3), preserve_shape=True, smooth_alpha=0.2),
    _head(T(2, 4, 3), _labels(4, 2, 3), preserve_shape=True, multi_output=True),
    Case("SoftmaxOutput", (T(4, 3), _labels(3, 4)), is_train=False),
    Case(
        "SoftmaxOutput",
        (T(4, 3), _labels(3, 4)),
        {"out_grad": True, "grad_scale": 2.0},
        no_mxnet=_OUT_GRAD,
        not_derivative="a head gradient for each element makes it the derivative of nothing",
    ),
    _head(T(4, 3, dtype="float64"), _labels(3, 4, dtype="float64")),
    Case("SoftmaxOutput", (T(4, 3, dtype="float16"), _labels(3, 4, dtype="float16")), rtol=2e-3, rtol_reason=_HALF),
    Case("softmax_cross_entropy", (T(3, 4), _labels(4, 3)), wrt=(0,)),
    Case("softmax_cross_entropy", (T(1, 2), _labels(2, 1)), wrt=(0,)),
    Case("softmax_cross_entropy", (T(3, 4, dtype="float64"), _labels(4, 3, dtype="float64")), wrt=(0,)),
    Case("softmax_cross_entropy", (T(6, 4, low=-60, high=60), _labels(4, 6)), wrt=(0,), not_derivative=_CLIPPED),
    Case(
        "softmax_cross_entropy",
        (T(3, 4, dtype="float16"), _labels(4, 3, dtype="float16")),
        wrt=(0,),
        rtol=2e-3,
        rtol_reason=_HALF,
    ),
]
