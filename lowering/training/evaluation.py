"""The network as a function of a batch, outside training: `evaluate` and `predict`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lowering.core.cache import Programs
from lowering.core.chosen_options import first_options
from lowering.core.program import Program
from lowering.host.open_sizes import OpenTraces
from lowering.host.staged import Staged
from lowering.messages.arguments import may_be_iterated
from lowering.sharding.explicit_axes import under_auto_axes
from lowering.sharding.placement import Placement
from lowering.training.diagnosis import Diagnosis, diagnose_forward
from lowering.training.finite_outputs import FiniteWatch, rows_not_finite
from lowering.training.inputs import Inputs
from lowering.training.placing import gives_whole, put_batch
from lowering.training.state import TrainState
from lowering.training.tracking import Tracker
from lowering.xla.compile_options import jit
from symjax_nnvm.check.remedies import shape_remedy
from symjax_nnvm.errors import InferenceError, TrainingError, cut, listed
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.types import is_known
from symjax_nnvm.passes.infer import infer_shape
from symjax_nnvm.pipeline import Options

_RUN_OUT = "Is the data an iterator that has already run out? Pass a list, or lowering.Batches(arrays, batch_size)."


class Evaluation:
    """Runs a network in test mode: no dropout, moving statistics, nothing updated.

    Every batch runs at its own length, and padding is cut off before, so that each row counts once in every
    network; a last batch of another length costs one more compilation.
    """

    def __init__(self, programs: Programs, inputs: Inputs, options: Options, placement: Placement):
        self._symbol = programs.symbol
        self._inputs = inputs
        self._placement = placement
        self._program = programs.forward(options)
        whole = self._program.segments is None
        run = under_auto_axes(partial(self._run, lambda: self._program))
        first_calls = first_options(options)
        if whole and first_calls is not None:
            first = partial(programs.forward, first_calls)
            told_by = lambda params, frozen, aux, key, batch: batch  # noqa: E731
            traces = OpenTraces(self._symbol.outputs)
            compiles = lambda kept: jit(run, kept=kept)  # noqa: E731
            self._forward: Any = Staged(partial(self._run, first), compiles, told_by=told_by, open_traces=traces)
        else:
            self._forward = jit(run, whole=whole)

    def _run(
        self, program: Callable[[], Program], params: Any, frozen: Any, aux: Any, key: jax.Array, batch: Any
    ) -> tuple[list[jax.Array], jax.Array]:
        args = {**params, **frozen, **self._inputs.prepare(batch, labels_needed=False)}
        outputs, _ = program().evaluate(self._with_labels(args), aux, key)
        return self._placement.readable(outputs), self._placement.readable(rows_not_finite(outputs))

    def _bind(self, params: Any, frozen: Any, aux: Any, batch: Any) -> dict[int, jax.Array]:
        args = {**params, **frozen, **self._inputs.prepare(batch, labels_needed=False)}
        return self._program.bind(self._with_labels(args), aux)

    def _with_labels(self, args: dict[str, jax.Array]) -> dict[str, jax.Array]:
        """Return the batch with zeros for labels that were not given: outputs of loss heads do not depend on them."""
        missing = [name for name in self._inputs.labels if name not in args]
        if not missing:
            return args
        given_shapes = {name: array.shape for name, array in args.items()}
        try:  # sizes may be open
            graph = infer_shape(Graph(self._symbol.outputs), shapes=given_shapes)
        except InferenceError as error:
            raise InferenceError(f"{error} {shape_remedy(self._symbol, given_shapes)}".rstrip(), error.node) from error
        index, shapes = graph.indexed_graph(), graph.attrs["shape"]
        shapes_by_name = {index.nodes[nid].source.name: shapes[index.entry_rptr[nid]] for nid in index.input_nodes}
        unknown = [name for name in missing if not is_known(shapes_by_name[name])]
        if unknown:
            raise TrainingError(
                f"The shapes of the labels {listed(unknown)} are unknown", fix="Pass the labels as well."
            )
        return args | {name: jnp.zeros(shapes_by_name[name], self._inputs.dtypes[name]) for name in missing}

    def _outputs(self, state: TrainState, batch: Any) -> tuple[list[jax.Array], jax.Array]:
        """Return the outputs for one batch, and their rows that are not finite."""
        return self._forward(state.params, state.frozen, state.aux, state.key, batch)

    def _diagnose(self, state: TrainState, batch: Any) -> Diagnosis:
        def bind(state: TrainState, batch: Any) -> dict[int, jax.Array]:
            return self._bind(state.params, state.frozen, state.aux, batch)

        return diagnose_forward(self._program, bind, state, batch)

    def evaluate(self, state: TrainState, data: Iterable[Any], tracker: Tracker) -> dict[str, float]:
        """Return metrics by name over all batches. Raises TrainingError when there are none; warns of outputs that are
        not finite."""
        watch = FiniteWatch(self._symbol.list_outputs())
        count = 0
        for batch, size in self._batches(data):
            outputs, numbers = self._outputs(state, batch)
            tracker.update(batch, outputs)
            watch.add(batch, size, numbers)
            count += 1
        if not count:
            raise TrainingError(f"There are no batches to evaluate. {_RUN_OUT}")
        watch.finish("evaluate", lambda batch: self._diagnose(state, batch))
        return tracker.results()

    def predict(self, state: TrainState, data: Iterable[Any]) -> list[np.ndarray]:
        """Return every output over all batches, joined along axis 0. Warns of outputs that are not finite."""
        watch = FiniteWatch(self._symbol.list_outputs())
        outputs_of_batches: list[list[Any]] = []
        for batch, size in self._batches(data):
            outputs, rows = self._outputs(state, batch)
            outputs_of_batches.append(outputs)
            watch.add(batch, size, rows)
            if len(outputs_of_batches) > 2:  # the device keeps busy with two batches; more would only fill its memory
                outputs_of_batches[-3] = jax.device_get(outputs_of_batches[-3])
        if not outputs_of_batches:
            raise TrainingError(f"There are no batches to predict. {_RUN_OUT}")
        watch.finish("predict", lambda batch: self._diagnose(state, batch))
        return [np.concatenate([np.asarray(part) for part in parts]) for parts in zip(*outputs_of_batches, strict=True)]

    def _rows(self, batch: dict[str, Any]) -> int:
        """Return the number of rows of a batch. Raises TrainingError for a batch of anything that is not an array."""
        shape = next((np.shape(value) for value in batch.values()), ())
        if not shape:
            got = ", ".join(f"{name} {type(value).__name__}" for name, value in batch.items()) or "nothing"
            fix = "For one sample pass x[None]; convert lists with numpy.asarray."
            raise TrainingError("A batch must be arrays with the samples on axis 0", got=got, fix=fix)
        return shape[0]

    def _batches(self, data: Iterable[Any]) -> Iterator[tuple[dict[str, Any], int]]:
        """Yield batches without padding, placed on the devices, and their numbers of rows."""
        one = isinstance(data, Mapping) or hasattr(data, "shape")  # one array, or dict, is one batch
        rows = getattr(data, "rows", None)
        if not one and not may_be_iterated(data):
            expected = "batches, or one batch: a dict, or an array"
            raise TrainingError("No batches", expected=expected, got=cut(repr(data), 100))
        for i, item in enumerate([data] if one else data):
            batch = self._inputs.as_batch(item)
            self._rows(batch)
            batch = put_batch(self._placement, batch, whole=one or gives_whole(data))
            size = self._rows(batch)
            real = size if rows is None else min(rows(i), size)
            yield (batch if real == size else {name: array[:real] for name, array in batch.items()}), real
