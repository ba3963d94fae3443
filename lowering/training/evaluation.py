"""The network as a function of a batch, outside training: `evaluate` and `predict`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lowering.interpret import Program
from lowering.training.inputs import Inputs
from lowering.training.state import TrainState
from lowering.training.tracking import Tracker
from symjax_nnvm.errors import TrainingError, explain
from symjax_nnvm.symbol.symbol import Symbol

__all__ = ["Evaluation"]


class Evaluation:
    """A network in test mode: no dropout, moving statistics, nothing updated.

    Every batch runs at its own length, and padding is cut off before, so that each row counts once whatever the
    network makes of it; a last batch of another length costs one more compilation.
    """

    def __init__(self, symbol: Symbol, inputs: Inputs, platform: str | None = None):
        self._symbol = symbol
        self._inputs = inputs
        self._program = Program(symbol.outputs, is_train=False, platform=platform)
        self._forward = jax.jit(self._run)

    def _run(self, params: Any, frozen: Any, aux: Any, key: jax.Array, batch: Any) -> list[jax.Array]:
        arrays = self._inputs.prepare(batch, labels_needed=False)
        args = {**params, **frozen, **arrays}
        outputs, _ = self._program.collect(self._program.run(self._program.bind(self._with_labels(args), aux), key))
        return outputs

    def _with_labels(self, args: dict[str, jax.Array]) -> dict[str, jax.Array]:
        """Labels that were not given are zeros: outputs of loss heads do not depend on them."""
        missing = [name for name in self._inputs.labels if name not in args]
        if not missing:
            return args
        shapes, _, _ = self._symbol.infer_shape_partial(**{name: array.shape for name, array in args.items()})
        known = dict(zip(self._symbol.list_arguments(), shapes, strict=True))
        unknown = [name for name in missing if not known[name] or 0 in known[name]]
        if unknown:
            raise TrainingError(explain(f"The shapes of the labels {unknown} are unknown", fix="Pass the labels, too."))
        return args | {name: jnp.zeros(known[name], self._inputs.dtypes[name]) for name in missing}

    def outputs(self, state: TrainState, batch: Any) -> list[jax.Array]:
        """The outputs for one batch."""
        return self._forward(state.params, state.frozen, state.aux, state.key, batch)

    def evaluate(self, state: TrainState, data: Iterable[Any], tracker: Tracker) -> dict[str, float]:
        """Metrics by name over all batches. Raises TrainingError when there are none."""
        seen = 0
        for batch in self._batches(data):
            tracker.update(batch, self.outputs(state, batch))
            seen += 1
        if not seen:
            raise TrainingError("There are no batches to evaluate. Is the data an iterator that has already run out?")
        return tracker.results()

    def predict(self, state: TrainState, data: Iterable[Any]) -> list[np.ndarray]:
        """Every output over all batches, joined along axis 0."""
        found: list[list[Any]] = []
        for batch in self._batches(data):
            found.append(self.outputs(state, batch))
            if len(found) > 2:  # the device keeps busy with two batches; more would only fill its memory
                found[-3] = jax.device_get(found[-3])
        if not found:
            raise TrainingError("There are no batches to predict. Is the data an iterator that has already run out?")
        return [np.concatenate([np.asarray(part) for part in parts]) for parts in zip(*found, strict=True)]

    def _batches(self, data: Iterable[Any]) -> Iterator[dict[str, Any]]:
        if hasattr(data, "shape"):  # one array is one batch, not a sequence of rows
            data = [data]
        rows = getattr(data, "rows", None)
        for i, item in enumerate(data):
            batch = self._inputs.as_batch(item)
            size = next(iter(batch.values())).shape[0]
            real = size if rows is None else min(rows(i), size)
            yield batch if real == size else {name: array[:real] for name, array in batch.items()}
