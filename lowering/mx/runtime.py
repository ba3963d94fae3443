"""`mx.runtime`: which of MXNet's features of compilation there are here."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import ClassVar, Self

import jax

from lowering.messages.counts import checks_flags
from lowering.mx.context import num_gpus
from symjax_nnvm.errors import MXNetError

_ABSENT = (
    "CUDNN", "NCCL", "CUDA_RTC", "TENSORRT", "CPU_SSE", "CPU_SSE2", "CPU_SSE3", "CPU_SSE4_1", "CPU_SSE4_2",
    "CPU_SSE4A", "CPU_AVX", "CPU_AVX2", "OPENMP", "SSE", "F16C", "JEMALLOC", "BLAS_OPEN", "BLAS_ATLAS", "BLAS_MKL",
    "BLAS_APPLE", "MKLDNN", "OPENCV", "CAFFE", "CXX14", "SIGNAL_HANDLER", "DEBUG", "TVM_OP",
)  # fmt: skip
"""Features of MXNet's C library, which is not here: XLA chooses instructions and libraries."""


@dataclass(frozen=True)
class Feature:
    """A feature of MXNet: its name, and whether it is available."""

    name: str
    enabled: bool

    def __repr__(self) -> str:
        return f"{'✔' if self.enabled else '✖'} {self.name}"


def feature_list() -> list[Feature]:
    """Return MXNet's features: CUDA where JAX sees a GPU, and what this library does by other means."""
    present = {
        "CUDA": num_gpus() > 0,
        "LAPACK": True,
        "PROFILER": True,
        "DIST_KVSTORE": True,
        "INT64_TENSOR_SIZE": bool(jax.config.read("jax_enable_x64")),
    }
    features = {"CUDA": present["CUDA"], **dict.fromkeys(_ABSENT, False), **present}
    return [Feature(name, enabled) for name, enabled in features.items()]


class Features(OrderedDict[str, Feature]):
    """The features by name; one object."""

    instance: ClassVar[Self | None] = None

    def __new__(cls) -> Self:  # noqa: D102
        if cls.instance is None:
            cls.instance = super().__new__(cls)
        return cls.instance

    def __init__(self):
        super().__init__((feature.name, feature) for feature in feature_list())

    def __repr__(self) -> str:
        return str(list(self.values()))

    @checks_flags
    def is_enabled(self, feature_name: str) -> bool:
        """Return whether a feature is available.

        Args:
            feature_name: the feature's name.

        Raises:
            MXNetError: there is no such feature; the error is a RuntimeError, too.
        """
        name = feature_name.upper()
        if name not in self:
            raise MXNetError(f"Feature '{name}' is unknown", expected=f"one of {', '.join(self)}")
        return self[name].enabled
