"""The dtype that two arrays of different dtypes are computed in: the NumPy dialect of MXNet 1.9.1, not NumPy itself."""

from __future__ import annotations

from typing import Literal

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.types import DType, is_float

Mixing = Literal["all", "numbers", "division"]
"""Which dtypes a function mixes. "all": any, but int8 with uint8; "numbers": likewise, but no booleans alone;
"division": whole numbers of one dtype as float32, and a floating-point dtype with whole numbers."""

_WIDTH = {"bfloat16": 0, "float16": 1, "float32": 2, "float64": 3}
_RANK = {"bool": 0, "int8": 1, "uint8": 1, "int32": 2, "int64": 3}


def promoted(lhs: DType, rhs: DType, mixing: Mixing) -> DType:
    """Return the dtype that a function of two arrays computes in, and which its result has. Raises InferenceError where
    MXNet refuses the two."""
    both_float = is_float(lhs) and is_float(rhs)
    if mixing == "division" and not is_float(lhs) and lhs == rhs:
        return "float32"
    if lhs == rhs and not (mixing == "numbers" and lhs == "bool"):
        return lhs
    if both_float and mixing != "division":
        return max(lhs, rhs, key=_WIDTH.__getitem__)
    if not both_float and (is_float(lhs) or is_float(rhs)):
        return lhs if is_float(lhs) else rhs
    if mixing != "division" and lhs != rhs and {lhs, rhs} != {"int8", "uint8"} and {lhs, rhs} <= _RANK.keys():
        return max(lhs, rhs, key=_RANK.__getitem__)
    raise InferenceError(
        f"This operator does not support the combination of {lhs} with {rhs}",
        expected="arrays of one dtype, which astype makes" if lhs != rhs else "a number's dtype",
        got=f"{lhs} and {rhs}",
    )
