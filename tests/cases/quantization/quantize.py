"""Cases of quantisation and of its inverse."""

from tests.cases import T
from tests.cases.quantization import HIGH, LOW, ZERO, case, signed, unsigned

_SUMS = T(3, 5, kind="integers", low=-(2**27), high=2**27, dtype="int32")
_WIDE = T(2, 3, 4, low=-3, high=3)

CASES = [
    case("_contrib_quantize", _WIDE, LOW, HIGH),
    case("_contrib_quantize", _WIDE, LOW, HIGH, out_type="int8"),
    case("_contrib_quantize_v2", _WIDE),
    case("_contrib_quantize_v2", _WIDE, min_calib_range=-1.5, max_calib_range=2.5),
    case("_contrib_quantize_v2", _WIDE, out_type="auto", min_calib_range=0.0, max_calib_range=2.5),
    case("_contrib_quantize_v2", T(2, 3, 4, 5, low=-3, high=3), out_type="auto", min_calib_range=-1.0),
    case("_contrib_quantize_v2", signed(2, 3)),
    case("_contrib_quantize_v2", unsigned(2, 3), out_type="uint8", min_calib_range=0.0, max_calib_range=2.5),
    case("_contrib_quantize_asym", _WIDE),
    case("_contrib_quantize_asym", _WIDE, min_calib_range=-1.5, max_calib_range=2.5),
    case("_contrib_dequantize", signed(2, 3), LOW, HIGH),
    case("_contrib_dequantize", unsigned(2, 3, 2, 2), ZERO, HIGH),
    case("_contrib_requantize", _SUMS, LOW, HIGH),
    case("_contrib_requantize", _SUMS, LOW, HIGH, min_calib_range=-0.05, max_calib_range=0.06),
    case("_contrib_requantize", _SUMS, LOW, HIGH, out_type="auto", min_calib_range=0.0, max_calib_range=0.06),
]
