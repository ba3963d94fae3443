"""Cases of im2col and col2im: strides, dilation, padding, ranks."""

from tests.cases import Case, T

_TWO = "MXNet's kernels fail unless there are two spatial axes"

CASES = [
    Case("im2col", (T(2, 3, 4, 5),), {"kernel": (2, 3)}),
    Case("im2col", (T(1, 2, 6, 5),), {"kernel": (3, 2), "stride": (2, 1), "dilate": (1, 2), "pad": (1, 2)}),
    Case("im2col", (T(1, 2, 3, 4, dtype="float64"),), {"kernel": (1, 1), "stride": (2, 2)}),
    Case("im2col", (T(1, 2, 3, 3, dtype="float16"),), {"kernel": (2, 2)}, wrt=()),
    Case("im2col", (T(2, 3, 7),), {"kernel": (3,), "stride": (2,), "pad": (1,)}, no_mxnet=_TWO),
    Case("im2col", (T(1, 2, 3, 4, 3),), {"kernel": (2, 2, 2), "dilate": (1, 2, 1)}, no_mxnet=_TWO),
    Case("col2im", (T(2, 12, 6),), {"output_size": (3, 4), "kernel": (2, 2)}),
    Case(
        "col2im",
        (T(1, 12, 12),),
        {"output_size": (5, 6), "kernel": (3, 2), "stride": (2, 2), "dilate": (1, 3), "pad": (1, 2)},
    ),
    Case(
        "col2im", (T(1, 3, 3, dtype="float64"),), {"output_size": (7,), "kernel": (3,), "stride": (2,)}, no_mxnet=_TWO
    ),
]
