"""`History`, which `fit` returns, and the events that callbacks receive."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import jax

from lowering.training.curves import curves_svg
from lowering.training.state import described
from symjax_nnvm.drawing.page import in_page
from symjax_nnvm.tables import table_html


@dataclass(frozen=True)
class EpochRecord:
    """The record of one epoch.

    Attributes:
        epoch: the epoch's number, from 0 on, as in MXNet's log, `Batches.epoch` and `begin_epoch`.
        steps: the number of steps in it.
        seconds: wall time in seconds, without the time before an interruption.
    """

    epoch: int
    steps: int
    seconds: float
    metrics: dict[str, float]
    validation: dict[str, float] = field(default_factory=dict)

    @property
    def shown(self) -> dict[str, float]:
        """Return the metrics of training and validation together, for printing."""
        return self.metrics | {f"val-{name}": value for name, value in self.validation.items()}


@dataclass(frozen=True)
class StepEvent:
    """What `on_step_end` gets.

    Attributes:
        epoch: the epoch's number, from 0 on.
        batch: the batch's number in the epoch, from 0 on.
        step: the number of steps taken, this one included.
        outputs: the outputs of the step, on the device; reading their numbers waits for them.
    """

    epoch: int
    batch: int
    step: int
    outputs: list[jax.Array]

    def __repr__(self) -> str:
        shapes = ", ".join(described(array) for array in self.outputs)
        return f"StepEvent(epoch={self.epoch}, batch={self.batch}, step={self.step}, outputs=[{shapes}])"


@dataclass
class History:
    """The epochs of a run, from 0 on; `history["accuracy"]` and `history["val-accuracy"]` list a metric."""

    epochs: list[EpochRecord] = field(default_factory=list)

    def __getitem__(self, name: str) -> list[float]:
        return [record.shown[name] for record in self.epochs]

    def __len__(self) -> int:
        return len(self.epochs)

    def to_json(self) -> list[dict[str, Any]]:
        """Return the history as plain data, which `from_json` reads."""
        return [asdict(record) for record in self.epochs]

    @classmethod
    def from_json(cls, rows: list[Mapping[str, Any]]) -> History:
        """Return the history in the data that `to_json` returned."""
        return cls([EpochRecord(**row) for row in rows])

    def _repr_html_(self) -> str:
        shown = [record.shown for record in self.epochs]
        names = dict.fromkeys(name for record in shown for name in record)
        rows = [
            (str(r.epoch), str(r.steps), f"{r.seconds:.2f}", *(f"{cells.get(name, math.nan):.6g}" for name in names))
            for r, cells in zip(self.epochs, shown, strict=True)
        ]
        charts = [
            curves_svg(
                name,
                {
                    label: [record.get(key, math.nan) for record in shown]
                    for label, key in (("training", name), ("validation", f"val-{name}"))
                    if key in names
                },
            )
            for name in dict.fromkeys(name.removeprefix("val-") for name in names)
        ]
        return "".join(map(in_page, charts)) + table_html(
            ("epoch", "steps", "seconds", *names), rows, right=3 + len(names)
        )

    def __str__(self) -> str:
        lines = [
            f"epoch {r.epoch}: " + ", ".join(f"{name} {value:.6g}" for name, value in r.shown.items())
            for r in self.epochs
        ]
        return "\n".join(lines) or "no epochs"
