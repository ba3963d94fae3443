"""The devices that store a predictor's arrays: one device, or a mesh of devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, Sharding, SingleDeviceSharding

from lowering.sharding import Placement, Shape, place
from lowering.xla.platforms import device_of, kind_of

__all__ = ["Home", "OneDevice", "OverMesh", "on_host"]


class OneDevice:
    """One device stores all arrays. Raises LoweringError for a platform that JAX does not know, or has no device of."""

    mesh: Mesh | None = None
    data_axis: tuple[str, ...] = ()
    processes = 1

    def __init__(self, platform: str | None):
        device = device_of(platform)
        self._here = SingleDeviceSharding(device)
        self.platform: str = kind_of(device)

    def parameter(self, name: str) -> Sharding:
        """The sharding of a parameter."""
        return self._here

    def input(self, name: str, shape: tuple[Any, ...]) -> Sharding:
        """The sharding of an input of a shape."""
        return self._here

    def part(self, name: str, shape: tuple[Any, ...]) -> tuple[Any, ...]:
        """The shape of a device's part of an input."""
        return shape

    def put(self, value: Any, sharding: Sharding) -> jax.Array:
        """An array with this sharding that no caller can change. `jax.device_put` may share the memory of
        a NumPy array, so it gets a copy; `jax.numpy.array` copies, too, but compiles a program for each shape: 0.3 s of
        ResNet-50's. An array that has the sharding already is not put again, which takes 0.1 ms."""
        if not isinstance(value, jax.Array):
            return jax.device_put(np.array(value), sharding)
        return value if value.sharding == sharding else jax.device_put(value, sharding)


class OverMesh:
    """A mesh of devices. Inputs are split over the data axes along their first axis, parameters as the placement says;
    the graph may say otherwise of both. shapes: of the parameters. Raises TrainingError where a shape does not fit."""

    def __init__(self, placement: Placement, shapes: Mapping[str, Shape]):
        self._placement, self.mesh, self.data_axis = placement, placement.mesh, placement.data_axis
        self.platform: str = kind_of(placement.mesh.devices.flat[0])
        self.processes = placement.processes
        self._parameters = placement.parameters(shapes)

    def parameter(self, name: str) -> NamedSharding:
        """The sharding of a parameter."""
        return self._parameters[name]

    def input(self, name: str, shape: tuple[Any, ...]) -> NamedSharding:
        """The sharding of an input of a shape: whole on every device, if its first axis cannot be split."""
        if name in self._placement.declared:
            return self._placement.states({name: shape})[name]
        return self._placement.batch(shape[0]) if shape else self._placement.of()

    def part(self, name: str, shape: tuple[Any, ...]) -> tuple[Any, ...]:
        """The shape of a device's part of an input."""
        return self.input(name, shape).shard_shape(shape)

    def put(self, value: Any, sharding: Sharding) -> jax.Array:
        """An array with this sharding that no caller can change, made of one that is the same in every process."""
        assert isinstance(sharding, NamedSharding)
        return place(value if isinstance(value, jax.Array) else np.array(value), sharding)


Home = OneDevice | OverMesh


def on_host(outputs: Sequence[jax.Array]) -> list[np.ndarray]:
    """The outputs as NumPy arrays, whole in every process."""
    if all(output.is_fully_addressable for output in outputs):
        return [np.asarray(output) for output in outputs]
    return [np.asarray(each) for each in multihost_utils.process_allgather(list(outputs), tiled=True)]
