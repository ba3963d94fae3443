"""How arrays are split over a mesh of devices: parameters, an optimiser's state of them, auxiliary states and batches.

XLA's partitioner decides how a program runs on a mesh; this module makes the `NamedSharding`s that it is told. It
decides for axes that are "auto". An axis that is "explicit", as those of `jax.make_mesh` are, asks every operation for
the sharding of its result, which operators written for one device do not give: arrays on such a mesh are taken with the
same buffers and the same split, as arrays on auto axes (`on_auto_axes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import wraps
from math import prod
from typing import Any, ParamSpec, TypeVar

import jax
import numpy as np
from jax.core import Tracer
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

from symjax_nnvm.errors import CallError, TrainingError, did_you_mean, listed
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import NodeEntry
from symjax_nnvm.ir.sharding import SHARDING, mesh_axes
from symjax_nnvm.passes.place_sharding import declared_text
from symjax_nnvm.symbol.symbol import Symbol

P = ParamSpec("P")
T = TypeVar("T")

Shape = tuple[int, ...]

Rules = Sequence[tuple[str, PartitionSpec]]
"""(pattern, PartitionSpec): how arrays are split whose names match, as those of files do (`fc*_weight`)."""

WORDS = ("replicate", "fsdp", "zero1")
"""replicate: every device has all parameters. fsdp: each parameter, and what the optimiser keeps of it, is split over
the data axis. zero1: what the optimiser keeps is."""

_EXAMPLE = "sharding=[('fc1_weight', PartitionSpec('model', None))]"


# -- explicit axes -----------------------------------------------------------------------------------------------------


def auto_mesh(mesh: Any) -> Any:
    """A mesh of the same devices, or an abstract one of the same axes, of which every axis is auto."""
    if AxisType.Explicit not in mesh.axis_types:
        return mesh
    types = tuple(AxisType.Auto if kind == AxisType.Explicit else kind for kind in mesh.axis_types)
    if isinstance(mesh, Mesh):
        return Mesh(mesh.devices, mesh.axis_names, axis_types=types)
    return mesh.update(axis_types=types)


def on_auto_axes(tree: Any) -> Any:
    """A tree whose arrays on explicit axes are the same arrays on auto ones; traced arrays, too. Nothing is copied."""
    return jax.tree.map(_on_auto_axes, tree)


def _on_auto_axes(leaf: Any) -> Any:
    sharding = _explicit(leaf)
    return leaf if sharding is None else jax.device_put(leaf, NamedSharding(auto_mesh(sharding.mesh), sharding.spec))


def _explicit(value: Any) -> NamedSharding | None:
    """The sharding of an array on explicit axes; None of anything else."""
    if not isinstance(value, jax.Array):
        return None
    sharding = jax.typeof(value).sharding if isinstance(value, Tracer) else value.sharding
    if not isinstance(sharding, NamedSharding) or AxisType.Explicit not in sharding.mesh.axis_types:
        return None
    return sharding


def under_auto_axes(function: Callable[P, T]) -> Callable[P, T]:
    """A function of arrays that sees auto axes only: those of its arguments, and of the mesh that `jax.set_mesh` set.
    Where no axis is explicit it is the function itself, and costs a look at each argument."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        with _auto_context():
            args, kwargs = on_auto_axes((args, kwargs))
            return function(*args, **kwargs)

    return call


