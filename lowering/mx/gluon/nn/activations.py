"""Activations as blocks."""

from __future__ import annotations

from typing import Any

from lowering.mx import init as initializers
from lowering.mx.gluon.errors import MismatchError
from lowering.mx.gluon.hybrid import HybridBlock


class Activation(HybridBlock):
    """The operator Activation. activation: "relu", "sigmoid", "tanh", "softrelu" or "softsign"."""

    def __init__(self, activation: str, **kwargs: Any):
        self._act_type = activation
        super().__init__(**kwargs)

    def _alias(self) -> str:
        return self._act_type

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Each element's activation."""
        return F.Activation(x, act_type=self._act_type, name="fwd")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._act_type})"


class LeakyReLU(HybridBlock):
    """x where it is positive, alpha · x elsewhere. Raises MismatchError for a negative alpha."""

    def __init__(self, alpha: float, **kwargs: Any):
        if alpha < 0:
            raise MismatchError("Slope coefficient for LeakyReLU must be no less than 0.", got=alpha)
        super().__init__(**kwargs)
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Each element's activation."""
        return F.LeakyReLU(x, act_type="leaky", slope=self._alpha, name="fwd")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._alpha})"


class PReLU(HybridBlock):
    """LeakyReLU with a slope that is learned, for all channels or, with in_channels, for each."""

    def __init__(self, alpha_initializer: Any = None, in_channels: int = 1, **kwargs: Any):
        super().__init__(**kwargs)
        first = initializers.create("constant", value=0.25) if alpha_initializer is None else alpha_initializer
        with self.name_scope():
            self.alpha = self.params.get("alpha", shape=(in_channels,), init=first)

    def hybrid_forward(self, F: Any, x: Any, alpha: Any) -> Any:
        """Each element's activation."""
        return F.LeakyReLU(x, gamma=alpha, act_type="prelu", name="fwd")


class ELU(HybridBlock):
    """x where it is positive, alpha · (exp(x) - 1) elsewhere."""

    def __init__(self, alpha: float = 1.0, **kwargs: Any):
        super().__init__(**kwargs)
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Each element's activation."""
        return F.LeakyReLU(x, act_type="elu", slope=self._alpha)


class SELU(HybridBlock):
    """ELU, scaled so that what is normalised stays so."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Each element's activation."""
        return F.LeakyReLU(x, act_type="selu", name="fwd")


class GELU(HybridBlock):
    """x times the normal distribution's probability below x."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Each element's activation."""
        return F.LeakyReLU(x, act_type="gelu", name="fwd")


class Swish(HybridBlock):
    """x · sigmoid(beta · x)."""

    def __init__(self, beta: float = 1.0, **kwargs: Any):
        super().__init__(**kwargs)
        self._beta = beta

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Each element's activation."""
        return x * F.sigmoid(self._beta * x, name="fwd")
