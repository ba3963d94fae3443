"""`mx.random`: the seed of all draws, and draws into arrays. Numbers are JAX's, not those of MXNet's generators."""

from __future__ import annotations

from lowering.mx.keys import seed as seed
from lowering.mx.ndarray import random as _random

uniform = _random.uniform
normal = _random.normal
randn = _random.randn
randint = _random.randint
exponential = _random.exponential
gamma = _random.gamma
poisson = _random.poisson
negative_binomial = _random.negative_binomial
generalized_negative_binomial = _random.generalized_negative_binomial
multinomial = _random.multinomial
shuffle = _random.shuffle
