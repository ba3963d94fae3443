"""A run tracks its metrics on the device, and whether an output stopped being finite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lowering.host.staged import Staged
from lowering.sharding.explicit_axes import under_auto_axes
from lowering.sharding.placement import DEFAULT_PLACEMENT, Placement
from lowering.training.inputs import Inputs
from lowering.training.metrics import Metric, make_metrics
from lowering.training.numbered_inputs import ClassNumbers, Numbered, first_outside
from lowering.xla.out_of_memory import read, telling_memory
from symjax_nnvm.errors import TrainingError, listed

_NEVER = np.iinfo(np.int32).max


class Tracker:
    """Holds metrics of one network, with their state. `update` starts work on the device; other methods wait for it.

    metrics: names, Metrics or triples, one of them, or None. numbers: inputs whose values number classes or rows,
    and are looked at. placement: the placement of batches; what is tracked is whole on every device. Raises
    TrainingError.
    """

    def __init__(
        self,
        metrics: Any,
        inputs: Inputs,
        output_names: Sequence[str],
        numbers: ClassNumbers | None = None,
        placement: Placement = DEFAULT_PLACEMENT,
        effort: str | None = None,
    ):
        self.metrics = make_metrics(metrics)
        self._inputs = inputs
        self._numbers = numbers
        self._placement = placement
        self._numbered: list[Numbered | None] = []  # known when the first batch is traced
        self._output_names = list(output_names)
        names = [metric.name for metric in self.metrics]
        if len(set(names)) < len(names):
            raise TrainingError("Two metrics share a name", got=names, fix="Name them: metric.select(name=...).")
        for metric in self.metrics:
            _check_names(metric, "output", metric.output_names, self._output_names)
            _check_names(metric, "label", metric.label_names, inputs.labels)
        self._staged = Staged(under_auto_axes(self._tracked), effort=effort)
        self.reset()

    def reset(self) -> None:
        """Start again, as at the beginning of an epoch."""
        self._states: Any = [metric.init() for metric in self.metrics]
        self._first_bad = jnp.full(len(self._output_names), _NEVER, jnp.int32)
        # For each place that numbers something: the first step that was wrong, the element, and the bits of its value.
        self._outside: Any = _nowhere(len(self._numbers)) if self._numbers else None
        self._steps = 0

    def update(self, batch: Any, outputs: list[jax.Array]) -> None:
        """Count a step's batch and outputs. Raises TrainingError for a metric that JAX cannot compile."""
        # Data decide, by their shapes, how many classes there are; XLA drops arguments that nothing reads.
        read = dict(batch) if self._numbers else {name: batch[name] for name in self._inputs.labels if name in batch}
        state = (self._states, self._first_bad, self._outside)
        try:
            self._states, self._first_bad, self._outside = self._staged(*state, self._steps, read, outputs)
        except jax.errors.ConcretizationTypeError as error:
            raise TrainingError(
                f"A metric of {[metric.name for metric in self.metrics]} needs values while it is compiled",
                got=str(error).splitlines()[0],
                fix="Its init and update are compiled: write them with jax.numpy, jnp.where for `if`, and call "
                "float() in its result only.",
            ) from error
        self._steps += 1

    def _tracked(self, *args: Any) -> Any:
        return self._placement.whole(self._update(*args))

    def _update(self, states: Any, first_bad: Any, outside: Any, step: Any, read: Any, outputs: Any) -> Any:
        named_labels = {name: read[name] for name in self._inputs.labels if name in read}
        named_outputs = dict(zip(self._output_names, outputs, strict=True))
        new = [
            metric.update(state, _chosen(named_labels, metric.label_names), _chosen(named_outputs, metric.output_names))
            for metric, state in zip(self.metrics, states, strict=True)
        ]
        finite = jnp.stack([jnp.all(jnp.isfinite(x)) if _is_float(x) else jnp.array(True) for x in outputs])
        return new, jnp.where(finite, first_bad, jnp.minimum(first_bad, step)), self._look(outside, step, read)

    def _look(self, outside: Any, step: Any, read: dict[str, Any]) -> Any:
        """Return the first values that number nothing, this step's included."""
        if not self._numbers:
            return outside
        self._numbered = self._numbers.of_batch({name: array.shape for name, array in read.items()})
        for i, numbered in enumerate(self._numbered):
            if numbered is not None and numbered.name in read:
                wrong, place, value = first_outside(numbered, read[numbered.name])
                bits = jax.lax.bitcast_convert_type(value.astype(jnp.float32), jnp.int32)
                row = jnp.stack([jnp.asarray(step, jnp.int32), place, bits])
                outside = outside.at[:, i].set(jnp.where(wrong & (step < outside[0, i]), row, outside[:, i]))
        return outside

    def results(self) -> dict[str, float]:
        """Return the metrics so far, by name."""
        with telling_memory:
            states = jax.device_get(self._states)
        return {m.name: m.result(state) for m, state in zip(self.metrics, states, strict=True)}

    def check_finite(self, epoch: int, first_batch: int, fix: str = "") -> None:
        """Raise TrainingError when an output was not finite, naming the first one and the batch."""
        first = read(self._first_bad)
        i = int(first.argmin())
        if first[i] != _NEVER:
            raise TrainingError(
                f"An output is infinite or NaN since batch {first_batch + int(first[i])} of epoch {epoch}",
                node=self._output_names[i],
                fix="Lower the learning rate, clip gradients (clip_global_norm), look for log(0) or a division." + fix,
            )

    def check_numbers(self, epoch: int, first_batch: int) -> None:
        """Raise TrainingError when a label or an index numbers what is not there, naming the first one."""
        if self._outside is None:
            return
        steps, places, bits = read(self._outside)
        wrong = [i for i in range(len(steps)) if steps[i] != _NEVER]
        if not wrong:
            return
        i = min(wrong, key=lambda i: steps[i])
        numbered = self._numbered[i]
        assert numbered is not None  # its places were looked at
        raise TrainingError(
            f"Input {numbered.name!r} holds {bits[i].view(np.float32):g} as element {places[i]} of batch "
            f"{first_batch + int(steps[i])} of epoch {epoch}",
            op=numbered.op,
            node=numbered.reader,
            expected=f"numbers from 0 to {numbered.count - 1}: there are {numbered.count}",
            fix="Count classes from 0, or give the layer more outputs (num_hidden=, input_dim=). "
            "Labels to be skipped: SoftmaxOutput(..., use_ignore=True, ignore_label=-1). "
            "fit(..., check_labels=False) trains without this check, as MXNet does.",
        )

    def saved(self) -> list[Any]:
        """Return the metrics' state as plain numbers, exactly."""
        return [np.asarray(leaf).tolist() for leaf in jax.tree.leaves(jax.device_get(self._states))]

    def restore(self, saved: Sequence[Any]) -> None:
        """Take up a state that `saved` gave. Raises TrainingError when it is that of other metrics."""
        leaves, structure = jax.tree.flatten(self._states)
        if [np.shape(value) for value in saved] != [leaf.shape for leaf in leaves]:
            names = [metric.name for metric in self.metrics]
            raise TrainingError("The checkpoint was made with other metrics", expected=f"those of {names}")
        values = [jnp.asarray(value, leaf.dtype) for value, leaf in zip(saved, leaves, strict=True)]
        self._states = jax.tree.unflatten(structure, values)


def _nowhere(count: int) -> jax.Array:
    return jnp.stack([jnp.full(count, _NEVER, jnp.int32), *jnp.zeros((2, count), jnp.int32)])


def _chosen(named: dict[str, Any], names: Sequence[str] | None) -> list[Any]:
    return [value for name, value in named.items() if names is None or name in names]


def _check_names(metric: Metric, what: str, names: Sequence[str] | None, network_names: Sequence[str]) -> None:
    unknown = [name for name in names or () if name not in network_names]
    if unknown:
        raise TrainingError(
            f"Metric {metric.name!r} needs {what}s {listed(unknown)}, which the network does not have",
            expected=list(network_names),
        )


def _is_float(value: Any) -> bool:
    return jnp.issubdtype(value.dtype, jnp.floating)
