"""Cases of spatial transformers: positions are drawn anywhere, so that none is exactly at an element."""

from tests.cases import Case, T

ONLY_FLOAT32 = "MXNet's GridGenerator knows float32 only"
NO_HALF_PRODUCT = "MXNet has no float16 matrix product on a CPU"
HALF = "float16 keeps 11 bits; MXNet also computes positions in it"

AFFINE = {"transform_type": "affine", "target_shape": (3, 4)}
TRANSFORMER = {**AFFINE, "sampler_type": "bilinear"}
HALVES = {"dtype": "float16"}

CASES = [
    Case("GridGenerator", (T(2, 6),), AFFINE),
    Case("GridGenerator", (T(1, 6, dtype="float16"),), AFFINE, no_mxnet=ONLY_FLOAT32),
    Case("GridGenerator", (T(2, 2, 3, 4),), {"transform_type": "warp"}),
    Case("GridGenerator", (T(1, 2, 2, 3, dtype="float64"),), {"transform_type": "warp"}, no_mxnet=ONLY_FLOAT32),
    Case("BilinearSampler", (T(2, 3, 4, 5), T(2, 2, 2, 3))),
    Case("BilinearSampler", (T(2, 2, 3, 4), T(2, 2, 3, 3, low=-2, high=2)), tag="outside, too"),
    Case("BilinearSampler", (T(1, 2, 1, 4), T(1, 2, 2, 3)), {"cudnn_off": True}, tag="one row"),
    Case("BilinearSampler", (T(2, 2, 3, 4, dtype="float64"), T(2, 2, 2, 3, dtype="float64"))),
    Case("BilinearSampler", (T(2, 2, 3, 4, **HALVES), T(2, 2, 2, 3, **HALVES)), rtol=5e-3, rtol_reason=HALF),
    Case("SpatialTransformer", (T(2, 3, 4, 5), T(2, 6, low=-0.6, high=0.6)), TRANSFORMER),
    Case("SpatialTransformer", (T(2, 2, 3, 4), T(2, 6, low=-2, high=2)), TRANSFORMER, tag="outside, too"),
    Case("SpatialTransformer", (T(1, 1, 3, 4, **HALVES), T(1, 6, **HALVES)), TRANSFORMER, no_mxnet=NO_HALF_PRODUCT),
    Case("SpatialTransformer", (T(1, 2, 3, 4, dtype="float64"), T(1, 6, dtype="float64")), TRANSFORMER),
]
