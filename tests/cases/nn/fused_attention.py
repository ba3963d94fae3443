"""Cases of attention as one operator, which FuseAttention makes."""

from typing import Any

from tests.cases import Case, T, Tensor, ids


def _attention(*more: Tensor, **params: Any) -> Case:
    """Three queries, five keys, two heads of 4 numbers, two samples; more: addend, mask, length."""
    inputs = (T(2, 3, 2, 4), T(2, 5, 2, 4), T(2, 5, 2, 4), *more)
    return Case("_fused_attention", inputs, params, wrt=(), no_mxnet="an operator of this library")


CASES = [
    _attention(scale=0.5),
    _attention(T(2, 2, 3, 5), with_addend=True),
    _attention(T(1, 2, 1, 5), with_addend=True, scale=-2.0),
    _attention(ids(2, 2, 3, 5, high=2), with_mask=True),
    _attention(ids(2, 2, 3, high=6), with_length=True),
    _attention(T(2, 1, 3, 1), ids(2, 2, 3, low=1, high=6, dtype="int32"), with_addend=True, with_length=True),
]
