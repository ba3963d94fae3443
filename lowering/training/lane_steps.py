"""Training steps in lanes: each core computes the gradients of samples of its own, and one update follows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from lowering.host.staged import chosen_effort
from lowering.lanes.lanes import Lanes, Unsplit, added
from lowering.messages.arguments import whole_number
from lowering.training.inputs import Batch
from lowering.training.state import TrainState
from lowering.training.step import Results, TrainingStep
from lowering.xla import cpu_streams
from lowering.xla.compile_options import jit
from lowering.xla.program_bound import Kept
from symjax_nnvm.errors import TrainingError, cut

_STEPS_BEFORE = 100
"""Steps of a batch's shape that run whole before lanes are compiled: compiling each lane pays after this many."""

_MEETING_BYTES = 2 << 20
"""So many bytes for each lane must be computed between two sums over all samples, for meeting to cost little: lanes
take turns at Python. On two cores a step in lanes takes this part of the time of the whole: MobileNet 0.90 (95 MiB
between two sums), ResNet-18 0.96 (112), VGG-11 0.96 and with batch norms 0.99 (190), 3 dense layers of 1024 at batch
128, of 5 MiB in all, 1.3."""


class LaneSteps:
    """A training step: in lanes where that is faster, else as the whole.

    step: its parts; whole: the step, jitted. count: of lanes; None: as many as cores, where an estimate says that it is
    faster, after some steps.
    """

    def __init__(self, step: TrainingStep, whole: Callable[..., Any], count: int | None):
        self._step, self._whole, self._count = step, whole, count
        self._before = _STEPS_BEFORE if count is None else 0
        self._taken: dict[Any, int] = {}
        self._lanes: dict[Any, Lanes | str] = {}
        self._kept: dict[Any, Kept] = {}
        self._updates: dict[int, Callable[..., Any]] = {}

    def at_once(self) -> None:
        """Compute every step from now on in the same way as later ones."""
        self._before = 0

    def __call__(self, state: TrainState, batch: Batch) -> tuple[TrainState, list[jax.Array]]:
        """Return the next state and the outputs, when they are computed, of a step in lanes."""
        lanes = self._lanes_for(state, batch)
        if not isinstance(lanes, Lanes):
            return self._whole(state, batch)
        rows = np.shape(batch[self._step.inputs.data[0]])[0]
        update = self._updates.get(rows)
        if update is None:
            update = self._updates[rows] = jit(partial(self._summed_update, rows), donate_argnums=0)
        return update(state, lanes(state, batch))

    def _summed_update(self, rows: int, state: TrainState, results: Results) -> tuple[TrainState, list[jax.Array]]:
        return self._step.update(rows, state, added(results))

    def _lanes_for(self, state: TrainState, batch: Batch) -> Lanes | str | None:
        """Return the lanes for a batch's shapes, or why there are none; None where that is not decided yet."""
        if any(isinstance(value, Tracer) for value in (state.step, *batch.values())):
            return None
        key = tuple((name, np.shape(value), np.dtype(value.dtype)) for name, value in batch.items())
        if key not in self._lanes:
            taken = self._taken[key] = self._taken.get(key, 0) + 1
            if taken <= self._before and chosen_effort() != "full":
                return None
            try:
                lanes = self._lanes[key] = self._made(state, batch)
            except Unsplit as reason:
                self._lanes[key] = str(reason)
            else:
                self._kept[key] = Kept(self, key)
                self._kept[key].grow(lanes.bytes)
        elif key in self._kept:
            self._kept[key].use()
        return self._lanes.get(key)

    def forget(self, key: Any) -> None:
        """Let go of the lanes for a batch's shapes: they are made anew when such a batch comes again."""
        self._lanes.pop(key, None)
        self._kept.pop(key, None)

    def _made(self, state: TrainState, batch: Batch) -> Lanes:
        """Return lanes for a batch's shapes. Raises Unsplit."""
        why_not = cpu_streams.why_not()
        if why_not is not None and self._count is None:
            raise Unsplit(why_not)
        rows = {name: np.shape(value)[:1] for name, value in batch.items()}
        if len(set(rows.values())) > 1:
            raise Unsplit(f"inputs have {', '.join(f'{name} {size}' for name, size in rows.items())} rows")
        is_split = [False] * len(jax.tree.leaves(state)) + [True] * len(batch)
        automatic = self._count is None
        lanes = Lanes(
            self._step.gradients, (state, dict(batch)), is_split, self._count or cpu_streams.count(), automatic
        )
        gradients = sum(value.nbytes for value in state.params.values())
        if automatic and lanes.work < lanes.count * (_MEETING_BYTES * (lanes.sums + 1) + gradients):
            raise Unsplit("samples are too small a part of the work")
        return lanes

    def ways(self) -> list[str]:
        """Return lines of text: how the steps of each batch's shape run, and why not in lanes."""
        return [
            f"{', '.join(f'{name} {shape}' for name, shape, _ in key)}: {_told(lanes)}"
            for key, lanes in [*self._lanes.items()]
        ]


def _told(lanes: Lanes | str) -> str:
    if isinstance(lanes, str):
        return f"as a whole, not in lanes: {lanes}"
    return f"in {lanes.count} lanes, which meet {lanes.sums} times"


def parse_lanes(value: Any) -> int | None:
    """Return the requested number of lanes, 1 for none; None where an estimate decides. Raises TrainingError."""
    if value == "auto":
        return None
    if value == "off":
        return 1
    try:
        count = whole_number(value)
    except TypeError:
        count = 0
    if count < 1:
        raise TrainingError("Wrong lanes", expected="'auto', 'off', or a number from 1 on", got=cut(repr(value), 100))
    return count
