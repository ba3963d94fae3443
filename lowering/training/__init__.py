"""This package trains: it has `Trainer` and its parts."""

from lowering.optim.optimizers import list_optimizers as list_optimizers
from lowering.optim.schedules import CosineScheduler as CosineScheduler
from lowering.optim.schedules import FactorScheduler as FactorScheduler
from lowering.optim.schedules import MultiFactorScheduler as MultiFactorScheduler
from lowering.optim.schedules import PolyScheduler as PolyScheduler
from lowering.training import metrics as metrics
from lowering.training.checkpoints import Checkpoints as Checkpoints
from lowering.training.data import Batches as Batches
from lowering.training.history import EpochRecord as EpochRecord
from lowering.training.history import History as History
from lowering.training.history import StepEvent as StepEvent
from lowering.training.metrics import Metric as Metric
from lowering.training.state import TrainState as TrainState
from lowering.training.symbol_trainer import Trainer as Trainer

__all__ = [
    "Batches",
    "Checkpoints",
    "CosineScheduler",
    "EpochRecord",
    "FactorScheduler",
    "History",
    "Metric",
    "MultiFactorScheduler",
    "PolyScheduler",
    "StepEvent",
    "TrainState",
    "Trainer",
    "list_optimizers",
    "metrics",
]
