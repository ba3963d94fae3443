"""`mx.notebook`: callbacks that show in a notebook how a training run goes."""

from lowering.mx.notebook import callback as callback
