"""Predictions by onnxruntime (`backend="onnxruntime"`): the network is exported, run, and checked against XLA."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from symjax_nnvm.errors import LoweringError, MissingExtraError, OnnxError
from symjax_nnvm.ir.types import DType, Shape
from symjax_nnvm.onnx import to_onnx
from symjax_nnvm.onnx.proto import weight_bytes
from symjax_nnvm.symbol.symbol import Symbol

if TYPE_CHECKING:
    import onnxruntime

__all__ = ["OnnxPrograms", "distance", "open_session", "tolerance"]

Arrays = Mapping[str, Any]
Inputs = Mapping[str, tuple[Shape, DType]]
Program = Callable[[Mapping[str, jax.Array], Any, jax.Array | None], list[jax.Array]]

_HALF = 2e-2
_SINGLE = 1e-4

_MAX_BYTES = 2**31 - 2**20
"""A protocol buffer holds less than 2 GiB."""


def tolerance(dtype: np.dtype) -> float:
    """Return how far results may be from XLA's, relative to the largest of them: they are rounded in another order."""
    return _HALF if dtype.name == "float16" else _SINGLE


def distance(actual: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference, relative to the largest element of what is expected; NaN if either has one."""
    wide, scale = np.asarray(expected, np.float64), np.max(np.abs(np.asarray(expected, np.float64)), initial=0.0)
    return float(np.max(np.abs(actual.astype(np.float64) - wide), initial=0.0) / max(scale, 1e-30))


def open_session(model: str | bytes, what: str, threads: int | None = None) -> onnxruntime.InferenceSession:
    """Return a session on the CPU.

    Args:
        model: the path of a file, or its bytes.
        what: what an error calls it.
        threads: the number of threads of each operator; None for onnxruntime's choice.

    Raises:
        MissingExtraError: onnxruntime is not installed.
        OnnxError: onnxruntime does not run the model.
    """
    try:
        import onnxruntime
        from onnxruntime.capi import onnxruntime_pybind11_state as states  # pyright: ignore[reportAttributeAccessIssue]
    except ImportError as error:
        raise MissingExtraError(
            "ONNX files are run by onnxruntime. Install it with: pip install onnxruntime"
        ) from error
    options = onnxruntime.SessionOptions()
    if threads is not None:
        options.intra_op_num_threads = threads
    refused = (states.Fail, states.InvalidArgument, states.InvalidGraph, states.InvalidProtobuf, states.NotImplemented)
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except refused as error:
        raise OnnxError(f"onnxruntime cannot run {what}: {error}") from error


class OnnxPrograms:
    """The programs of a `Predictor` that onnxruntime runs: a session for all sizes of a batch, where ONNX allows it.

    The outputs of each signature's first call are compared with XLA's.

    Args:
        symbol: the network.
        constants: parameters and states by name.
        threads: the number of threads of each operator; None for onnxruntime's choice.
        by_xla: computes the outputs by XLA; made when it is first needed.
    """

    def __init__(
        self, symbol: Symbol, constants: Arrays, threads: int | None, by_xla: Callable[[], Callable[..., Sequence[Any]]]
    ):
        self._symbol, self._constants, self._threads, self._by_xla = symbol, constants, threads, by_xla
        self._sessions: dict[Any, onnxruntime.InferenceSession] = {}

    def program(self, inputs: Inputs) -> Program:
        """Return what computes the outputs for inputs of these shapes and dtypes.

        Raises:
            MissingExtraError: onnx or onnxruntime is not installed.
            OnnxError: ONNX cannot express the network, or onnxruntime does not run it.
        """
        session, checked = self._session(inputs), False

        def run(arrays: Mapping[str, jax.Array], _: Any, key: jax.Array | None) -> list[jax.Array]:
            nonlocal checked
            outputs: Any = session.run(None, {name: np.asarray(array) for name, array in arrays.items()})
            if not checked:
                self._check(outputs, self._by_xla()(**arrays))
                checked = True
            return [jax.numpy.asarray(output) for output in outputs]

        return run

    def _session(self, inputs: Inputs) -> onnxruntime.InferenceSession:
        """Return the session for these inputs: for all sizes of the batch, or for this one if the graph has it."""
        if len({shape[:1] for shape, _ in inputs.values()}) == 1 and all(shape for shape, _ in inputs.values()):
            try:
                return self._opened({name: (("batch", *shape[1:]), dtype) for name, (shape, dtype) in inputs.items()})
            except OnnxError:
                pass
        return self._opened(inputs)

    def _opened(self, inputs: Mapping[str, tuple[Sequence[Any], DType]]) -> onnxruntime.InferenceSession:
        signature = tuple(inputs.items())
        if signature not in self._sessions:
            states = set(self._symbol.list_auxiliary_states())
            arrays = {name: np.asarray(array) for name, array in self._constants.items()}
            model = to_onnx(
                self._symbol,
                {name: array for name, array in arrays.items() if name not in states},
                {name: array for name, array in arrays.items() if name in states},
                shapes={name: tuple(shape) for name, (shape, _) in inputs.items()},
                dtypes={name: dtype for name, (_, dtype) in inputs.items()},
            )
            if (size := weight_bytes(model)) > _MAX_BYTES:
                raise OnnxError(
                    f"The network's weights take {size:,} bytes, and a session of onnxruntime holds less than 2 GiB. "
                    'Use backend="xla".'
                )
            self._sessions[signature] = open_session(model.SerializeToString(), "the network", self._threads)
        return self._sessions[signature]

    def _check(self, outputs: Sequence[np.ndarray], expected: Sequence[Any]) -> None:
        """Raise LoweringError where outputs differ from XLA's by more than rounding."""
        for name, output, right in zip(self._symbol.list_outputs(), outputs, map(np.asarray, expected), strict=True):
            apart, bound = distance(output, right), tolerance(output.dtype)
            if output.shape != right.shape or not (apart <= bound or np.array_equal(output, right, equal_nan=True)):
                raise LoweringError(
                    f"onnxruntime's output {name!r} differs from XLA's by {apart:.1e} of its largest element; "
                    f'rounding explains up to {bound:.0e}. Use backend="xla".'
                )
