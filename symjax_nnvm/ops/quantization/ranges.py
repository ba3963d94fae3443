"""What operators on 8-bit integers share: the two ranges that come with an array, and calibrated ranges.

An array of int8 or uint8 comes with its least and greatest number as floats, (1,) each. The one of greater magnitude,
m, gives the size of a level: m / 127.5 for int8, m / 255.5 for uint8.
"""

from __future__ import annotations

from typing import Any

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.rules.entry_gradients import STOPPED, no_gradient
from symjax_nnvm.ir.rules.quantized_parameters import OTHER_MODEL
from symjax_nnvm.ir.types import DType, Shape

LEVELS: dict[DType, float] = {"int8": 127.5, "uint8": 255.5}
"""The dtypes that arrays are quantised to, and what oneDNN's operators of MXNet divide their magnitude by."""

RANGE: Shape = (1,)
"""The shape of a range's end."""

LAST: dict[str, Any] = {"gradient": no_gradient, "not_derivative": STOPPED}
"""Arguments of `register_op` for operators on integers, where gradients end."""

OUTPUTS = ("output", "min_output", "max_output")


_FIX = (
    "A calibrated range is two finite numbers: symjax_nnvm.quantize(net, args, aux, calibration=batches) makes the "
    "model again, of the one of floats. Without both ends each run takes the range of its own data."
)


class CalibratedParams(Params):
    min_calib_range: float | None = param(None, doc="the result's least number, if it was calibrated", fix=_FIX)
    max_calib_range: float | None = param(None, doc="the result's greatest number, if it was calibrated", fix=_FIX)

    def check(self) -> str | None:
        low, high = self.min_calib_range, self.max_calib_range
        if low is not None and high is not None and low > high:
            return f"Parameter min_calib_range={low:g} is greater than max_calib_range={high:g}: swap them"
        return None

    @property
    def is_calibrated(self) -> bool:
        """Whether the range of the result is known; one end of it alone counts for nothing, as in MXNet."""
        return self.min_calib_range is not None and self.max_calib_range is not None


def need_levels(dtype: DType | None, of: str, *allowed: DType) -> None:
    """Raise InferenceError for a dtype that is known and none of an array of levels."""
    if dtype is not None and dtype not in (allowed or LEVELS):
        raise InferenceError(
            f"only supports {'/'.join(allowed or LEVELS)} input, while {dtype} is given",
            input=of,
            expected=" or ".join(allowed or LEVELS),
            got=dtype,
            fix=f"Quantise it first, by _contrib_quantize_v2. Parameters of a float network do not fit: {OTHER_MODEL}",
        )
