"""Every operator that adds up, near both ends of its dtype's range: values and gradients as in float64."""

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from lowering import mx
from symjax_nnvm import symbol as sym
from symjax_nnvm.ir.attributes import FGradient
from symjax_nnvm.ir.op import Op
from tests.cases import Case
from tests.support import ladder
from tests.support.traced import Traced
from tests.support.walk import Walk, every, rung

KEY = jax.random.key(7)
ADDS = re.compile(r"\b(reduce_sum|reduce_window_sum|dot_general|cumsum|conv_general_dilated|reduce_prod)\[")
"""JAX's primitives that add or multiply many numbers."""

AS_MXNET = {
    **dict.fromkeys(
        ("BatchNorm", "BatchNorm_v1", "_contrib_SyncBatchNorm", "_contrib_BatchNormWithReLU", "LRN"),
        "an output that is not shown, or a state, is a sum of squares and overflows",
    ),
    **dict.fromkeys(("LayerNorm", "GroupNorm", "InstanceNorm"), "a variance that overflows"),
    "CTCLoss": "differences of logarithms near 1e20",
    "_contrib_box_nms": "areas that overflow or vanish",
}
"""What float32 does not hold at 1e20, nor in MXNet, far beyond the numbers of networks."""
SCALES = {"float16": (300.0, 3e-4), "float32": (3e20, 3e-22)}


def scaled(case: Case, dtype: str, scale: float) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], list[str]]:
    """(arguments, states, names to differentiate by) of a case in a dtype, its first one scaled."""
    symbol = ladder.build(case)
    args, aux = ladder.arrays(case, symbol)
    names = ladder.wrt(case, symbol) if Op.get(case.op) in FGradient else []
    first = next(iter(names), next((name for name, x in args.items() if x.dtype == np.float32), ""))
    sizes = {name: scale if name == first else 1.0 for name in args}
    args = {n: (x.astype(np.float64) * sizes[n]).astype(dtype) if x.dtype == np.float32 else x for n, x in args.items()}
    return args, aux, names


def adds(case: Case) -> bool:
    symbol = ladder.build(case)
    args, aux = ladder.arrays(case, symbol)
    return bool(ADDS.search(str(jax.make_jaxpr(lowering.to_jax(symbol, is_train=case.is_train))(args, aux, KEY))))


def first_cases() -> Iterator[tuple[str, Case]]:
    """The first case of each operator whose inputs are float32, and whose numbers are not drawn."""
    seen = set()
    for family, case in ladder.all_cases():
        if case.op in seen or case.graph or family.startswith(("random", "control", "image", "quantization")):
            continue
        if any(tensor.dtype == "float32" and tensor.kind != "integers" for tensor in case.inputs):
            seen.add(case.op)
            yield family, case


FIRST = {case.id for _, case in first_cases()}
LAPACK = ("_npi_det", "_npi_slogdet", "_npi_pinv", "_npi_pinv_scalar_rcond", "_norm_direction")
"""Operators by LAPACK, besides those whose names say so."""


def results(walk: Walk, dtype: str) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """(what, in the dtype, in float64) of every output and gradient at both scales."""
    case = walk.case
    args, aux, names = scaled(case, dtype, 1.0)
    heads = [np.ones(head.shape, head.dtype) for head in jax.eval_shape(walk.function, args, aux, KEY)[0]]
    run = lowering.grad_fn(walk.symbol, names, is_train=case.is_train) if names else walk.function

    def given(scale: float) -> tuple[Any, ...]:
        args, aux, _ = scaled(case, dtype, scale)
        return args, aux, KEY, *([heads] if names else [])

    narrow = Traced(run, *given(1.0))
    for scale in SCALES[dtype]:
        found = [walk.run(narrow, *given(scale))]
        with jax.enable_x64(True):
            arrays = jax.tree.map(_widened, given(scale))
            found.append(walk.once("widened", lambda arrays=arrays: Traced(run, *arrays)).evaluated(*arrays))
        found = [[*outputs, *(grads[name] for name in names)] for outputs, grads, *_ in found]
        whats = [*(f"output {i}" for i in range(len(heads))), *(f"gradient of {name}" for name in names)]
        for what, ours, exact in zip(whats, *found, strict=True):
            yield f"{what} at {scale}", np.asarray(ours, np.float64), np.asarray(exact, np.float64)


