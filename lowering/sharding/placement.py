"""`Placement`: where a network's inputs, parameters, states and outputs are: on one device, or over a mesh."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from math import prod
from typing import Any

import jax
import numpy as np
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding

from lowering.host.placed import copied_in_order
from lowering.sharding.explicit_axes import auto_mesh
from lowering.xla.platforms import device_of, kind_of
from symjax_nnvm.errors import TrainingError, did_you_mean, listed
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.sharding import SHARDING, mesh_axes
from symjax_nnvm.passes.place_sharding import declared_text
from symjax_nnvm.symbol.symbol import Symbol

Shape = tuple[Any, ...]

Rules = Sequence[tuple[str, PartitionSpec]]
"""(pattern, PartitionSpec): how arrays are split whose names match, as those of files do (`fc*_weight`)."""

WORDS = ("replicate", "fsdp", "zero1")
"""replicate: every device has all parameters. fsdp: each parameter, and what the optimiser keeps of it, is split over
the data axis. zero1: what the optimiser keeps is."""

_EXAMPLE = "sharding=[('fc1_weight', PartitionSpec('model', None))]"


@dataclass(frozen=True)
class Placement:
    """The sharding of every array of a network, over a mesh with auto axes or on one device.

    word: one of `WORDS`; None with rules, each of which matches some parameter. data_axis: the axes of the mesh
    that batches are split over. declared: the graph's own shardings of variables by name, which come before all else.
    device: without a mesh the sharding of all arrays; None: they are where JAX puts them.
    """

    mesh: Mesh | None = None
    word: str | None = "replicate"
    rules: Rules = ()
    data_axis: tuple[str, ...] = ()
    declared: Mapping[str, PartitionSpec] = field(default_factory=dict)
    device: SingleDeviceSharding | None = None

    def sharding(self, *axes: Any) -> Any:
        """Return the sharding of an array whose axis i is split over axes[i] of the mesh; without axes it is whole."""
        return self.device if self.mesh is None else NamedSharding(self.mesh, PartitionSpec(*axes))

    @property
    def platform(self) -> str:
        """Return the kind of the devices."""
        return kind_of(next(iter(self.sharding().device_set)))

    @property
    def _sizes(self) -> Mapping[str, int]:
        """Return the sizes of the mesh's axes."""
        return {} if self.mesh is None else self.mesh.shape

    @property
    def parts(self) -> int:
        """Return the number of parts that a batch is split into."""
        return prod(self._sizes[axis] for axis in self.data_axis)

    @property
    def processes(self) -> int:
        """Return the number of processes that have devices of the mesh."""
        return 1 if self.mesh is None else len({device.process_index for device in self.mesh.devices.flat})

    def input(self, name: str, shape: Shape) -> Any:
        """Return the sharding of an input: split as a batch is, unless the graph declares another split."""
        if self.mesh is None:
            return self.device
        if name in self.declared:
            return self._by_rule(name, shape)
        return self.batch(shape[0]) if shape else self.sharding()

    def batch(self, size: int) -> Any:
        """Return the sharding of an array with `size` samples on axis 0: whole if they cannot be split evenly."""
        return self.sharding(self.data_axis) if size % self.parts == 0 else self.sharding()

    def whole(self, tree: Any) -> Any:
        """Return traced results that every device has, and so every process can read."""
        return tree if self.mesh is None else jax.lax.with_sharding_constraint(tree, self.sharding())

    def readable(self, tree: Any) -> Any:
        """Return traced results that this process is to read: `whole` where there are several processes."""
        return self.whole(tree) if self.processes > 1 else tree

    def parameters(self, shapes: Mapping[str, Shape]) -> dict[str, Any]:
        """Return shardings of parameters by name. Raises TrainingError for rules that match or fit nothing."""
        self._check_rules(shapes)
        return {name: self._of_word(name, shape, "fsdp") for name, shape in shapes.items()}

    def optimizer_slots(self, shapes: Mapping[str, Shape]) -> dict[str, Any]:
        """Shardings of an optimiser's arrays in the shape of each parameter, by its name; gradients are split alike."""
        return {name: self._of_word(name, shape, "fsdp", "zero1") for name, shape in shapes.items()}

    def states(self, shapes: Mapping[str, Shape]) -> dict[str, Any]:
        """Return shardings of auxiliary states by name, which are small: whole on every device, unless a rule
        matches."""
        return {name: self._by_rule(name, shape) for name, shape in shapes.items()}

    def _of_word(self, name: str, shape: Shape, *words: str) -> Any:
        split = self.word in words and name not in self.declared
        return self._split(shape) if split else self._by_rule(name, shape)

    def _split(self, shape: Shape) -> Any:
        """Split over the data axes along the longest axis that can be; where none can, over as many of them as can be
        dealt to several axes, the largest first. An array that no data axis divides is whole everywhere."""
        fitting = [i for i, size in enumerate(shape) if size and size % self.parts == 0]
        if fitting:
            at = max(fitting, key=lambda i: (shape[i], -i))
            return self.sharding(*(None,) * at, self.data_axis)
        sizes_left: list[int] = list(shape)
        dealt: list[tuple[str, ...]] = [()] * len(shape)
        for axis in sorted(self.data_axis, key=lambda axis: -self._sizes[axis]):
            count = self._sizes[axis]
            fitting = [i for i, size in enumerate(sizes_left) if size and size % count == 0]
            if fitting:
                at = max(fitting, key=lambda i: (sizes_left[i], -i))
                sizes_left[at], dealt[at] = sizes_left[at] // count, (*dealt[at], axis)
        return self.sharding(*(axes or None for axes in dealt)) if any(dealt) else self.sharding()

    def _check_rules(self, names: Iterable[str]) -> None:
        names = list(names)
        idle = [pattern for pattern, _ in self.rules if not any(fnmatchcase(name, pattern) for name in names)]
        if idle:
            close = did_you_mean(idle[0], names)
            fix = f"A pattern must match the whole name, as file patterns do: 'fc*_weight'. {close}".rstrip()
            raise TrainingError(f"Rules of sharding match no parameter: {listed(idle)}", expected=names[:20], fix=fix)

    def _by_rule(self, name: str, shape: Shape) -> Any:
        """Return the sharding that the graph gives an array, or the first rule that matches; else whole."""
        matching = (spec for pattern, spec in self.rules if fnmatchcase(name, pattern))
        spec = self.declared.get(name) or next(matching, PartitionSpec())
        if self.mesh is not None:
            check_fits(self.mesh, spec, name, shape)
        return self.sharding(*spec)


