"""Activations as blocks."""

from __future__ import annotations

from typing import Any

from lowering.messages.counts import checks_flags
from lowering.mx import init as initializers
from lowering.mx.accepted_types import InitializerLike
from lowering.mx.gluon.gluon_errors import MismatchError
from lowering.mx.gluon.hybrid import HybridBlock
from lowering.mx.gluon.tensor import Tensor
from lowering.mx.shared_arguments import explained_by


class Activation(HybridBlock):
    """The operator Activation on each element.

    Args:
        activation: "relu", "sigmoid", "tanh", "softrelu" or "softsign".
        kwargs: `prefix` and `params` of the block.
    """

    @checks_flags
    def __init__(self, activation: str, **kwargs: Any):
        self._act_type = activation
        super().__init__(**kwargs)

    def _alias(self) -> str:
        return self._act_type

    def hybrid_forward(self, F: Any, x: Tensor) -> Any:
        """Each element's activation."""
        return F.Activation(x, act_type=self._act_type, name="fwd")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._act_type})"


class LeakyReLU(HybridBlock):
    """x where it is positive, alpha · x elsewhere.

    Args:
        alpha: the slope, 0 or more.
        kwargs: `prefix` and `params` of the block.

    Raises:
        MismatchError: `alpha` is negative.
    """

    @checks_flags
    def __init__(self, alpha: float, **kwargs: Any):
        if alpha < 0:
            raise MismatchError("Slope coefficient for LeakyReLU must be no less than 0.", got=alpha)
        super().__init__(**kwargs)
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Tensor) -> Any:
        """Each element's activation."""
        return F.LeakyReLU(x, act_type="leaky", slope=self._alpha, name="fwd")

    @property
    def slope(self) -> float:
        """Return alpha."""
        return self._alpha

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._alpha})"


class PReLU(HybridBlock):
    """LeakyReLU with a learned slope.

    Args:
        alpha_initializer: the initialiser of the slope.
        in_channels: the number of slopes: 1 for all channels together, or the number of channels.
        kwargs: `prefix` and `params` of the block.
    """

    def __init__(self, alpha_initializer: InitializerLike = None, in_channels: int = 1, **kwargs: Any):
        super().__init__(**kwargs)
        first = initializers.create("constant", value=0.25) if alpha_initializer is None else alpha_initializer
        with self.name_scope():
            self.alpha = self.params.get("alpha", shape=(in_channels,), init=first)

    def hybrid_forward(self, F: Any, x: Tensor, alpha: Tensor) -> Any:
        """Each element's activation."""
        return F.LeakyReLU(x, gamma=alpha, act_type="prelu", name="fwd")


class ELU(HybridBlock):
    """x where it is positive, alpha · (exp(x) - 1) elsewhere.

    Args:
        alpha: the factor.
        kwargs: `prefix` and `params` of the block.
    """

    def __init__(self, alpha: float = 1.0, **kwargs: Any):
        super().__init__(**kwargs)
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Tensor) -> Any:
        """Each element's activation."""
        return F.LeakyReLU(x, act_type="elu", slope=self._alpha)


@explained_by(HybridBlock)
class SELU(HybridBlock):
    """ELU with a scale that keeps normalised inputs normalised."""

    def hybrid_forward(self, F: Any, x: Tensor) -> Any:
        """Each element's activation."""
        return F.LeakyReLU(x, act_type="selu", name="fwd")


@explained_by(HybridBlock)
class GELU(HybridBlock):
    """x times the probability that a standard normal number is below x."""

    def hybrid_forward(self, F: Any, x: Tensor) -> Any:
        """Each element's activation."""
        return F.LeakyReLU(x, act_type="gelu", name="fwd")


class Swish(HybridBlock):
    """x · sigmoid(beta · x).

    Args:
        beta: the factor.
        kwargs: `prefix` and `params` of the block.
    """

    def __init__(self, beta: float = 1.0, **kwargs: Any):
        super().__init__(**kwargs)
        self._beta = beta

    def hybrid_forward(self, F: Any, x: Tensor) -> Any:
        """Each element's activation."""
        return x * F.sigmoid(self._beta * x, name="fwd")
