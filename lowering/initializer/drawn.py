"""Initialisers that draw random numbers: Uniform, Normal, Orthogonal, Xavier, MSRAPrelu."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lowering.host.evaluator import Evaluator, as_numpy, evaluator_of
from lowering.host.numpy_keys import key_of_seed
from lowering.host.staged import chosen_effort, may_evaluate
from lowering.host.threefry_bits import key_from
from lowering.initializer.initializer_base import Initializer, Shape, counts_elements, draw, register
from lowering.messages.counts import check_number
from symjax_nnvm.errors import InitializerError

_SIZES = tuple(4**k for k in range(6, 13))
"""Numbers drawn at a time: compiling a sampler for another size takes 1 s, drawing a million 10 ms."""

_PART = 2**18
"""Numbers that NumPy draws at a time: a million uniform ones in 25 ms, normal ones in 60, and in 26 and 80 all at once.
Compiled samplers take 23 and 27, and 0.4 s to compile."""


def _uniform(desc: str, key: jax.Array | None, shape: Shape, bound: float) -> Any:
    """Return numbers in [-bound, bound)."""
    return _first(jax.random.uniform, desc, key, shape, np.float32, -1.0, 1.0) * np.float32(bound)


def _normal(desc: str, key: jax.Array | None, shape: Shape, sigma: float) -> Any:
    """Return numbers of mean 0 and standard deviation sigma."""
    return _first(jax.random.normal, desc, key, shape, np.float32) * np.float32(sigma)


def _from_0_on(number: Any, param: str) -> Any:
    """Return a number. Raises CountError for anything else, InitializerError for one below 0."""
    check_number(number, param)
    if not float(number) >= 0:
        raise InitializerError(f"Wrong {param}", param=param, expected="a number ≥ 0", got=repr(number))
    return number


def _first(sampler: Callable[..., jax.Array], desc: str, key: jax.Array | None, shape: Shape, *args: Any) -> Any:
    """Return `draw` in parts, or as the first numbers of a longer draw, which few programs make.

    JAX's own generator counts elements, so they are the same numbers; others' need not be.
    """
    count = math.prod(shape)
    if not counts_elements(key):
        return draw(sampler, desc, key, shape, *args)
    if chosen_effort() == "auto" and may_evaluate():
        return _by_numpy(sampler, as_numpy(key), count, args).reshape(shape)
    size = next((size for size in _SIZES if count <= size), count)
    return np.asarray(draw(sampler, desc, key, (size,), *args))[:count].reshape(shape)


def _by_numpy(sampler: Callable[..., jax.Array], words: Any, count: int, args: tuple[Any, ...]) -> Any:
    """Return numbers that NumPy draws by a key's words."""
    size = min(_PART, max(1024, 1 << (count - 1).bit_length()))
    draws = _evaluator(sampler, size, args)
    numbers = np.empty(count, np.float32)
    with np.errstate(all="ignore"):
        for start in range(0, count, size):
            part = numbers[start : start + size]
            part[:] = draws(key_from(words, start))[0][: part.size]
    return numbers


@lru_cache(maxsize=64)
def _evaluator(sampler: Callable[..., jax.Array], size: int, args: tuple[Any, ...]) -> Evaluator:
    return evaluator_of(jax.make_jaxpr(lambda key: sampler(key, (size,), *args))(key_of_seed(0)))


@register
class Uniform(Initializer):
    """Draws uniform numbers in [-scale, scale).

    Args:
        scale: the bound, 0 or more.
    """

    def __init__(self, scale: float = 0.07):
        super().__init__(scale=scale)
        self.scale = _from_0_on(scale, "scale")

    def _init_weight(self, desc: str, shape: Shape, key: jax.Array | None) -> Any:
        return _uniform(desc, key, shape, self.scale)


@register
class Normal(Initializer):
    """Draws normal numbers of mean 0.

    Args:
        sigma: the standard deviation, 0 or more.
    """

    def __init__(self, sigma: float = 0.01):
        super().__init__(sigma=sigma)
        self.sigma = _from_0_on(sigma, "sigma")

    def _init_weight(self, desc: str, shape: Shape, key: jax.Array | None) -> Any:
        return _normal(desc, key, shape, self.sigma)


