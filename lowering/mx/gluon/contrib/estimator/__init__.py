"""`gluon.contrib.estimator`: `Estimator`, whose `fit` trains a block, and the handlers of what happens meanwhile."""

from lowering.mx.gluon.contrib.estimator import batch_processor as batch_processor
from lowering.mx.gluon.contrib.estimator import checkpoint_files as checkpoint_files
from lowering.mx.gluon.contrib.estimator import estimator as estimator
from lowering.mx.gluon.contrib.estimator import event_handler as event_handler
from lowering.mx.gluon.contrib.estimator.batch_processor import BatchProcessor as BatchProcessor
from lowering.mx.gluon.contrib.estimator.estimator import Estimator as Estimator
from lowering.mx.gluon.contrib.estimator.event_handler import BatchBegin as BatchBegin
from lowering.mx.gluon.contrib.estimator.event_handler import BatchEnd as BatchEnd
from lowering.mx.gluon.contrib.estimator.event_handler import CheckpointHandler as CheckpointHandler
from lowering.mx.gluon.contrib.estimator.event_handler import EarlyStoppingHandler as EarlyStoppingHandler
from lowering.mx.gluon.contrib.estimator.event_handler import EpochBegin as EpochBegin
from lowering.mx.gluon.contrib.estimator.event_handler import EpochEnd as EpochEnd
from lowering.mx.gluon.contrib.estimator.event_handler import GradientUpdateHandler as GradientUpdateHandler
from lowering.mx.gluon.contrib.estimator.event_handler import LoggingHandler as LoggingHandler
from lowering.mx.gluon.contrib.estimator.event_handler import MetricHandler as MetricHandler
from lowering.mx.gluon.contrib.estimator.event_handler import StoppingHandler as StoppingHandler
from lowering.mx.gluon.contrib.estimator.event_handler import TrainBegin as TrainBegin
from lowering.mx.gluon.contrib.estimator.event_handler import TrainEnd as TrainEnd
from lowering.mx.gluon.contrib.estimator.event_handler import ValidationHandler as ValidationHandler
