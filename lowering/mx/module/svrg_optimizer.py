"""The optimiser of SVRGModule: the default one, and one that assigns for what is called …_full."""

from __future__ import annotations

from typing import Any

from lowering.mx.ndarray.array import NDArray
from lowering.mx.optimizer import Optimizer, create, register


@register
class AssignmentOptimizer(Optimizer):
    """An update that is an assignment."""

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        """weight = grad."""
        weight[:] = grad


@register
class SVRGOptimizer(Optimizer):
    """default_optimizer for parameters; those whose names have "full" in them are assigned.

    default_optimizer: a name, with its parameters in kwargs, or one that is made.
    """

    def __init__(self, default_optimizer: Any, **kwargs: Any):
        base = {name: kwargs[name] for name in ("rescale_grad", "param_idx2name", "sym") if name in kwargs}
        super().__init__(**base)
        made = create(default_optimizer, **kwargs) if isinstance(default_optimizer, str) else default_optimizer
        self.default_opt: Optimizer = made
        self.aux_opt = AssignmentOptimizer()

    def _of(self, index: Any) -> Optimizer:
        name = self.idx2name.get(index, index)
        return self.aux_opt if isinstance(name, str) and "full" in name else self.default_opt

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """As the optimiser of the parameter does."""
        return self._of(index).create_state_multi_precision(index, weight)

    create_state_multi_precision = create_state

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        """As the optimiser of the parameter does."""
        self._of(index).update_multi_precision(index, weight, grad, state)

    update_multi_precision = update
