"""The kind of device a program is made for: the one that it runs on, or those that it is exported for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.export

from symjax_nnvm.errors import SymbolValueError, refuse_unknown
from symjax_nnvm.pipeline import ANY, PLAIN, PLATFORMS, require_platform

__all__ = ["current_platform", "device_of", "exported_for", "exported_kind", "kind_of"]

_EXPORTED = {"cpu": "cpu", "cuda": "gpu", "rocm": "gpu", "tpu": "tpu"}
"""`jax.export`'s platforms → those of `Options`."""


def kind_of(device: Any) -> str:
    """Return the kind of a `jax.Device`, as `Options` has it: "any" for one of none of the known kinds."""
    return device.platform if device.platform in PLATFORMS else ANY


def current_platform(mesh: Any = None) -> str:
    """Return the kind of a mesh's devices; without a mesh of devices, of JAX's current default device
    (`jax.default_device`)."""
    if isinstance(mesh, jax.sharding.Mesh):
        return kind_of(mesh.devices.flat[0])
    device = _default_device()
    name = device if isinstance(device, str) else jax.default_backend() if device is None else kind_of(device)
    name = _EXPORTED.get(name, name)
    return name if name in PLATFORMS else ANY


def device_of(platform: str | None) -> Any:
    """Return the first `jax.Device` of a platform; of None, JAX's default device.

    Raises SymbolValueError for a word that is not a platform, and where there is no such device.
    """
    require_platform(platform)
    device = _default_device()
    if platform is None and not isinstance(device, str | None):
        return device
    try:
        return jax.devices(platform or device)[0]
    except RuntimeError as error:  # JAX has no such backend
        platforms = sorted({other.platform for other in jax.devices()} | {"cpu"})
        raise SymbolValueError(
            f"There is no device of the platform {platform!r}",
            expected=f"one of {', '.join(platforms)}, which are here",
        ) from error


def exported_kind(platforms: Sequence[str] | None) -> str:
    """Return the kind of platform for which an exported program is made: "any" where it is for several.

    platforms: `jax.export`'s; None: its default. Raises SymbolValueError for others.
    """
    if platforms is None:
        return _EXPORTED.get(jax.export.default_export_platform(), ANY)
    fix = "For a GPU write cuda or rocm."
    if isinstance(platforms, str) or not platforms:
        raise SymbolValueError(
            "platforms must be a list of names", expected="for example ('cuda',)", got=repr(platforms), fix=fix
        )
    refuse_unknown(SymbolValueError, "Cannot export for", platforms, _EXPORTED, "platforms", fix)
    kinds = {_EXPORTED[name] for name in platforms}
    return kinds.pop() if len(kinds) == 1 else ANY


def exported_for(platform: str | None) -> tuple[str, ...] | None:
    """Return `jax.export`'s platforms of what is made for one of `Options`; None: its default.

    Raises SymbolValueError for "gpu" where it is not this machine's: it may be cuda or rocm.
    """
    default = jax.export.default_export_platform()
    if platform in (None, ANY, PLAIN) or _EXPORTED.get(default) == platform:
        return None
    if platform == "gpu":
        fix = "export(path, platforms=('cuda',)), or ('rocm',)."
        raise SymbolValueError("platforms must name the kind of GPU", got="platform='gpu'", fix=fix)
    return (str(platform),)


def _default_device() -> Any:
    """Return a device, the name of a platform, or None."""
    return jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
