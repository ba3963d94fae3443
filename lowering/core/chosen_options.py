"""What callers choose at every door, as the `Options` of a pipeline: half precision, and a mesh of devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.export
from numpy.typing import DTypeLike

from lowering.convolutions.backends import FIRST_ON_GPU
from lowering.host.staged import chosen_effort
from lowering.messages.arguments import compute_dtype_of
from lowering.sharding.explicit_axes import chosen_mesh
from lowering.sharding.placement import check_axes
from lowering.xla.platforms import current_platform
from symjax_nnvm.pipeline import ANY, Options

DATA_AXIS = "data"
"""The axis over which samples are split where a caller names none; a mesh need not have it."""


def chosen_options(
    options: Options,
    compute_dtype: DTypeLike | None = None,
    mesh: Any = None,
    data_axis: str | Sequence[str] = DATA_AXIS,
    attention: str | None = None,
) -> Options:
    """Return the options with a caller's choices, each as every door takes it.

    compute_dtype: "bfloat16" or "float16", by name, or of NumPy or JAX, for matrix products and convolutions. mesh: a
    `jax.sharding.Mesh`. data_axis: the axis, or axes, of the mesh that samples are split over. attention: "cudnn",
    which ROCm does not have. Raises CallError for anything that is not a mesh, TrainingError for axes that the mesh
    lacks, SymbolValueError for another attention.
    """
    axes = (data_axis,) if isinstance(data_axis, str) else tuple(data_axis)
    dtype = compute_dtype_of(compute_dtype)
    options = replace(options, compute_dtype=dtype, data_axis=axes, attention=attention)
    if attention is not None and jax.export.default_export_platform() == "rocm":
        options = replace(options, attention=None)
    if mesh is None:
        return options
    mesh = chosen_mesh(mesh)
    if axes != (DATA_AXIS,):
        check_axes(mesh, axes, "data_axis")
    return on_mesh(options, mesh)


def platform_by(effort: str | None, platform: str | None) -> str | None:
    """Return the platform that a function is made for: any, where little effort is to be spent. Raises CallError."""
    return ANY if effort is not None and chosen_effort(effort) == "quick" else platform


def first_options(options: Options) -> Options | None:
    """Return the options of first calls, which are evaluated or compiled quickly: those for any platform. None where
    all calls are compiled fully: over a mesh, for a platform without a quick way, and in half precision on a CPU, whose
    roundings are the platform's."""
    platform = options.platform or current_platform()
    if options.mesh is not None or platform not in ("cpu", "gpu"):
        return None
    if options.compute_dtype is not None and platform == "cpu":
        return None
    return replace(options, platform=ANY, backend=FIRST_ON_GPU if platform == "gpu" else None, constants=None)


def on_mesh(options: Options, mesh: Any) -> Options:
    """Return options that refer to a mesh, where there is one. Samples are split over the axes they name."""
    if mesh is None:
        return options
    return replace(options, mesh=mesh, data_axis=tuple(axis for axis in options.data_axis if axis in mesh.axis_names))


def on_mesh_around(options: Options) -> Options:
    """Return options that refer to the mesh that `jax.set_mesh` has set, unless they have one."""
    around = jax.sharding.get_abstract_mesh()
    return options if options.mesh is not None or around.empty else on_mesh(options, around)
