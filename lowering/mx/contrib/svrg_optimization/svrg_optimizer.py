"""The optimisers of SVRGModule, under MXNet's names."""

from lowering.mx.module.svrg_optimizer import AssignmentOptimizer, SVRGOptimizer

_AssignmentOptimizer, _SVRGOptimizer = AssignmentOptimizer, SVRGOptimizer
