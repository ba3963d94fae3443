"""`Backend`: what computes convolutions and dense layers on a platform. This one is XLA alone."""

from __future__ import annotations

from dataclasses import dataclass

from lowering.convolutions.applicable import LIBRARY
from lowering.convolutions.choose import choose
from lowering.convolutions.geometry import Direction, Epilogue, Geometry

__all__ = ["Backend"]


@dataclass(frozen=True)
class Backend:
    """The token that a plan has for what computes its convolutions. Two that are equal decide alike.

    platform: "cpu", "gpu", "tpu" or "any". precise: in float32 no algorithm whose errors exceed 1e-6 of scale, as in
    training. owned: the program is compiled as it is, and is never differentiated, mapped or exported, so that weights
    may be stored in a library's layout. one_core: it runs on one core (`lowering/xla/cpu_streams.py`). first_on_gpu: it
    serves first calls on a GPU.
    """

    platform: str = "any"
    precise: bool = False
    owned: bool = False
    one_core: bool = False
    first_on_gpu: bool = False

    @property
    def calls(self) -> bool:
        """Return whether it has a library, one of the algorithms."""
        return False

    @property
    def fuses(self) -> bool:
        """Return whether it does what follows a product in the same pass."""
        return False

    def layout(self, geometry: Geometry, epilogue: Epilogue) -> str | None:
        """Return the layout in which its library takes the weight of a geometry with what follows; None where there is
        no library, or it does not compute them."""
        return None

    def computes(self, direction: Direction, geometry: Geometry) -> bool:
        """Return whether its library computes a direction with a plain weight, where `applies` is true."""
        return False

    def algorithm(self, direction: Direction, geometry: Geometry) -> str:
        """Return the fastest algorithm with a plain weight, channels last."""
        precise = self.precise if direction == "forward" else direction == "data"
        name = choose(direction, geometry, self.platform, precise=precise, library=self.calls)
        if name == LIBRARY and not self.computes(direction, geometry):
            return choose(direction, geometry, self.platform, precise=precise)
        return name

    def algorithm_of_constant(self, geometry: Geometry, layout: str | None) -> str:
        """Return the fastest algorithm with a constant weight, channels last. layout: the library's, if it computes
        this."""
        return choose("forward", geometry, self.platform, constant=True, library=layout is not None)
