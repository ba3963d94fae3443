"""Cases of the Fourier transforms and of the count sketch."""

from tests.cases import Case, T

GPU = "MXNet has it on GPUs only"


def sketch(length: int, out_dim: int, low: float = 0, dtype: str = "float32"):
    """The places and signs of a count sketch; some places may be outside."""
    return (
        T(1, length, kind="integers", low=low, high=out_dim - low, dtype=dtype),
        T(1, length, kind="signs", low=1, high=1.5, dtype=dtype),
    )


CASES = [
    Case("_contrib_fft", (T(2, 4),), no_mxnet=GPU),
    Case("_contrib_fft", (T(2, 1, 2, 5),), {"compute_size": 3}, no_mxnet=GPU),
    Case("_contrib_fft", (T(6),), no_mxnet=GPU),
    Case("_contrib_fft", (T(2, 4, dtype="float16"),), no_mxnet=GPU),
    Case("_contrib_ifft", (T(2, 8),), no_mxnet=GPU),
    Case("_contrib_ifft", (T(2, 1, 2, 6),), {"compute_size": 3}, no_mxnet=GPU),
    Case("_contrib_ifft", (T(2, 10, dtype="float64"),), no_mxnet=GPU),
    Case("_contrib_count_sketch", (T(2, 5), *sketch(5, 3)), {"out_dim": 3}, wrt=(0,), no_mxnet=GPU),
    Case("_contrib_count_sketch", (T(2, 1, 2, 4), *sketch(4, 7)), {"out_dim": 7}, wrt=(0,), no_mxnet=GPU),
    Case("_contrib_count_sketch", (T(2, 6), *sketch(6, 3, -2)), {"out_dim": 3}, wrt=(0,), no_mxnet=GPU, tag="clipped"),
    Case(
        "_contrib_count_sketch",
        (T(2, 5, dtype="float16"), *sketch(5, 3, dtype="float16")),
        {"out_dim": 3},
        wrt=(0,),
        no_mxnet=GPU,
    ),
    Case("_backward_count_sketch", (T(2, 3), *sketch(5, 3)), {"out_dim": 3}, wrt=(0,), no_mxnet=GPU),
]
