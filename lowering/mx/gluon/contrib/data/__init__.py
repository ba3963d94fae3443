"""`mx.gluon.contrib.data`: an order of samples, and language models' texts (`mx.gluon.contrib.data.text`)."""

from __future__ import annotations

from lowering.mx.gluon.contrib.data import text as text
from lowering.mx.gluon.contrib.data.sampler import IntervalSampler as IntervalSampler
