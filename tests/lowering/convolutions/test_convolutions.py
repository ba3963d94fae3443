"""Every algorithm of a convolution, in every direction, against XLA's convolution and its derivatives in float64."""

from dataclasses import replace
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from lowering.convolutions import applicable as applicable_module
from lowering.convolutions import directions
from lowering.convolutions.applicable import applicable, applies, winograd_tile
from lowering.convolutions.backends import Backend
from lowering.convolutions.directions import DATA, FORWARD, TRANSFORMED, WEIGHT
from lowering.convolutions.geometry import Direction, Geometry
from lowering.convolutions.ops.algorithms import of_layout
from lowering.convolutions.winograd import winograd_weight
from lowering.ops.nn import convolution as rules
from symjax_nnvm import symbol as sym
from tests.support.comparison import assert_close


def of(size: tuple[int, ...], channels: int, filters: int, kernel: tuple[int, ...], **others: object) -> Geometry:
    """A geometry; others: a number for all axes, or one for each."""
    rank = len(size)
    steps = {"stride": 1, "dilate": 1, "pad": 0} | others
    axes = {name: (value,) * rank if isinstance(value, int) else value for name, value in steps.items()}
    groups, batch = axes.pop("groups", (1,)), axes.pop("batch", (2,))
    return Geometry(batch[0], size, channels, filters, kernel, groups=groups[0], dtype="float64", **axes)  # type: ignore


GEOMETRIES = {
    "3×3": of((7, 9), 3, 5, (3, 3), pad=1),
    "3×3, more padding than window": of((13, 4), 2, 3, (3, 3), pad=3),
    "3×3, stride 2": of((9, 8), 3, 4, (3, 3), stride=2, pad=1),
    "3×2, strides 3 and 2, data left over": of((11, 8), 3, 4, (3, 2), stride=(3, 2), pad=(1, 0)),
    "2×2, stride 3: elements that no window sees": of((9, 10), 2, 2, (2, 2), stride=3),
    "7×7, stride 2": of((15, 14), 3, 6, (7, 7), stride=2, pad=3),
    "1×1": of((4, 5), 3, 4, (1, 1)),
    "1×1, stride 3": of((7, 6), 3, 4, (1, 1), stride=3),
    "1×1, padded": of((4, 5), 3, 4, (1, 1), pad=1),
    "3×3, dilated": of((9, 8), 4, 3, (3, 3), dilate=2, pad=2),
    "3×3, dilated, stride 2: not all phases have places": of((12, 11), 3, 4, (3, 3), dilate=2, stride=2, pad=1),
    "3×2, dilation 4, stride 6, groups": of((16, 14), 4, 4, (3, 2), dilate=4, stride=6, pad=1, groups=2),
    "depth-wise": of((8, 7), 4, 4, (3, 3), pad=1, groups=4),
    "depth-wise, stride 2, two filters a channel": of((9, 8), 4, 8, (3, 3), stride=2, pad=1, groups=4),
    "depth-wise, strides 2 and 3, dilated": of((9, 11), 3, 3, (3, 2), stride=(2, 3), dilate=2, pad=2, groups=3),
    "two groups": of((6, 5), 6, 4, (3, 3), pad=1, groups=2),
    "two groups of many channels": of((6, 5), 8, 10, (3, 3), pad=1, groups=2),
    "two groups of many channels, stride 2": of((6, 5), 8, 10, (3, 2), stride=2, pad=1, groups=2),
    "two groups of too many channels for shifts": of((6, 5), 16, 18, (3, 3), pad=1, groups=2),
    "3×2, all of the data": of((3, 2), 4, 5, (3, 2)),
    "1-D, all of the data, stride 2": of((6,), 3, 4, (6,), stride=2),
    "1-D, stride 2": of((12,), 4, 5, (5,), stride=2, pad=2),
    "3-D": of((5, 4, 3), 2, 3, (3, 3, 3), pad=1),
    "3-D, stride 2": of((5, 6, 4), 2, 3, (3, 2, 1), stride=2, pad=(1, 0, 0)),
}

RULES = {"forward": directions.forward, "data": directions.data_gradient, "weight": directions.weight_gradient}
TABLES = {"forward": FORWARD, "data": DATA, "weight": WEIGHT}


