"""Keys that NumPy makes are those that JAX makes."""

import zlib

import jax
import numpy as np
import pytest

from lowering.host.numpy_keys import folded_in, key_of_seed
from lowering.initializer import Normal, Uniform
from tests.support.compilations import compilations


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("seed", [0, 1, -1, 7, 2**31, 2**32 - 1, 2**32 + 5, -(2**63), 2**63 - 1])
@pytest.mark.parametrize("wide", [False, True])
def test_the_key_of_a_seed_is_jaxs(seed: int, wide: bool):
    with jax.enable_x64(wide):
        ours, jaxs = key_of_seed(seed), jax.random.key(seed)
        assert ours.dtype == jaxs.dtype
        np.testing.assert_array_equal(jax.random.key_data(ours), jax.random.key_data(jaxs))
        folded, jaxs = key_of_seed(seed, 2**32 - 2), jax.random.fold_in(jaxs, 2**32 - 2)
        np.testing.assert_array_equal(jax.random.key_data(folded), jax.random.key_data(jaxs))


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("number", [0, 1, 2**31, 2**32 - 1])
def test_a_folded_key_is_jaxs(number: int):
    key = jax.random.key(11)
    ours, jaxs = folded_in(key, number), jax.random.fold_in(key, number)
    np.testing.assert_array_equal(jax.random.key_data(ours), jax.random.key_data(jaxs))
    traced = jax.jit(lambda key: jax.random.key_data(folded_in(key, number)))(key)
    np.testing.assert_array_equal(traced, jax.random.key_data(jaxs))


def test_keys_of_other_generators_are_left_to_jax():
    key = jax.random.key(3, impl="rbg")
    assert folded_in(key, 1).dtype == key.dtype
    with jax.default_prng_impl("rbg"):
        assert key_of_seed(3).dtype == key_of_seed(3, 1).dtype == key.dtype


@pytest.mark.slow("compiles")
def test_first_values_are_jaxs_numbers_and_compile_nothing():
    with compilations(traces=False) as seen:
        uniform = Uniform(0.5)("fc_weight", (3, 5), key=4)
        normal = Normal(2.0)("fc_weight", (3, 5), key=4)
    assert seen == []
    key = jax.random.fold_in(jax.random.key(4), zlib.crc32(b"fc_weight"))
    np.testing.assert_array_equal(uniform, jax.random.uniform(key, (3, 5), minval=-1.0) * np.float32(0.5))
    np.testing.assert_allclose(normal, jax.random.normal(key, (3, 5)) * 2, rtol=1e-5)