def _widened(x: Any) -> Any:
    return x.astype(np.float64) if jnp.issubdtype(x.dtype, jnp.floating) else x


def held(case: Case, dtype: str) -> bool:
    """Return whether a case is right near the ends of a dtype's range: LAPACK has no float16."""
    by_lapack = case.op.startswith("linalg") or case.op in LAPACK
    return not by_lapack if dtype == "float16" else case.op not in AS_MXNET


@rung(every(lambda case: case.id in FIRST), one_in=4)
def sums_are_right_near_the_ends_of_the_range(walk: Walk):
    """Of operators that add nothing up nothing is asked; which do, a trace tells."""
    case = walk.case
    dtypes = [dtype for dtype in SCALES if held(case, dtype)] if ADDS.search(str(walk.forward().closed)) else []
    for dtype in dtypes:
        info = np.finfo(dtype)
        for what, ours, exact in results(walk, dtype):
            in_range = abs(exact) < float(info.max)  # not so are NaN and what a float64 does not hold
            ours, exact = ours[in_range], exact[in_range]
            rounding = 4 * float(info.eps) * max(1.0, abs(exact).max(initial=0)) + float(info.tiny)
            far = abs(ours - exact) > 0.02 * abs(exact) + rounding
            assert np.isfinite(ours).all(), f"{what} in {dtype}: in float64 {exact[~np.isfinite(ours)][:3]}"
            assert not far.any(), f"{what} in {dtype}: {ours[far][:3]}, in float64 {exact[far][:3]}"


def test_it_is_known_which_operators_add_up():
    few = [case for _, case in first_cases() if case.op in ("sum", "dot", "Convolution", "relu", "add_n")]
    assert {case.op for case in few if adds(case)} == {"sum", "dot", "Convolution"}


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("float16", 200.0), ("float16", 1e-5), ("float32", 1e20), ("float32", 1e-30), ("float32", 4e37)],
)
def test_the_gradient_of_a_norm_is_its_direction(dtype: str, value: float):
    x = mx.nd.full((4,), value, dtype=dtype)
    x.attach_grad()
    with mx.autograd.record():
        y = x.norm()
    y.backward()
    np.testing.assert_allclose(y.asnumpy(), [2 * value], rtol=2e-2 if dtype == "float16" else 1e-6)
    np.testing.assert_allclose(np.asarray(x.grad), [0.5] * 4, rtol=1e-3)


X = sym.Variable("x")


@pytest.mark.slow("compiles")
@pytest.mark.parametrize(
    ("function", "slope"),
    [
        (sym.arcsinh(X), lambda x: 1 / np.sqrt(x * x + 1)),
        (sym.arccosh(X), lambda x: 1 / np.sqrt(x * x - 1)),
        (sym.arctan(X), lambda x: 1 / (x * x + 1)),
        (sym.log10(X), lambda x: 1 / (x * np.log(10))),
        (sym.softsign(X), lambda x: 1 / (x + 1) ** 2),
        (sym.rsqrt(X), lambda x: -0.5 * x**-1.5),
        (sym.rcbrt(X), lambda x: -(x ** (-4 / 3)) / 3),
        (1000 / X, lambda x: -1000 / x**2),
        (sym.hypot(X, X + 1), lambda x: (2 * x + 1) / np.sqrt(x * x + (x + 1) ** 2)),
    ],
)
def test_slopes_are_right_in_half_precision(function: sym.Symbol, slope: Callable[[np.ndarray], np.ndarray]):
    """MXNet computes them in float32: no step of theirs leaves its range."""
    x = np.array([300, 1000, 30000], np.float16)
    _, grads, _ = jax.jit(lowering.grad_fn(function, ["x"]))({"x": x}, {}, None, [np.ones(3, np.float16)])
    np.testing.assert_allclose(np.asarray(grads["x"], float), slope(x.astype(float)), rtol=5e-3, atol=2e-7)


