"""`mx.gluon.contrib`: layers, cells and data sets that MXNet calls contributed, and its estimator."""

from __future__ import annotations

from lowering.messages.migration_hints import unknown_attribute
from lowering.mx.gluon.contrib import cnn as cnn
from lowering.mx.gluon.contrib import data as data
from lowering.mx.gluon.contrib import estimator as estimator
from lowering.mx.gluon.contrib import nn as nn
from lowering.mx.gluon.contrib import rnn as rnn


def __getattr__(name: str) -> object:
    unknown_attribute("mx.gluon.contrib", name, sorted(globals()))
