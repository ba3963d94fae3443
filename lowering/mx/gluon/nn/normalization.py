"""Normalisation over the batch, over groups of channels, over samples."""

from __future__ import annotations

from typing import Any

from lowering.messages.counts import checked_dtype, checks_flags
from lowering.mx.accepted_types import DType, InitializerLike
from lowering.mx.gluon.hybrid import HybridBlock
from lowering.mx.gluon.tensor import Tensor
from lowering.mx.gluon.weights import Parameter
from lowering.mx.shared_arguments import explained_by


def _text(first: str, values: dict[str, Any], channels: Any) -> str:
    return f"{first}({', '.join(f'{name}={value!r}' for name, value in values.items())}, in_channels={channels})"


class BatchNorm(HybridBlock):
    """Normalises each channel over the batch: by the batch's statistics in training, else by the moving averages.

    Args:
        axis: the axis of the channels.
        momentum: the share of the old value in a moving average.
        epsilon: the number added to the variance.
        center: whether there is a beta.
        scale: whether there is a gamma.
        use_global_stats: use the moving averages in training as well.
        beta_initializer: the initialiser of beta.
        gamma_initializer: the initialiser of gamma.
        running_mean_initializer: the initialiser of the moving mean.
        running_variance_initializer: the initialiser of the moving variance.
        in_channels: the number of channels of the input; 0: the first call decides.
        kwargs: `prefix` and `params` of the block.
    """

    fuse_relu = False
    gamma: Parameter
    beta: Parameter
    running_mean: Parameter
    running_var: Parameter

    @checks_flags
    def __init__(
        self,
        axis: int = 1,
        momentum: float = 0.9,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        use_global_stats: bool = False,
        beta_initializer: InitializerLike = "zeros",
        gamma_initializer: InitializerLike = "ones",
        running_mean_initializer: InitializerLike = "zeros",
        running_variance_initializer: InitializerLike = "ones",
        in_channels: int = 0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self._kwargs = {
            "axis": axis,
            "eps": epsilon,
            "momentum": momentum,
            "fix_gamma": not scale,
            "use_global_stats": use_global_stats,
        }
        if in_channels:
            self.in_channels = in_channels
        rows = (
            ("gamma", scale, gamma_initializer),
            ("beta", center, beta_initializer),
            ("running_mean", False, running_mean_initializer),
            ("running_var", False, running_variance_initializer),
        )
        for name, learned, first in rows:
            param = self.params.get(
                name,
                grad_req="write" if learned else "null",
                shape=(in_channels,),
                init=first,
                allow_deferred_init=True,
                differentiable=learned,
            )
            setattr(self, name, param)

    def cast(self, dtype: DType) -> None:
        """Convert the parameters to another dtype; for float16 they stay float32."""
        super().cast("float32" if checked_dtype(dtype, self.name) == "float16" else dtype)

    def hybrid_forward(
        self, F: Any, x: Tensor, gamma: Tensor, beta: Tensor, running_mean: Tensor, running_var: Tensor
    ) -> Any:
        """Return x normalised, by the batch's statistics in training, else by the moving ones."""
        function = F.contrib.BatchNormWithReLU if self.fuse_relu else F.BatchNorm
        return function(x, gamma, beta, running_mean, running_var, name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        channels = self.gamma.shape[0]
        return _text(type(self).__name__, self._kwargs, channels or None)


@explained_by(BatchNorm)
class BatchNormReLU(BatchNorm):
    """BatchNorm with relu after it, as one operator."""

    fuse_relu = True


class _Normalized(HybridBlock):
    """Holds what the layers without moving statistics have in common."""

    def _make_parameters(self, channels: int, scale: bool, center: bool, gamma: Any, beta: Any) -> None:
        """Make the scale and the shift of each channel."""
        options = {"shape": (channels,), "allow_deferred_init": True}
        self.gamma = self.params.get("gamma", grad_req="write" if scale else "null", init=gamma, **options)
        self.beta = self.params.get("beta", grad_req="write" if center else "null", init=beta, **options)


@explained_by(BatchNorm)
class InstanceNorm(_Normalized):
    """Normalises each channel of each sample."""

    @checks_flags
    def __init__(
        self,
        axis: int = 1,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = False,
        beta_initializer: InitializerLike = "zeros",
        gamma_initializer: InitializerLike = "ones",
        in_channels: int = 0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self._kwargs = {"eps": epsilon, "axis": axis, "center": center, "scale": scale}
        self._axis, self._epsilon = axis, epsilon
        self._make_parameters(in_channels, scale, center, gamma_initializer, beta_initializer)

    def hybrid_forward(self, F: Any, x: Tensor, gamma: Tensor, beta: Tensor) -> Any:
        """x normalised."""
        if self._axis == 1:
            return F.InstanceNorm(x, gamma, beta, name="fwd", eps=self._epsilon)
        x = x.swapaxes(1, self._axis)
        return F.InstanceNorm(x, gamma, beta, name="fwd", eps=self._epsilon).swapaxes(1, self._axis)

    def __repr__(self) -> str:
        return _text(type(self).__name__, self._kwargs, self.gamma.shape[0])


@explained_by(BatchNorm, HybridBlock)
class LayerNorm(_Normalized):
    """Normalises each sample along an axis.

    Args:
        axis: the axis.
    """

    @checks_flags
    def __init__(
        self,
        axis: int = -1,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        beta_initializer: InitializerLike = "zeros",
        gamma_initializer: InitializerLike = "ones",
        in_channels: int = 0,
        prefix: str | None = None,
        params: Any = None,
    ):
        super().__init__(prefix=prefix, params=params)
        self._kwargs = {"eps": epsilon, "axis": axis, "center": center, "scale": scale}
        self._axis, self._epsilon, self._center, self._scale = axis, epsilon, center, scale
        self._make_parameters(in_channels, scale, center, gamma_initializer, beta_initializer)

    def hybrid_forward(self, F: Any, data: Tensor, gamma: Tensor, beta: Tensor) -> Any:
        """data normalised."""
        return F.LayerNorm(data, gamma=gamma, beta=beta, axis=self._axis, eps=self._epsilon)

    def __repr__(self) -> str:
        return _text(type(self).__name__, self._kwargs, self.gamma.shape[0])


@explained_by(BatchNorm, HybridBlock)
class GroupNorm(_Normalized):
    """Normalises groups of channels of each sample.

    Args:
        num_groups: the number of groups.
    """

    @checks_flags
    def __init__(
        self,
        num_groups: int = 1,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        beta_initializer: InitializerLike = "zeros",
        gamma_initializer: InitializerLike = "ones",
        prefix: str | None = None,
        params: Any = None,
    ):
        super().__init__(prefix=prefix, params=params)
        self._kwargs = {"eps": epsilon, "num_groups": num_groups, "center": center, "scale": scale}
        self._num_groups, self._epsilon, self._center, self._scale = num_groups, epsilon, center, scale
        self._make_parameters(num_groups, scale, center, gamma_initializer, beta_initializer)

    def hybrid_forward(self, F: Any, data: Tensor, gamma: Tensor, beta: Tensor) -> Any:
        """data normalised."""
        return F.GroupNorm(data, gamma=gamma, beta=beta, num_groups=self._num_groups, eps=self._epsilon)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._kwargs.items())})"