@pytest.mark.slow("compiles")
@pytest.mark.parametrize(
    ("dtype", "x", "y", "slopes"),
    [
        ("float16", 6e4, 6e4, (0.707, 0.707)),
        ("float16", 1.2e-7, 1.2e-7, (0.707, 0.707)),
        ("float16", 1.8e-7, 2.4e-7, (0.6, 0.8)),
        ("float32", 3e38, 3e38, (math.sqrt(0.5), math.sqrt(0.5))),
        ("float32", -3e20, 4e20, (-0.6, 0.8)),
        ("float32", 3e-37, 4e-37, (0.6, 0.8)),
        ("float32", 0, 0, (math.nan, math.nan)),
        ("float32", math.inf, 1, (math.nan, 0)),
        ("int32", 3, 4, (0, 0)),
        ("int32", 4, 0, (1, 0)),
    ],
)
def test_slopes_of_hypot_are_right_where_hypot_is_not_in_range(
    dtype: str, x: float, y: float, slopes: tuple[float, ...]
):
    """MXNet's of float32 beyond the range is 0."""
    for symbol in (sym.broadcast_hypot(X, sym.Variable("y")), sym.hypot(X, y)):
        arrays = {name: mx.nd.array([number], dtype=dtype) for name, number in (("x", x), ("y", y))}
        executor = mx.sym.load_json(symbol.tojson()).bind(
            mx.cpu(),
            {name: arrays[name] for name in symbol.list_arguments()},
            {name: mx.nd.zeros(1, dtype=dtype) for name in symbol.list_arguments()},
        )
        executor.forward(is_train=True)
        executor.outputs[0].wait_to_read()
        executor.backward([mx.nd.ones(1, dtype=dtype)])
        computed = [np.asarray(gradient) for gradient in executor.grad_arrays]
        np.testing.assert_allclose(
            np.ravel(computed), slopes[: len(computed)], rtol=1e-3 if dtype == "float16" else 2e-7
        )


@pytest.mark.parametrize(("numbers", "dtype", "norm"), [([50000] * 2, "int32", 70710), ([100] * 2, "uint8", 141)])
def test_norms_of_integers_do_not_wrap(numbers: list[int], dtype: str, norm: int):
    result = mx.nd.norm(mx.nd.array(numbers, dtype=dtype))
    assert (result.asscalar(), result.dtype) == (norm, np.dtype(dtype).type)


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("n", [1, 2, 3])
def test_polygamma_far_from_0_is_no_0(n: int):
    """Against ψₙ(x) = (-1)ⁿ⁺¹ ((n - 1)! / xⁿ + n! / 2xⁿ⁺¹ + (n + 1)! / 12xⁿ⁺²) in float64."""
    x = np.array([3e2, 5e3, 9e3, 1e5, 1e9, 1e12, 1e21, 1e30], np.float32)
    x = x[x.astype(np.float64) ** n < 1e37]  # below, the result is no normal number of float32
    wide, sign = x.astype(np.float64), (-1) ** (n + 1)
    terms = math.factorial(n - 1) / wide**n, math.factorial(n) / 2 / wide ** (n + 1)
    expected = sign * (sum(terms) + math.factorial(n + 1) / 12 / wide ** (n + 2))
    computed = mx.nd._internal._polygamma(mx.nd.array(x), n=n).asnumpy()
    np.testing.assert_allclose(computed, expected, rtol=2e-6)
