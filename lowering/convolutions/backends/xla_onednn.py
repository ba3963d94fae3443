"""XLA's own calls of oneDNN, by an option (`lowering/xla/compile_options.py`): plain
convolutions, with what XLA fuses after them, become calls when a program is compiled. jaxlib 0.12 makes them.

XLA tries nothing before. What a child process did not find right for our own calls is computed by other algorithms, as
far as there are any; convolutions that no table decides (channels first, gradients of the weight) are XLA's choice.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowering.convolutions.applicable import LIBRARY, XLA, applicable
from lowering.convolutions.backends import onednn
from lowering.convolutions.backends.backend import Backend
from lowering.convolutions.geometry import Direction, Geometry

__all__ = ["XlaOneDnn"]


@dataclass(frozen=True)
class XlaOneDnn(Backend):
    """Represents oneDNN by XLA's calls: a convolution that is left to XLA is one."""

    @property
    def calls(self) -> bool:
        """Return True: this backend has a library."""
        return True

    def computes(self, direction: Direction, geometry: Geometry) -> bool:
        """Return whether oneDNN computes a direction. Strided data gradients are not plain convolutions."""
        strided = any(stride > 1 for stride in geometry.stride)
        return not (direction == "data" and strided) and onednn.computes_direction(direction, geometry)

    def algorithm(self, direction: Direction, geometry: Geometry) -> str:
        """Return the fastest algorithm with a plain weight, channels last."""
        name = super().algorithm(direction, geometry)
        if name not in (XLA, LIBRARY) or direction == "weight":
            return name
        others = [other for other in applicable(direction, geometry) if other not in (XLA, LIBRARY)]
        return XLA if not others or self.computes(direction, geometry) else others[0]

    def algorithm_of_constant(self, geometry: Geometry, layout: str | None) -> str:
        """Choose as with a weight that is not constant, but for Winograd's algorithm where it saves much."""
        return super().algorithm_of_constant(geometry, "as it is" if self.computes("forward", geometry) else None)
