"""Cases of layers of 8-bit integers."""

from typing import Any

from tests.cases import T
from tests.cases.quantization import HIGH, LOW, ZERO, case, signed, unsigned

_POOL = "_contrib_quantized_pooling"
_IMAGES = (unsigned(2, 3, 6, 6), ZERO, HIGH)
_CONV = {"kernel": (3, 3), "num_filter": 4, "pad": (1, 1), "stride": (2, 2), "dilate": (1, 1)}
_VECTORS = (T(3, low=0.5, high=1.5), T(3), T(3), T(3, low=0.5, high=1.5))
_RANGE: dict[str, Any] = {"min_calib_range": -3.0, "max_calib_range": 3.5}
_WRAPS = "lets a product that is out of range wrap around; ours is clipped"

_NAMES = ("data", "weight", "min_data", "max_data", "min_weight", "max_weight")


def _without_bias(op: str, **params: Any) -> Any:
    """A function that names the inputs: MXNet's own takes the third for the bias."""
    return lambda sym, *inputs: getattr(sym.contrib, op)(
        **dict(zip(_NAMES, inputs, strict=True)), **params, no_bias=True, name="op"
    )


CASES = [
    case(
        "_contrib_quantized_conv", *_IMAGES[:1], signed(4, 3, 3, 3), signed(4), *(ZERO, HIGH, *(LOW, HIGH) * 2), **_CONV
    ),
    case(
        "_contrib_quantized_conv",
        *(unsigned(1, 70, 4, 4), signed(4, 70, 3, 3), ZERO, HIGH, LOW, HIGH),
        tag="no_bias",
        graph=_without_bias("quantized_conv", **_CONV),
    ),
    case(
        "_contrib_quantized_conv",
        *(signed(1, 3, 4, 4), signed(4, 3, 3, 3), LOW, HIGH, LOW, HIGH),
        tag="no_bias",
        graph=_without_bias("quantized_conv", **_CONV),
        no_mxnet="takes uint8 alone on a CPU",
    ),
    *[
        case(
            "_contrib_quantized_fully_connected",
            *(data, signed(5, 600), signed(5), *(LOW, HIGH) * 3),
            num_hidden=5,
            flatten=flatten,
        )
        for data, flatten in ((signed(3, 600), True), (unsigned(2, 3, 600), False))
    ],
    case(
        "_contrib_quantized_fully_connected",
        *(unsigned(2, 3, 4), signed(5, 12), ZERO, HIGH, LOW, HIGH),
        tag="no_bias",
        graph=_without_bias("quantized_fully_connected", num_hidden=5),
    ),
    *[
        case("_contrib_quantized_elemwise_add", lhs, rhs, *(LOW, HIGH) * 2, **params)
        for params in (dict[str, Any](), _RANGE)
        for lhs, rhs in ((signed(3, 4),) * 2, (unsigned(3, 4),) * 2, (signed(3, 4), unsigned(3, 4)))
    ],
    case("_contrib_quantized_elemwise_mul", signed(3, 4), signed(3, 4), *(LOW, HIGH) * 2),
    case("_contrib_quantized_elemwise_mul", signed(3, 4), signed(3, 4), *(LOW, HIGH) * 2, enable_float_output=True),
    case(
        "_contrib_quantized_elemwise_mul",
        *(signed(3, 4), signed(3, 4), *(LOW, HIGH) * 2),
        min_calib_range=-4.5,
        max_calib_range=4.5,
    ),
    case(
        "_contrib_quantized_elemwise_mul",
        *(signed(3, 4), signed(3, 4), *(LOW, HIGH) * 2),
        min_calib_range=-0.5,
        max_calib_range=0.5,
        no_mxnet=_WRAPS,
    ),
    case(_POOL, *_IMAGES, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pooling_convention="full"),
    case(_POOL, signed(2, 3, 6, 6), LOW, HIGH, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="avg"),
    case(_POOL, *_IMAGES, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="avg", pooling_convention="full"),
    case(_POOL, *_IMAGES, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="avg", count_include_pad=False),
    case(_POOL, *_IMAGES, kernel=(1, 1), global_pool=True, pool_type="avg"),
    case("_contrib_quantized_act", signed(2, 3, 4), LOW, HIGH, act_type="relu"),
    case("_contrib_quantized_flatten", unsigned(2, 3, 4), LOW, HIGH),
    case("_contrib_quantized_concat", signed(2, 3), signed(2, 4), *(LOW, HIGH) * 2, num_args=2, dim=1),
    case("_contrib_quantized_concat", signed(2, 3), unsigned(2, 4), LOW, HIGH, ZERO, HIGH, num_args=2, dim=1),
    case("_contrib_quantized_batch_norm", signed(2, 3, 4, 4), *_VECTORS, LOW, HIGH, **_RANGE),
    case("_contrib_quantized_batch_norm", unsigned(2, 3, 4, 4), *_VECTORS, ZERO, HIGH, **_RANGE),
    case(
        "_contrib_quantized_embedding",
        *(T(2, 3, kind="integers", low=-1, high=7), signed(5, 4), LOW, HIGH),
        input_dim=5,
        output_dim=4,
    ),
]
