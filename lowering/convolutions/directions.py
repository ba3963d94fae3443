"""Compute the three directions of a convolution, channels last, by the algorithm of a given name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.convolutions import windows, xla
from lowering.convolutions.applicable import LIBRARY, applies, strip
from lowering.convolutions.backends import onednn
from lowering.convolutions.choose import choose
from lowering.convolutions.depthwise_rows import by_rows
from lowering.convolutions.geometry import Geometry, turned
from lowering.convolutions.grouped import Shifts
from lowering.convolutions.phases import by_phases, swapped
from lowering.convolutions.winograd import winograd, winograd_weight, winograd_weight_gradient
from lowering.xla.library_call import library_call

__all__ = ["DATA", "FORWARD", "TRANSFORMED", "WEIGHT", "data_gradient", "forward", "weight_gradient"]

Rule = Callable[[Array, Array, Geometry], Array]


# -- forward ---------------------------------------------------------------------------------------------------------


def _winograd(data: Array, weight: Array, g: Geometry, *, tile: int) -> Array:
    return winograd(data, winograd_weight(weight, tile), g, tile)


def _shifts(g: Geometry) -> Shifts:
    spatial = tuple(range(1, len(g.kernel) + 1))
    return Shifts(g.groups, len(g.kernel) + 1, spatial, g.kernel, g.stride, g.dilate, before=g.pad, after=g.pad)


def _shifted(data: Array, weight: Array, g: Geometry) -> Array:
    return _shifts(g).convolve(data, jnp.moveaxis(weight, -1, 0), g.out_size)


def _by_strips(data: Array, weight: Array, g: Geometry, *, rule: Rule) -> Array:
    """Apply a rule of the forward direction to one strip of rows of one sample after the other."""
    rows = strip(g)
    strips = -(-g.out_size[0] // rows)
    input_rows = (rows - 1) * g.stride[0] + g.dilate[0] * (g.kernel[0] - 1) + 1
    needed = (strips - 1) * rows * g.stride[0] + input_rows
    config = [(pad, pad, 0) for pad in g.pad]
    config[0] = (g.pad[0], needed - g.size[0] - g.pad[0], 0)
    padded = lax.pad(data, np.zeros((), data.dtype), [(0, 0, 0), *config, (0, 0, 0)])
    one = replace(g, batch=1, size=(input_rows, *padded.shape[2:-1]), pad=(0,) * len(g.kernel))

    def one_sample(x: Array) -> Array:
        def one_strip(i: Array) -> Array:
            return rule(lax.dynamic_slice_in_dim(x, i * (rows * g.stride[0]), input_rows)[None], weight, one)[0]

        return lax.map(one_strip, jnp.arange(strips))

    by_strip = lax.map(one_sample, padded)
    out = by_strip.reshape(data.shape[0], strips * rows, *by_strip.shape[3:])
    return lax.slice_in_dim(out, 0, g.out_size[0], axis=1)


@dataclass(frozen=True)
class _InLibrary:
    """Computes a convolution by the platform's library, or by the fastest algorithm without it."""

    geometry: Geometry
    order: onednn.Order
    samples_axis, adds_samples = 0, False

    def by_library(self, data: Array, weight: Array) -> Array:
        return onednn.convolve_plain(data, weight, self.geometry, self.order)

    def elsewhere(self, data: Array, weight: Array) -> Array:
        return FORWARD[choose("forward", self.geometry, "cpu", precise=True)](data, weight, self.geometry)

    def of_samples(self, count: int) -> Callable[..., Array]:
        other = replace(self, geometry=replace(self.geometry, batch=count))
        return partial(library_call, other) if onednn.computes(other.geometry) else other.elsewhere


def _library(data: Array, weight: Array, g: Geometry) -> Array:
    return library_call(_InLibrary(g, onednn.FILTERS_FIRST), data, weight)


def _library_turned(data: Array, weight: Array, g: Geometry) -> Array:
    """Return a convolution with a turned weight: the order that was filters first is now channels first."""
    order = onednn.CHANNELS_FIRST if g.groups == 1 else onednn.FILTERS_FIRST
    return library_call(_InLibrary(g, order), data, weight)


TRANSFORMED: Mapping[str, Rule] = {
    "winograd2": partial(winograd, tile=2),
    "winograd4": partial(winograd, tile=4),
}
"""Forward, with the weight as `winograd_weight` makes it."""