DEFAULT_PLACEMENT = Placement()
"""One device, where JAX puts arrays."""


def check_fits(mesh: Mesh | AbstractMesh, spec: PartitionSpec, name: str, shape: Shape) -> None:
    """Raise TrainingError where an array of a shape cannot be split so."""
    if len(spec) > len(shape):
        got = f"shape {tuple(shape)} and {spec}"
        raise TrainingError("The PartitionSpec has more axes than the array", input=name, got=got)
    for i, entry in enumerate(spec):
        axes = () if entry is None else (entry,) if isinstance(entry, str) else tuple(entry)
        check_axes(mesh, axes, f"The PartitionSpec of {name!r}")
        count = prod(mesh.shape[axis] for axis in axes)
        if shape[i] % count:
            others = [str(j) for j, size in enumerate(shape) if size % count == 0]
            way = f"Split axis {' or '.join(others)} instead" if others else "Leave the array whole, PartitionSpec()"
            raise TrainingError(
                f"Axis {i} of {name!r} cannot be split evenly",
                expected=f"a multiple of {count}, the devices along {' and '.join(map(repr, axes))}",
                got=f"shape {tuple(shape)}",
                fix=f"{way}, or change the layer's size, or take a mesh with fewer devices along that axis.",
            )


def check_axes(mesh: Mesh | AbstractMesh, axes: Iterable[Any], what: str) -> None:
    """Raise TrainingError for axes that a mesh does not have."""
    for axis in axes:
        if axis not in mesh.axis_names:
            example = ", ".join(map(repr, mesh.axis_names))
            close = did_you_mean(str(axis), mesh.axis_names)
            fix = f"{close} Name the axes with jax.make_mesh((4, 2), ('data', 'model')).".lstrip()
            raise TrainingError(
                f"{what} names an axis that the mesh does not have", expected=f"among {example}", got=axis, fix=fix
            )


def on_device(platform: str | None) -> Placement:
    """Return the placement on one device of a platform. Raises SymbolValueError for a platform without a device."""
    return Placement(device=SingleDeviceSharding(device_of(platform)))