def arrays(g: Geometry) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Data, weight and head gradient in the dtype of the geometry."""
    rng = np.random.default_rng(0)
    shapes = (g.batch, *g.size, g.channels), (*g.kernel, g.channels // g.groups, g.filters), (g.batch, *g.out_size)
    data, weight, ograd = shapes[0], shapes[1], (*shapes[2], g.filters)
    return tuple(rng.standard_normal(shape).astype(g.dtype) for shape in (data, weight, ograd))  # type: ignore


def expected(g: Geometry) -> dict[Direction, np.ndarray]:
    """What JAX computes in float64."""
    axes = "XYZ"[: len(g.size)]
    data, weight, ograd = (jnp.asarray(array, "float64") for array in arrays(g))

    def convolve(data: jax.Array, weight: jax.Array) -> jax.Array:
        return lax.conv_general_dilated(
            data,
            weight,
            g.stride,
            [(pad, pad) for pad in g.pad],
            rhs_dilation=g.dilate,
            dimension_numbers=(f"N{axes}C", f"{axes}IO", f"N{axes}C"),
            feature_group_count=g.groups,
        )

    def everything(data: jax.Array, weight: jax.Array, ograd: jax.Array) -> tuple[jax.Array, ...]:
        out, back = jax.vjp(convolve, data, weight)
        return out, *back(ograd)

    found = map(np.asarray, jax.jit(everything)(data, weight, ograd))
    return dict(zip(RULES, found, strict=True))  # type: ignore


def results(g: Geometry) -> dict[tuple[Direction, str], np.ndarray]:
    """What all algorithms compute, in one program."""
    data, weight, ograd = arrays(g)

    def everything(data: jax.Array, weight: jax.Array, ograd: jax.Array) -> dict[tuple[Direction, str], jax.Array]:
        inputs = {"forward": (data, weight), "data": (ograd, weight), "weight": (ograd, data)}
        return {(d, name): RULES[d](*inputs[d], g, name) for d in RULES for name in applicable(d, g)}  # type: ignore

    return {key: np.asarray(value) for key, value in jax.jit(everything)(data, weight, ograd).items()}


def errors(g: Geometry) -> dict[tuple[Direction, str], float]:
    """The largest difference of each algorithm, as a part of the largest number."""
    wanted, found = expected(g), {}
    for (direction, name), result in results(g).items():
        want = wanted[direction]
        assert (result.shape, result.dtype) == (want.shape, g.dtype), (direction, name)
        found[direction, name] = float(np.abs(result - want).max() / np.abs(want).max())
    return found


@pytest.mark.nightly("every geometry", but_one_in=3)
@pytest.mark.slow("compiles")
@pytest.mark.parametrize("name", GEOMETRIES)
def test_all_algorithms_agree_in_float64(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(applicable_module, "CHUNK_BYTES", 8000)  # several strips of small samples
    with jax.enable_x64(True):
        found = errors(GEOMETRIES[name])
    assert {key: error for key, error in found.items() if not error < 1e-12} == {}
    assert {direction for direction, _ in found} == set(RULES)


FIRST = {
    "1×1",
    "1×1, stride 3",
    "depth-wise",
    "depth-wise, stride 2, two filters a channel",
    "depth-wise, strides 2 and 3, dilated",
    "two groups",
    "3×2, dilation 4, stride 6, groups",
    "two groups of too many channels for shifts",
}
ORDERS = [*((name, GEOMETRIES[name], "NCHW") for name in sorted(FIRST))]
ORDERS += [
    ("1×1 of few places", of((1, 2), 3, 4, (1, 1)), "NCHW"),
    ("1×1 of one axis", of((5,), 3, 4, (1,)), "NCW"),
    ("depth-wise, layout given", GEOMETRIES["depth-wise, strides 2 and 3, dilated"], "NHWC"),
    ("large groups, layout given", GEOMETRIES["two groups of too many channels for shifts"], "NHWC"),
]


@pytest.mark.nightly("every order of axes", but_one_in=3)
@pytest.mark.slow("has many cases")
@pytest.mark.parametrize(("name", "g", "layout"), ORDERS, ids=lambda value: value if isinstance(value, str) else "")
def test_the_rules_of_every_layout_agree(name: str, g: Geometry, layout: Any):
    """Of Convolution, which a graph has where AlterOpLayout leaves it: products, shifted sums, rows, large groups."""
    net = sym.Convolution(
        sym.Variable("data"),
        sym.Variable("weight"),
        kernel=g.kernel,
        stride=g.stride,
        dilate=g.dilate,
        pad=g.pad,
        num_filter=g.filters,
        num_group=g.groups,
        layout=layout,
        no_bias=True,
    )
    p: Any = net.outputs[0].node.attrs.parsed
    axis = layout.index("C")

    def everything(data: jax.Array, weight: jax.Array, ograd: jax.Array) -> tuple[jax.Array, ...]:
        data, ograd = (jnp.moveaxis(array, -1, axis) for array in (data, ograd))
        weight = jnp.moveaxis(weight, (-1, -2), (0, axis))
        forward, of_data, of_weight = (
            of_layout(each, p, data.shape, data.dtype.name, Backend("cpu")) for each in get_args(Direction)
        )
        out = rules.convolve(p, data, weight, forward)
        dx = rules.data_gradient(p, ograd, weight, data.shape, of_data)
        dw = rules.weight_gradient(p, ograd, data, algorithm=of_weight)
        return *(jnp.moveaxis(array, axis, -1) for array in (out, dx)), jnp.moveaxis(dw, (0, axis), (-1, -2))

    with jax.enable_x64(True):
        wanted = expected(g)
        found = jax.jit(everything)(*map(jnp.asarray, arrays(g)))
    for (direction, want), result in zip(wanted.items(), found, strict=True):
        assert_close(np.asarray(result), want, 1e-12, f"{name}, {direction}")


@pytest.mark.slow("compiles")
def test_errors_in_float32():
    g = replace(GEOMETRIES["3×3"], size=(12, 13), channels=64, dtype="float32")
    with jax.enable_x64(True):
        found = errors(g)
    within = {key: error < (1e-5 if "winograd4" in key[1] else 1e-6) for key, error in found.items()}
    assert [key for key, is_within in within.items() if not is_within] == []


@pytest.mark.slow("compiles")
def test_half_precision_is_summed_in_float32():
    g = replace(GEOMETRIES["3×3"], channels=256, dtype="bfloat16")
    data, weight, _ = (jnp.asarray(array) for array in arrays(g))
    exact = directions.forward(data.astype("float32"), weight.astype("float32"), g, "xla")
    for name in ("im2col", "im2col_chunks"):
        out = directions.forward(data, weight, g, name)
        assert out.dtype == "bfloat16"
        assert np.abs(out - exact).max() < 2**-7 * np.abs(exact).max(), name


@pytest.mark.nightly("compiles")
def test_factors_made_before_give_the_same():
    with jax.enable_x64(True):
        g = GEOMETRIES["3×3"]
        data, weight, _ = arrays(g)
        for name in TRANSFORMED:
            factors = winograd_weight(jnp.asarray(weight), winograd_tile(name) or 0)
            got = TRANSFORMED[name](jnp.asarray(data), factors, g)
            np.testing.assert_allclose(got, expected(g)["forward"], atol=1e-12)


def test_every_algorithm_of_a_direction_has_its_rule_and_is_met_here():
    every = [replace(g, dtype=dtype) for g in GEOMETRIES.values() for dtype in ("float64", "float32")]
    met = {(d, name) for g in every for d in RULES for name in applicable(d, g)}  # type: ignore
    assert met == {(direction, name) for direction, rules in TABLES.items() for name in rules}


def test_what_cannot_compute_a_geometry_says_so():
    strided, grouped = GEOMETRIES["3×3, stride 2"], GEOMETRIES["two groups"]
    assert not applies("winograd4", "forward", strided)
    assert not applies("rows", "weight", GEOMETRIES["depth-wise, stride 2, two filters a channel"])
    assert not applies("im2col", "forward", grouped)
    assert not applies("phases", "forward", strided)
    assert not applies("product", "forward", strided)
    assert not applies("of another year", "forward", strided)
    assert not applies("im2col_chunks", "weight", replace(strided, batch=1))