FORWARD: Mapping[str, Rule] = {
    "xla": xla.forward,
    "product": windows.product,
    "whole": windows.whole,
    "im2col": windows.im2col,
    "winograd2": partial(_winograd, tile=2),
    "winograd4": partial(_winograd, tile=4),
    "shifts": _shifted,
    LIBRARY: _library,
    "im2col_chunks": partial(_by_strips, rule=windows.im2col),
}


def forward(data: Array, weight: Array, geometry: Geometry, algorithm: str) -> Array:
    """Map data (n, *size, c), weight (*kernel, c / g, f) → (n, *out_size, f)."""
    return FORWARD[algorithm](data, weight, geometry)


# -- the gradient of data --------------------------------------------------------------------------------------------


def _as_forward(ograd: Array, weight: Array, g: Geometry, *, rule: Rule) -> Array:
    """Return the data gradient at stride 1: the head gradient convolved with the turned weight."""
    return rule(ograd, swapped(lax.rev(weight, tuple(range(len(g.kernel)))), g.groups), turned(g))


def _shifted_data(ograd: Array, weight: Array, g: Geometry) -> Array:
    if any(stride > 1 for stride in g.stride):
        return by_phases(ograd, weight, g, _shifted)
    return _as_forward(ograd, weight, g, rule=_shifted)


def _library_data(ograd: Array, weight: Array, g: Geometry) -> Array:
    if all(stride == 1 for stride in g.stride):
        return _as_forward(ograd, weight, g, rule=_library_turned)
    return by_phases(ograd, weight, g, _library_phase)


def _library_phase(data: Array, weight: Array, g: Geometry) -> Array:
    return (_library if onednn.computes(g) else _phase)(data, weight, g)


def _phase(data: Array, weight: Array, g: Geometry) -> Array:
    names = ("product", "xla") if g.groups == 1 else ("shifts", "im2col_chunks", "im2col", "xla")
    name = next(name for name in names if applies(name, "forward", g))
    return FORWARD[name](data, weight, g)


DATA: Mapping[str, Rule] = {
    "xla": xla.data_gradient,
    "product": windows.product_data,
    "whole": windows.whole_data,
    **{name: partial(_as_forward, rule=FORWARD[name]) for name in FORWARD if name.startswith(("im2col", "winograd"))},
    "shifts": _shifted_data,
    "phases": partial(by_phases, forward=_phase),
    LIBRARY: _library_data,
}


def data_gradient(ograd: Array, weight: Array, geometry: Geometry, algorithm: str) -> Array:
    """Map head gradient (n, *out_size, f), weight (*kernel, c / g, f) → gradient of data (n, *size, c)."""
    return DATA[algorithm](ograd, weight, geometry)


# -- the gradient of the weight --------------------------------------------------------------------------------------


def _shifted_weight(ograd: Array, data: Array, g: Geometry) -> Array:
    return jnp.moveaxis(_shifts(g).weight_gradient(data, ograd), 0, -1)


def _rows(ograd: Array, data: Array, g: Geometry) -> Array:
    return by_rows(ograd, data, _shifts(g))[:, :, None]


def _summed(ograd: Array, data: Array, g: Geometry, *, rule: Rule) -> Array:
    """Apply a rule to one sample after the other, and add up, half precision in float32."""
    one = replace(g, batch=1)

    def add(total: Array, sample: tuple[Array, Array]) -> tuple[Array, None]:
        dy, x = sample
        return total + rule(dy[None], x[None], one).astype(total.dtype), None

    wide = jnp.promote_types(data.dtype, jnp.float32)
    start = jnp.zeros((*g.kernel, g.channels // g.groups, g.filters), wide)
    return lax.scan(add, start, (ograd, data))[0].astype(data.dtype)


WEIGHT: Mapping[str, Rule] = {
    "xla": xla.weight_gradient,
    "product": windows.product_weight,
    "whole": windows.whole_weight,
    "im2col": windows.im2col_weight,
    "shifts": _shifted_weight,
    "rows": _rows,
    "winograd2": partial(winograd_weight_gradient, tile=2),
    "winograd4": partial(winograd_weight_gradient, tile=4),
    "winograd4_chunks": partial(_summed, rule=partial(winograd_weight_gradient, tile=4)),
    "im2col_chunks": partial(_summed, rule=windows.im2col_weight),
}


def weight_gradient(ograd: Array, data: Array, geometry: Geometry, algorithm: str) -> Array:
    """Map head gradient (n, *out_size, f), data (n, *size, c) → gradient of the weight (*kernel, c / g, f)."""
    return WEIGHT[algorithm](ograd, data, geometry)
