"""The one table of operator cases that every check reads: a module for each module of operators, `CASES` in each.

A case says how to call an operator and what holds of it. The ladder (`tests/ops/test_ladder.py`) puts every case
through every rung; `tests/goldens/make.py` runs the same cases in MXNet 1.9.1. This package needs only NumPy, so that
MXNet's environment can import it.
"""

import importlib
import pkgutil
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Tensor:
    """An input: its shape, and the domain that its values are drawn from.

    kind: "uniform" in [low, high); "integers" in [low, high); "spread": distinct values at least 0.05 apart, in random
    order, for operators that compare elements; "signs": uniform magnitude in [low, high) with random sign, for
    functions that are not smooth at 0.
    """

    shape: tuple[int, ...]
    low: float = -1.0
    high: float = 1.0
    kind: str = "uniform"
    dtype: str = "float32"

    def draw(self, rng: np.random.RandomState) -> np.ndarray:
        """Values of the tensor; float64 draws are rounded to float32 first, so that both precisions see the same."""
        size = int(np.prod(self.shape, dtype=np.int64))
        if self.kind == "integers":
            values = rng.randint(int(self.low), int(self.high), size=self.shape)
        elif self.kind == "spread":
            values = ((rng.permutation(size) - size / 2) * 0.05).reshape(self.shape)
        elif self.kind == "signs":
            values = rng.uniform(self.low, self.high, self.shape) * rng.choice([-1.0, 1.0], self.shape)
        else:
            values = rng.uniform(self.low, self.high, self.shape)
        values = np.asarray(values)
        if self.dtype.startswith("float"):
            values = values.astype(np.float32)
        return values.astype(self.dtype)


def T(*shape: int, **kwargs: Any) -> Tensor:
    """A tensor of a shape: `T(2, 3, low=0.1)`."""
    return Tensor(shape, **kwargs)


def ids(*shape: int, low: float = 0, high: float, dtype: str = "float32") -> Tensor:
    """An array of indices."""
    return T(*shape, kind="integers", low=low, high=high, dtype=dtype)


def double(*shape: int) -> Tensor:
    """A tensor of float64."""
    return T(*shape, dtype="float64")


def half(*shape: int) -> Tensor:
    """A tensor of float16."""
    return T(*shape, dtype="float16")


NO_HALF = "MXNet has no float16 kernel for it on a CPU"
NO_EMPTY_HEADS = "MXNet has no array of head gradients without elements"
OTHER_INPUTS = "a backward operator: MXNet's takes other inputs"


@dataclass(frozen=True)
class Case:
    """One way to call an operator.

    inputs: every input in order, auxiliary states included. params: parameters in Python form. wrt: numbers of the
    inputs whose gradient is checked; None means every float input that is not an auxiliary state; () means the operator
    has no gradient to check. smooth: twice differentiable, so second order is checked too. is_train: train flag.
    rtol: bound on values against MXNet, relative to the result's scale; a wider one than the default needs
    `rtol_reason`. no_mxnet: why there is no MXNet golden (MXNet cannot run it, or is mended on purpose).
    not_derivative: why the gradient is not the derivative of the output (or of the loss equivalent); then only MXNet is
    the judge. writes_over: numbers of the inputs that stand where MXNet writes the outputs, for operators that only run
    like that there, outside of a graph. tag: distinguishes cases of one operator; part of the test's name. graph: for
    operators that are written as Python functions (control flow): (module of symbol functions, input symbols) → symbol,
    the same code for MXNet.
    """

    op: str
    inputs: tuple[Tensor, ...]
    params: dict[str, Any] = field(default_factory=dict)
    wrt: tuple[int, ...] | None = None
    smooth: bool = True
    is_train: bool = True
    rtol: float = 1e-5
    rtol_reason: str = ""
    no_mxnet: str = ""
    not_derivative: str = ""
    writes_over: tuple[int, ...] = ()
    tag: str = ""
    graph: Callable[..., Any] | None = None

    @property
    def is_numpy(self) -> bool:
        """Whether the operator is one of MXNet's NumPy dialect, which knows scalars and empty arrays."""
        return self.op.startswith(("_np_", "_npi_", "_npx_"))

    @cached_property
    def id(self) -> str:
        """The test's name and the golden's key: operator, tag, parameters, shapes."""
        params = ",".join(f"{k}={v}".replace(" ", "") for k, v in self.params.items())
        shapes = "x".join(
            str(t.shape).replace(" ", "") + ("" if t.dtype == "float32" else t.dtype) for t in self.inputs
        )
        mode = "" if self.is_train else "eval"
        return ":".join(part for part in (self.op, self.tag, params, shapes, mode) if part)

    def rng(self, purpose: str = "") -> np.random.RandomState:
        """A generator that depends on the case alone."""
        return np.random.RandomState(zlib.crc32((self.id + purpose).encode()))

    def values(self) -> list[np.ndarray]:
        """The inputs' values."""
        rng = self.rng()
        return [tensor.draw(rng) for tensor in self.inputs]

    def head_grads(self, shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
        """Head gradients of the visible outputs, float32."""
        rng = self.rng("head")
        return [np.asarray(rng.uniform(-1, 1, shape), np.float32) for shape in shapes]


def families() -> dict[str, list[Case]]:
    """Folder and file of operators, as `nn.pooling` → its cases, in order. Raises ValueError when two of a file's
    cases have one id."""
    found: dict[str, list[Case]] = {}
    for info in pkgutil.walk_packages(__path__, f"{__name__}."):
        if info.ispkg:
            continue
        cases = importlib.import_module(info.name).CASES
        ids = [case.id for case in cases]
        repeated = {i for i in ids if ids.count(i) > 1}
        if repeated:
            raise ValueError(f"{info.name}: cases with one id: {sorted(repeated)}")
        found[info.name.removeprefix(f"{__name__}.")] = cases
    return found
