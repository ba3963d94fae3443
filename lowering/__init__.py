"""Lowering makes pure JAX functions of symbols, compiled by XLA, with gradients by MXGradient."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

import lowering.versions as _versions  # noqa: F401  # first: under an older JAX what follows fails in other words

# isort: split
import lowering.initializer as initializer
import lowering.ops as ops
from lowering.api.compile import CompiledFunction as CompiledFunction
from lowering.api.compile import compile as compile
from lowering.api.explain import Explanation as Explanation
from lowering.api.explain import explain as explain
from lowering.api.function import to_jax as to_jax
from lowering.api.gradient import differentiable as differentiable
from lowering.api.gradient import grad_fn as grad_fn
from lowering.convolutions import ops as _ops  # noqa: F401  # registered
from lowering.core.rules import lowers as lowers
from lowering.core.rules import lowers_custom as lowers_custom
from lowering.host.staged import effort as effort
from lowering.initializer import init_params as init_params
from lowering.lanes.in_lanes import in_lanes as in_lanes
from lowering.messages.migration_hints import unknown_attribute as _unknown_attribute
from lowering.serving.predictor import Predictor as Predictor
from lowering.xla.host_memory import keep_memory as keep_memory
from lowering.xla.kept_programs import keep_programs as keep_programs
from lowering.xla.program_bound import limit_programs as limit_programs

if _TYPE_CHECKING:  # what is loaded when it is first used
    import lowering.data as data
    import lowering.training as training
    from lowering.api.tuning import tune as tune
    from lowering.executor import Executor as Executor
    from lowering.executor import bind as bind
    from lowering.executor import simple_bind as simple_bind
    from lowering.serving.program_file import export_program as export_program
    from lowering.source import to_source as to_source
    from lowering.training import Batches as Batches
    from lowering.training import Checkpoints as Checkpoints
    from lowering.training import Trainer as Trainer
    from lowering.training import TrainState as TrainState
    from lowering.verify.gradient_check import GradientReport as GradientReport
    from lowering.verify.gradient_check import ProjectionReport as ProjectionReport
    from lowering.verify.gradient_check import check_gradients as check_gradients
    from lowering.verify.gradient_check import check_projection as check_projection

_LATER = {
    "lowering.data": ("data",),
    "lowering.serving.program_file": ("export_program",),
    "lowering.executor": ("Executor", "bind", "simple_bind"),
    "lowering.mx": ("mx",),
    "lowering.source": ("to_source",),
    "lowering.training": ("Batches", "Checkpoints", "TrainState", "Trainer", "training"),
    "lowering.api.tuning": ("tune",),
    "lowering.verify": ("GradientReport", "ProjectionReport", "check_gradients", "check_projection"),
}
"""Module → the names that it loads when one is first used, so that a server starts without a trainer."""

__all__ = [
    "Batches",
    "Checkpoints",
    "CompiledFunction",
    "Executor",
    "Explanation",
    "GradientReport",
    "Predictor",
    "ProjectionReport",
    "TrainState",
    "Trainer",
    "bind",
    "check_gradients",
    "check_projection",
    "compile",
    "data",
    "differentiable",
    "effort",
    "explain",
    "export_program",
    "grad_fn",
    "in_lanes",
    "init_params",
    "initializer",
    "keep_memory",
    "keep_programs",
    "limit_programs",
    "lowers",
    "lowers_custom",
    "ops",
    "simple_bind",
    "to_jax",
    "to_source",
    "training",
    "tune",
]

if not _TYPE_CHECKING:  # so that type checkers still see the names

    def __getattr__(name: str) -> object:
        module = next((module for module, names in _LATER.items() if name in names), None)
        if module is None:
            _unknown_attribute("lowering", name, __all__)
        loaded = _import_module(module)
        value = globals()[name] = loaded if module == f"lowering.{name}" else getattr(loaded, name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
