"""Contributed layers: blocks side by side, SyncBatchNorm, PixelShuffle."""

from __future__ import annotations

import warnings
from typing import Any

from lowering.mx import ndarray
from lowering.mx.accepted_types import DType, InitializerLike
from lowering.mx.context import num_gpus
from lowering.mx.gluon.hybrid import HybridBlock
from lowering.mx.gluon.nn import BatchNorm, Embedding, HybridSequential, Sequential
from lowering.mx.gluon.tensor import Tensor
from lowering.mx.ndarray.storage_types import check_storage
from lowering.mx.shared_arguments import explained_by


@explained_by(HybridBlock)
class Concurrent(Sequential):
    """Blocks that all get the same input; their outputs are joined along an axis.

    Args:
        axis: the axis.
    """

    _children: Any

    def __init__(self, axis: int = -1, prefix: str | None = None, params: Any = None):
        super().__init__(prefix=prefix, params=params)
        self.axis = axis

    def forward(self, x: Any) -> Any:
        """Return the joined outputs."""
        return ndarray.concat(*(block(x) for block in self._children.values()), dim=self.axis)


@explained_by(Concurrent)
class HybridConcurrent(HybridSequential):
    """Hybrid blocks that all get the same input; their outputs are joined along an axis."""

    _children: Any

    def __init__(self, axis: int = -1, prefix: str | None = None, params: Any = None):
        super().__init__(prefix=prefix, params=params)
        self.axis = axis

    def hybrid_forward(self, F: Any, x: Tensor) -> Any:
        """Return the outputs, joined."""
        return F.concat(*(block(x) for block in self._children.values()), dim=self.axis)


@explained_by(HybridBlock)
class Identity(HybridBlock):
    """Returns its input."""

    def hybrid_forward(self, F: Any, x: Tensor) -> Any:
        """Return the input."""
        return x


@explained_by(Embedding)
class SparseEmbedding(Embedding):
    """`mx.gluon.nn.Embedding`: the weight, row-sparse in MXNet, is dense here, with one warning."""

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        dtype: DType = "float32",
        weight_initializer: InitializerLike = None,
        **kwargs: Any,
    ):
        check_storage("row_sparse")
        super().__init__(input_dim, output_dim, dtype, weight_initializer, **kwargs)


@explained_by(BatchNorm)
class SyncBatchNorm(BatchNorm):
    """BatchNorm of inputs (n, c, ...) over all devices of a step.

    A JAX program over several devices has statistics of all of them. A replica of Gluon's on its own device has its
    own.

    Args:
        num_devices: the number of devices; None for the GPUs.
    """

    def __init__(
        self,
        in_channels: int = 0,
        num_devices: int | None = None,
        momentum: float = 0.9,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        use_global_stats: bool = False,
        beta_initializer: InitializerLike = "zeros",
        gamma_initializer: InitializerLike = "ones",
        running_mean_initializer: InitializerLike = "zeros",
        running_variance_initializer: InitializerLike = "ones",
        **kwargs: Any,
    ):
        firsts = beta_initializer, gamma_initializer, running_mean_initializer, running_variance_initializer
        super().__init__(1, momentum, epsilon, center, scale, use_global_stats, *firsts, in_channels, **kwargs)
        if num_devices is None:
            problem = "Caution using SyncBatchNorm: if not using all the GPUs, please mannually set num_devices"
            warnings.warn(problem, UserWarning, stacklevel=2)
            num_devices = max(num_gpus(), 1)
        self._kwargs = {
            "eps": epsilon,
            "momentum": momentum,
            "fix_gamma": not scale,
            "use_global_stats": use_global_stats,
            "ndev": num_devices,
            "key": self.prefix,
        }

    def hybrid_forward(
        self, F: Any, x: Tensor, gamma: Tensor, beta: Tensor, running_mean: Tensor, running_var: Tensor
    ) -> Any:
        """Return the input, normalised."""
        return F.contrib.SyncBatchNorm(x, gamma, beta, running_mean, running_var, name="fwd", **self._kwargs)


class _PixelShuffle(HybridBlock):
    """Turns channels into pixels: (n, f1 · f2 ⋯ · c, h, …) → (n, c, f1 · h, …) (Shi et al. 2016)."""

    _axes = 1

    def __init__(self, factor: Any):
        super().__init__()
        try:
            self._factors = (int(factor),) * self._axes
        except TypeError:
            self._factors = tuple(int(size) for size in factor)
            assert len(self._factors) == self._axes, f"wrong length {len(self._factors)}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._factors if self._axes > 1 else self._factors[0]})"


class PixelShuffle1D(_PixelShuffle):
    """Rearranges (n, f · c, w) to (n, c, f · w).

    Args:
        factor: f.
    """

    def hybrid_forward(self, F: Any, x: Tensor) -> Any:
        """Return the pixels."""
        (f,) = self._factors
        x = F.reshape(x, (0, -4, -1, f, 0))
        x = F.transpose(x, (0, 1, 3, 2))
        return F.reshape(x, (0, 0, -3))


class PixelShuffle2D(_PixelShuffle):
    """Rearranges (n, f1 · f2 · c, h, w) to (n, c, f1 · h, f2 · w).

    Args:
        factor: f, or (f1, f2).
    """

    _axes = 2

    def hybrid_forward(self, F: Any, x: Tensor) -> Any:
        """Return the pixels."""
        f1, f2 = self._factors
        x = F.reshape(x, (0, -4, -1, f1 * f2, 0, 0))
        x = F.reshape(x, (0, 0, -4, f1, f2, 0, 0))
        x = F.transpose(x, (0, 1, 4, 2, 5, 3))
        return F.reshape(x, (0, 0, -3, -3))


class PixelShuffle3D(_PixelShuffle):
    """Rearranges (n, f1 · f2 · f3 · c, d, h, w) to (n, c, f1 · d, f2 · h, f3 · w).

    Args:
        factor: f, or (f1, f2, f3).
    """

    _axes = 3

    def hybrid_forward(self, F: Any, x: Tensor) -> Any:
        """Return the pixels, one factor after the other, since an operator has six axes at most."""
        f1, f2, f3 = self._factors
        x = F.reshape(x, (0, -4, -1, f1 * f2 * f3, 0, 0, 0))
        x = F.swapaxes(x, 2, 3)
        x = F.reshape(x, (0, 0, 0, -4, f1, f2 * f3, 0, 0))
        x = F.reshape(x, (0, 0, -3, 0, 0, 0))
        x = F.swapaxes(x, 3, 4)
        x = F.reshape(x, (0, 0, 0, 0, -4, f2, f3, 0))
        x = F.reshape(x, (0, 0, 0, -3, 0, 0))
        x = F.swapaxes(x, 4, 5)
        return F.reshape(x, (0, 0, 0, 0, -3))
