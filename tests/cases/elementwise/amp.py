"""Cases of the casts for training in half precision, and of the checks and sums over many arrays."""

from tests.cases import Case, T, double

_STAIRCASE = "rounding to another dtype is a staircase; the gradient is cast back"
_NO_BFLOAT16 = "bfloat16 arrays cannot be stored"
_MIXED = "MXNet refuses or misreads arrays of different dtypes"
_HALF_SUM = "MXNet sums squares of float16 in float16"
# Values and gradients equal those of MXNet's own kernels, which it uses with MXNET_MKLDNN_ENABLED=0.
_ONE_DNN = "on a CPU MXNet casts with oneDNN, which knows no float64 and seldom float16"
_ONE_DNN_ROUNDS = "on a CPU MXNet casts with oneDNN, which rounds where MXNet's own kernel truncates"
_FIRST = "MXNet casts to the dtype of the first array, be it int32; mended: it has no say"

_INTEGERS = T(3, low=-9, high=9, kind="integers", dtype="int32")


def _half(*shape: int, **domain: float):
    return T(*shape, dtype="float16", **domain)


CASES = [
    Case("amp_cast", (T(2, 3),), {"dtype": "float16"}, not_derivative=_STAIRCASE),
    Case("amp_cast", (_half(2, 3),), {"dtype": "float32"}, not_derivative=_STAIRCASE),
    Case("amp_cast", (T(2, 3),), {"dtype": "float32"}),
    Case("amp_cast", (double(2, 3),), {"dtype": "float16"}, wrt=(), no_mxnet=_ONE_DNN),
    Case("amp_cast", (_INTEGERS,), {"dtype": "float16"}, wrt=()),
    Case("amp_cast", (T(4, low=-9, high=9),), {"dtype": "int32"}, not_derivative=_STAIRCASE, no_mxnet=_ONE_DNN_ROUNDS),
    Case("amp_cast", (T(2, 3),), {"dtype": "bfloat16"}, not_derivative=_STAIRCASE, no_mxnet=_NO_BFLOAT16),
    Case("amp_multicast", (T(2, 3), T(4)), {"num_outputs": 2}),
    Case("amp_multicast", (_half(2, 3), T(4)), {"num_outputs": 2}, not_derivative=_STAIRCASE, no_mxnet=_ONE_DNN),
    Case("amp_multicast", (_half(2, 3), _half(4)), {"num_outputs": 2}, not_derivative=_STAIRCASE, no_mxnet=_ONE_DNN),
    Case(
        "amp_multicast",
        (T(2, 3), _half(4), double(2)),
        {"num_outputs": 3, "cast_narrow": True},
        wrt=(0, 1),
        not_derivative=_STAIRCASE,
        no_mxnet=_ONE_DNN,
    ),
    Case("amp_multicast", (_INTEGERS, _half(4)), {"num_outputs": 2}, not_derivative=_STAIRCASE, no_mxnet=_FIRST),
    *[Case("all_finite", (T(2, 3, dtype=dtype),), wrt=()) for dtype in ("float32", "float16", "float64")],
    Case("multi_all_finite", (T(2, 3), T(4)), {"num_arrays": 2}, wrt=()),
    Case("multi_all_finite", (T(2, 3), _half(4)), {"num_arrays": 2}, wrt=(), no_mxnet=_MIXED),
    Case("multi_sum_sq", (T(2, 3), T(4)), {"num_arrays": 2}, wrt=()),
    Case("multi_sum_sq", (double(2, 3),), {"num_arrays": 1}, wrt=()),
    Case("multi_sum_sq", (_half(2, 3), _half(4)), {"num_arrays": 2}, wrt=(), no_mxnet=_HALF_SUM),
]
