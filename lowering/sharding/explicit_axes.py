"""Arrays on explicit axes of a mesh, as arrays on auto axes and back.

An axis that is "explicit", as those of `jax.make_mesh` are, needs the sharding of every operation's result, which
operators written for one device do not give: arrays on such a mesh are taken with the same buffers and the same split,
as arrays on auto axes (`on_auto_axes`), for which XLA decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import jax
import numpy as np
from jax.core import Tracer
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

from symjax_nnvm.errors import CallError
from symjax_nnvm.ir.node import NodeEntry
from symjax_nnvm.ir.sharding import SHARDING, mesh_axes
from symjax_nnvm.symbol.symbol import Symbol

P = ParamSpec("P")
T = TypeVar("T")


def auto_mesh(mesh: Any) -> Any:
    """Return a mesh of the same devices, or an abstract one of the same axes, of which every axis is auto."""
    if AxisType.Explicit not in mesh.axis_types:
        return mesh
    types = tuple(AxisType.Auto if kind == AxisType.Explicit else kind for kind in mesh.axis_types)
    if isinstance(mesh, Mesh):
        return Mesh(mesh.devices, mesh.axis_names, axis_types=types)
    return mesh.update(axis_types=types)


def on_auto_axes(tree: Any) -> Any:
    """Return a tree whose arrays on explicit axes are the same on auto ones; traced ones, too. Nothing is copied."""
    return _on_auto_axes(tree) if isinstance(tree, jax.Array) else jax.tree.map(_on_auto_axes, tree)


def _on_auto_axes(leaf: Any) -> Any:
    sharding = _explicit(leaf)
    return leaf if sharding is None else jax.device_put(leaf, NamedSharding(auto_mesh(sharding.mesh), sharding.spec))


def _explicit(value: Any) -> NamedSharding | None:
    """Return the sharding of an array on explicit axes; None of anything else."""
    if not isinstance(value, jax.Array):
        return None
    sharding = jax.typeof(value).sharding if isinstance(value, Tracer) else value.sharding
    if not isinstance(sharding, NamedSharding) or AxisType.Explicit not in sharding.mesh.axis_types:
        return None
    return sharding


def under_auto_axes(function: Callable[P, T]) -> Callable[P, T]:
    """Return a function of arrays that sees auto axes only: those of its arguments, and of the mesh that `jax.set_mesh`
    set. Where no axis is explicit it is the function itself, and costs a look at each argument."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        with _auto_context():
            args, kwargs = on_auto_axes((args, kwargs))
            return function(*args, **kwargs)

    return call


def lying_like(values: Mapping[str, Any], models: Mapping[str, Any]) -> dict[str, Any]:
    """Return arrays by name; if the model of that name is on explicit axes, the array is placed and split like it."""
    return {name: _lying_like(value, models.get(name)) for name, value in values.items()}


def outputs_lying_like(outputs: Sequence[Any], symbol: Symbol, args: Mapping[str, Any]) -> list[Any]:
    """Return outputs, on explicit axes where arguments are. Those that are traced are split by their node's
    `__sharding__`, or along the first axis like the first argument of as many samples; else each is whole on every
    device."""
    shardings = [_explicit(args.get(name)) for name in symbol.list_arguments()]
    mesh = next((sharding.mesh for sharding in shardings if sharding is not None), None)
    if mesh is None:
        return list(outputs)
    split: dict[int, Any] = {}
    for name, sharding in zip(symbol.list_arguments(), shardings, strict=True):
        if sharding is not None and np.ndim(args[name]):
            split.setdefault(args[name].shape[0], sharding.spec[0] if sharding.spec else None)

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
    """Return an array on explicit axes. A traced one is resharded, so that its cotangent returns to its own axes."""
    return jax.sharding.reshard(value, sharding) if isinstance(value, Tracer) else jax.device_put(value, sharding)


def chosen_mesh(mesh: Any) -> Any:
    """Return the mesh given, else the one that `jax.set_mesh` has set, with auto axes; None where there is neither.
    Raises CallError for anything that is not a mesh."""
    if mesh is None:
        mesh = jax.sharding.get_mesh()
        return None if mesh.empty else auto_mesh(mesh)
    if not isinstance(mesh, Mesh | AbstractMesh):
        fix = "For example mesh=jax.make_mesh((jax.device_count(),), ('data',))."
        raise CallError(
            "mesh must be a mesh of devices", param="mesh", expected="a jax.sharding.Mesh", got=repr(mesh), fix=fix
        )
    return auto_mesh(mesh)


def _auto_context() -> AbstractContextManager[Any]:
    """Return the mesh that `jax.set_mesh` set, with auto axes."""
    around = jax.sharding.get_abstract_mesh()
    explicit = not around.empty and AxisType.Explicit in around.axis_types
    return jax.sharding.use_abstract_mesh(auto_mesh(around)) if explicit else nullcontext()