_SAMPLERS = {"uniform": _uniform, "normal": _normal}
_XAVIER_SAMPLERS = {"uniform": _uniform, "gaussian": _normal}


@register
class Orthogonal(Initializer):
    """Sets weights to a multiple of a matrix with orthonormal rows or columns, whichever are fewer (Saxe et al., 2013).

    The matrix is (first axis, all other axes); it has the singular vectors of a random matrix.

    Args:
        scale: the factor.
        rand_type: "uniform" or "normal" numbers in the random matrix.
    """

    def __init__(self, scale: float = 1.414, rand_type: str = "uniform"):
        super().__init__(scale=scale, rand_type=rand_type)
        check_number(scale, "scale")
        self.scale = scale
        self.rand_type = rand_type
        _choose("rand_type", rand_type, _SAMPLERS)

    def _init_weight(self, desc: str, shape: Shape, key: jax.Array | None) -> Any:
        if not shape:
            raise InitializerError("Orthogonal needs a parameter with axes", node=desc, got=shape)
        rows, columns = shape[0], math.prod(shape[1:])
        sampler = _choose("rand_type", self.rand_type, _SAMPLERS)
        left, _, right = jnp.linalg.svd(sampler(desc, key, (rows, columns), 1.0), full_matrices=False)
        return self.scale * (left if left.shape == (rows, columns) else right).reshape(shape)


_FACTORS = {
    "avg": lambda fan_in, fan_out: (fan_in + fan_out) / 2,
    "in": lambda fan_in, fan_out: fan_in,
    "out": lambda fan_in, fan_out: fan_out,
}


@register
class Xavier(Initializer):
    """Draws numbers of scale √(magnitude / f), which keeps the scale of gradients from layer to layer (Glorot &
    Bengio).

    For a weight (out, in, *kernel), fan in is in · Π kernel and fan out is out · Π kernel.

    Args:
        rnd_type: "uniform" for numbers in [-scale, scale); "gaussian" for numbers of standard deviation `scale`.
        factor_type: the factor f: "in" for fan in, "out" for fan out, "avg" for their mean.
        magnitude: the magnitude, 0 or more.
    """

    def __init__(self, rnd_type: str = "uniform", factor_type: str = "avg", magnitude: float = 3):
        super().__init__(rnd_type=rnd_type, factor_type=factor_type, magnitude=magnitude)
        self.magnitude = float(_from_0_on(magnitude, "magnitude"))
        self.rnd_type, self.factor_type = rnd_type, factor_type
        _choose("rnd_type", rnd_type, _XAVIER_SAMPLERS)
        _choose("factor_type", factor_type, _FACTORS)

    def scale(self, shape: Shape) -> float:
        """Return the bound, or the standard deviation, for a weight of this shape."""
        kernel = math.prod(shape[2:])
        factor = _choose("factor_type", self.factor_type, _FACTORS)
        return math.sqrt(self.magnitude / factor(shape[1] * kernel, shape[0] * kernel))

    def _init_weight(self, desc: str, shape: Shape, key: jax.Array | None) -> Any:
        if len(shape) < 2:
            raise InitializerError(
                f"Xavier initializer cannot be applied to vector {desc}. It requires at least 2D; the shape is {shape}."
            )
        return _choose("rnd_type", self.rnd_type, _XAVIER_SAMPLERS)(desc, key, shape, self.scale(shape))


@register
class MSRAPrelu(Xavier):
    """Draws as Gaussian Xavier of magnitude 2 / (1 + slope²), for layers before a PReLU (He et al., 2015).

    Args:
        factor_type: as in `Xavier`.
        slope: the slope of the PReLU.
    """

    def __init__(self, factor_type: str = "avg", slope: float = 0.25):
        super().__init__("gaussian", factor_type, 2.0 / (1 + slope**2))
        self._kwargs = {"factor_type": factor_type, "slope": slope}


def _choose(parameter: str, value: str, choices: dict[str, Any]) -> Any:
    if not isinstance(value, str) or value not in choices:
        raise InitializerError(
            "The value is not one of the choices", param=parameter, expected=list(choices), got=repr(value)
        )
    return choices[value]
