"""`mx.contrib.svrg_optimization`: stochastic variance-reduced gradients (Johnson and Zhang 2013)."""

from lowering.mx.contrib.svrg_optimization import svrg_module as svrg_module
from lowering.mx.contrib.svrg_optimization import svrg_optimizer as svrg_optimizer
from lowering.mx.contrib.svrg_optimization.svrg_module import SVRGModule as SVRGModule