def lying_like(values: Mapping[str, Any], models: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays by name, each on explicit axes where the one of its name among the models is, and split like it."""
    return {name: _lying_like(value, models.get(name)) for name, value in values.items()}


def outputs_lying_like(outputs: Sequence[Any], symbol: Symbol, args: Mapping[str, Any]) -> list[Any]:
    """Outputs, on explicit axes where arguments are. Those that are traced are split as their node's `__sharding__`
    says, or along the first axis like the first argument of as many samples; else each is whole on every device."""
    found = [_explicit(args.get(name)) for name in symbol.list_arguments()]
    mesh = next((each.mesh for each in found if each is not None), None)
    if mesh is None:
        return list(outputs)
    split: dict[int, Any] = {}
    for name, each in zip(symbol.list_arguments(), found, strict=True):
        if each is not None and np.ndim(args[name]):
            split.setdefault(args[name].shape[0], each.spec[0] if each.spec else None)

    def spec(entry: NodeEntry, output: Any) -> PartitionSpec:
        if not isinstance(output, Tracer):
            return output.sharding.spec
        if text := entry.node.attrs.dict.get(SHARDING):
            return PartitionSpec(*mesh_axes(text))
        return PartitionSpec(split.get(output.shape[0]) if output.ndim else None)

    pairs = zip(symbol.outputs, outputs, strict=True)
    return [_onto(output, NamedSharding(mesh, spec(entry, output))) for entry, output in pairs]


def _lying_like(value: Any, model: Any) -> Any:
    sharding = _explicit(model)
    return value if sharding is None else _onto(value, sharding)


def _onto(value: Any, sharding: NamedSharding) -> jax.Array:
    """An array on explicit axes; a traced one so that its cotangent comes back to the axes it has."""
    return jax.sharding.reshard(value, sharding) if isinstance(value, Tracer) else jax.device_put(value, sharding)


def chosen_mesh(mesh: Any) -> Any:
    """The mesh given, else the one that `jax.set_mesh` has set, with auto axes; None where there is neither. Raises
    CallError for what is no mesh."""
    if mesh is None:
        mesh = jax.sharding.get_mesh()
        return None if mesh.empty else auto_mesh(mesh)
    if not isinstance(mesh, Mesh | AbstractMesh):
        fix = "For example mesh=jax.make_mesh((jax.device_count(),), ('data',))."
        raise CallError("No mesh of devices", param="mesh", expected="a jax.sharding.Mesh", got=repr(mesh), fix=fix)
    return auto_mesh(mesh)


def _auto_context() -> AbstractContextManager[Any]:
    """The mesh that `jax.set_mesh` set, with auto axes."""
    around = jax.sharding.get_abstract_mesh()
    explicit = not around.empty and AxisType.Explicit in around.axis_types
    return jax.sharding.use_abstract_mesh(auto_mesh(around)) if explicit else nullcontext()


# -- how arrays are split ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Placement:
    """A mesh with auto axes, and the sharding of every array on it; `make_placement` makes one.

    word: one of `WORDS`; None where rules say it, each of which matches some parameter. data_axis: the axes of the mesh
    that batches are split over. declared: what the graph says of variables by name, which comes before all else.
    """

    mesh: Mesh
    word: str | None
    rules: Rules
    data_axis: tuple[str, ...]
    declared: Mapping[str, PartitionSpec] = field(default_factory=dict)

    def of(self, *axes: Any) -> NamedSharding:
        """The sharding of an array whose axis i is split over axes[i] of the mesh; `of()`: every device has all."""
        return NamedSharding(self.mesh, PartitionSpec(*axes))

    @property
    def parts(self) -> int:
        """The number of parts that a batch is split into."""
        return prod(self.mesh.shape[axis] for axis in self.data_axis)

    @property
    def processes(self) -> int:
        """The number of processes that have devices of the mesh."""
        return len({device.process_index for device in self.mesh.devices.flat})

    def batch(self, size: int) -> NamedSharding:
        """The sharding of an array with `size` samples on axis 0: whole everywhere, if they cannot be split evenly."""
        return self.of(self.data_axis) if size % self.parts == 0 else self.of()

    def parameters(self, shapes: Mapping[str, Shape]) -> dict[str, NamedSharding]:
        """Shardings of parameters by name. Raises TrainingError: rules that match nothing, or do not fit a shape."""
        self._check_rules(shapes)
        return {name: self._of_word(name, shape, "fsdp") for name, shape in shapes.items()}

    def optimizer_slots(self, shapes: Mapping[str, Shape]) -> dict[str, NamedSharding]:
        """Shardings of an optimiser's arrays in the shape of each parameter, by its name; gradients are split alike."""
        return {name: self._of_word(name, shape, "fsdp", "zero1") for name, shape in shapes.items()}

    def states(self, shapes: Mapping[str, Shape]) -> dict[str, NamedSharding]:
        """Shardings of auxiliary states by name, which are small: whole on every device, unless a rule matches."""
        return {name: self._by_rule(name, shape) for name, shape in shapes.items()}

    def _of_word(self, name: str, shape: Shape, *words: str) -> NamedSharding:
        split = self.word in words and name not in self.declared
        return self._split(shape) if split else self._by_rule(name, shape)

    def _split(self, shape: Shape) -> NamedSharding:
        """Split over the data axes along the longest axis that can be; where none can, over as many of them as can be
        dealt to several axes, the largest first. An array that no data axis divides is whole everywhere."""
        fitting = [i for i, size in enumerate(shape) if size and size % self.parts == 0]
        if fitting:
            at = max(fitting, key=lambda i: (shape[i], -i))
            return self.of(*(None,) * at, self.data_axis)
        left: list[int] = list(shape)
        dealt: list[tuple[str, ...]] = [()] * len(shape)
        for axis in sorted(self.data_axis, key=lambda axis: -self.mesh.shape[axis]):
            count = self.mesh.shape[axis]
            fitting = [i for i, size in enumerate(left) if size and size % count == 0]
            if fitting:
                at = max(fitting, key=lambda i: (left[i], -i))
                left[at], dealt[at] = left[at] // count, (*dealt[at], axis)
        return self.of(*(axes or None for axes in dealt)) if any(dealt) else self.of()

    def _check_rules(self, names: Iterable[str]) -> None:
        names = list(names)
        idle = [pattern for pattern, _ in self.rules if not any(fnmatchcase(name, pattern) for name in names)]
        if idle:
            close = did_you_mean(idle[0], names)
            fix = f"Patterns match whole names, as those of files do: 'fc*_weight'. {close}".rstrip()
            raise TrainingError(f"Rules of sharding match no parameter: {listed(idle)}", expected=names[:20], fix=fix)

    def _by_rule(self, name: str, shape: Shape) -> NamedSharding:
        """The sharding that the graph gives an array, or the first rule that matches; else it is whole everywhere."""
        matching = (spec for pattern, spec in self.rules if fnmatchcase(name, pattern))
        spec = self.declared.get(name) or next(matching, PartitionSpec())
        check_fits(self.mesh, spec, name, shape)
        return self.of(*spec)


def check_fits(mesh: Mesh | AbstractMesh, spec: PartitionSpec, name: str, shape: Shape) -> None:
    """Raise TrainingError where an array of a shape cannot be split so."""
    if len(spec) > len(shape):
        got = f"shape {tuple(shape)} and {spec}"
        raise TrainingError("A PartitionSpec has more axes than the array", input=name, got=got)
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
            fix = f"{close} jax.make_mesh((4, 2), ('data', 'model')) names them.".lstrip()
            raise TrainingError(f"{what} names no axis of the mesh", expected=f"among {example}", got=axis, fix=fix)


def make_placement(
    mesh: Any, sharding: Any = "replicate", data_axis: str | Sequence[str] = "data", symbol: Symbol | None = None
) -> Placement:
    """The placement of a network's arrays on a mesh. sharding: one of `WORDS`, or rules, which leave whole what none of
    them matches. data_axis: the axis, or axes, of the mesh that batches are split over. symbol: the network, whose
    variables may say by `__sharding__` how they are split. Raises TrainingError; PassError for axes in the graph that
    the mesh lacks."""
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
            fix = did_you_mean(sharding, WORDS) or f"Rules are pairs: {_EXAMPLE}."
            expected = f"one of {listed(WORDS)}, or rules"
            raise TrainingError("Unknown sharding", param="sharding", expected=expected, got=repr(sharding), fix=fix)
        return Placement(auto_mesh(mesh), sharding, (), axes, declared)
    return Placement(auto_mesh(mesh), None, _rules(sharding, mesh), axes, declared)


def _rules(given: Any, mesh: Mesh) -> Rules:
    rules = tuple(given.items()) if isinstance(given, Mapping) else given
    if not isinstance(rules, list | tuple) or not all(
        isinstance(rule, tuple) and len(rule) == 2 and isinstance(rule[0], str) and isinstance(rule[1], PartitionSpec)
        for rule in rules
    ):
        expected = f"one of {listed(WORDS)}, or pairs of a pattern and a PartitionSpec"
        raise TrainingError("Wrong sharding", param="sharding", expected=expected, got=repr(given), fix=f"{_EXAMPLE}.")
    for pattern, spec in rules:
        used = [axis for entry in spec if entry for axis in ((entry,) if isinstance(entry, str) else entry)]
        check_axes(mesh, used, f"The PartitionSpec for {pattern!r}")
    return tuple(rules)


def declared_shardings(symbol: Symbol, mesh: Mesh) -> dict[str, PartitionSpec]:
    """Shardings of a graph's variables by their attribute `__sharding__`. Raises PassError, as PlaceSharding does."""
    nodes = [node for node in Graph(symbol.outputs).nodes() if node.is_variable and SHARDING in node.attrs.dict]
    return {node.name: PartitionSpec(*mesh_axes(declared_text(node, mesh.axis_names))) for node in nodes}


# -- putting arrays on a mesh ------------------------------------------------------------------------------------------


def place(value: Any, sharding: NamedSharding) -> jax.Array:
    """A global array: of a whole array, which with several processes is the same in each; or of one that is split
    otherwise on the mesh. Each process copies what its devices hold, and no more."""
    if isinstance(value, jax.Array) and value.sharding == sharding:
        return value
    if sharding.is_fully_addressable or (isinstance(value, jax.Array) and not value.is_fully_addressable):
        return jax.device_put(value, sharding)
    host = np.asarray(value)
    return jax.make_array_from_callback(host.shape, sharding, lambda index: host[index])