def make_placement(
    mesh: Any, sharding: Any = "replicate", data_axis: str | Sequence[str] = "data", symbol: Symbol | None = None
) -> Placement:
    """Return the placement of a network's arrays on a mesh; without one, where JAX puts them. sharding: one of `WORDS`,
    or rules, which leave whole what none of them matches. data_axis: the axis, or axes, of the mesh that batches are
    split over. symbol: the network, whose variables may declare by `__sharding__` how they are split. Raises
    TrainingError; PassError for axes in the graph that the mesh lacks."""
    if mesh is None:
        if isinstance(sharding, str) and sharding == "replicate":
            return DEFAULT_PLACEMENT
        fix = f"mesh=jax.make_mesh((jax.device_count(),), ('data',)), sharding={sharding!r:.40}."
        raise TrainingError("sharding needs a mesh", expected="mesh=...", got="no mesh", fix=fix)
    if not isinstance(mesh, Mesh):
        fix = "mesh=jax.make_mesh((jax.device_count(),), ('data',))."
        raise TrainingError("No mesh", param="mesh", expected="a jax.sharding.Mesh", got=type(mesh).__name__, fix=fix)
    axes = (data_axis,) if isinstance(data_axis, str) else tuple(data_axis)
    check_axes(mesh, axes, "data_axis")
    if AxisType.Manual in mesh.axis_types:
        fix = "Inside jax.shard_map use trainer.step_fn of a trainer without a mesh."
        raise TrainingError("The axes of this mesh are manual", param="mesh", got=mesh.axis_types, fix=fix)
    declared = {} if symbol is None else declared_shardings(symbol, mesh)
    if isinstance(sharding, str):
        if sharding not in WORDS:
            fix = did_you_mean(sharding, WORDS) or f"Write rules as pairs: {_EXAMPLE}."
            expected = f"one of {listed(WORDS)}, or rules"
            raise TrainingError("Unknown sharding", param="sharding", expected=expected, got=repr(sharding), fix=fix)
        return Placement(auto_mesh(mesh), sharding, (), axes, declared)
    return Placement(auto_mesh(mesh), None, _rules(sharding, mesh), axes, declared)


def _rules(value: Any, mesh: Mesh) -> Rules:
    rules = tuple(value.items()) if isinstance(value, Mapping) else value
    if not isinstance(rules, list | tuple) or not all(
        isinstance(rule, tuple) and len(rule) == 2 and isinstance(rule[0], str) and isinstance(rule[1], PartitionSpec)
        for rule in rules
    ):
        expected = f"one of {listed(WORDS)}, or pairs of a pattern and a PartitionSpec"
        raise TrainingError("Wrong sharding", param="sharding", expected=expected, got=repr(value), fix=f"{_EXAMPLE}.")
    for pattern, spec in rules:
        used = [axis for entry in spec if entry for axis in ((entry,) if isinstance(entry, str) else entry)]
        check_axes(mesh, used, f"The PartitionSpec for {pattern!r}")
    return tuple(rules)


def declared_shardings(symbol: Symbol, mesh: Mesh) -> dict[str, PartitionSpec]:
    """Return shardings of a graph's variables by their attribute `__sharding__`. Raises PassError as PlaceSharding."""
    nodes = [node for node in Graph(symbol.outputs).nodes() if node.is_variable and SHARDING in node.attrs.dict]
    return {node.name: PartitionSpec(*mesh_axes(declared_text(node, mesh.axis_names))) for node in nodes}


# -- putting arrays on a mesh ------------------------------------------------------------------------------------------


def put(value: Any, sharding: Sharding) -> jax.Array:
    """Return an array with this sharding that no caller can change, of one that is the same in every process.
    `jax.device_put` may share the memory of a NumPy array, so it gets a copy, which it takes over; `jax.numpy.array`
    copies, too, but compiles a program for each shape: 0.3 s of ResNet-50's."""
    return place(value if isinstance(value, jax.Array) else copied_in_order(np.asarray(value)), sharding)


def place(value: Any, sharding: Sharding) -> jax.Array:
    """Return an array with this sharding: of a whole array, which with several processes is the same in each; or of one
    that is split otherwise on the mesh. Each process copies what its devices hold, and no more. An array that has the
    sharding already is not put again, which takes 0.1 ms."""
    if isinstance(value, jax.Array) and value.sharding == sharding:
        return value
    if sharding.is_fully_addressable or (isinstance(value, jax.Array) and not value.is_fully_addressable):
        return jax.device_put(value, sharding)
    host = np.asarray(value)
    return jax.make_array_from_callback(host.shape, sharding, lambda index: host[index])
