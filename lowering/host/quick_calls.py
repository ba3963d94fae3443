"""Estimates of how much slower calls of a quickly compiled program are."""

from __future__ import annotations

from math import prod
from typing import Any

from lowering.host.evaluator import TURNS
from lowering.xla.library_call import LIBRARY_CALLS
from lowering.xla.program_bound import inner_programs

_DENSE, _NAIVE, _ELEMENT = 0.1e-3, 6e-3, 1e-3
"""Microseconds of a multiplication in a product or a convolution of Eigen's, in a convolution for which XLA writes
loops, one of groups or of images smaller than the window, and of an element that an equation writes. Two cores with
AVX2, jaxlib 0.10.2: those loops take 2 to 8 ns for small images and 10 to 20 for groups. By this estimate and measured
a step of LeNet with 64 images takes 75 and 67 ms longer, of ResNet-18 with 32 images of 32² 7.8 and 4.9 s."""


def excess_of_quick_calls(jaxpr: Any) -> float:
    """Microseconds by which a call takes longer than one of the fully compiled program, about."""
    return sum(map(_excess, jaxpr.eqns))


def _excess(equation: Any) -> float:
    params, outs = equation.params, equation.outvars
    if equation.primitive.name in LIBRARY_CALLS:
        return 0.0
    if inner := inner_programs(equation):
        turns = params.get("length", TURNS if equation.primitive.name == "while" else 1)
        return turns * sum(map(excess_of_quick_calls, inner))
    written = sum(prod(out.aval.shape) for out in outs)
    if equation.primitive.name == "dot_general":
        (contracted, _), _ = params["dimension_numbers"]
        return _DENSE * written * prod(equation.invars[0].aval.shape[axis] for axis in contracted)
    if equation.primitive.name == "conv_general_dilated":
        data, weight = (variable.aval.shape for variable in equation.invars)
        axes = params["dimension_numbers"]
        products = written * prod(weight) // max(1, weight[axes.rhs_spec[0]])
        sizes = zip(axes.lhs_spec[2:], axes.rhs_spec[2:], strict=True)
        is_small = any(data[place] < weight[tap] for place, tap in sizes)
        groups = params["feature_group_count"] * params["batch_group_count"]
        return (_NAIVE if is_small or groups > 1 else _DENSE) * products
    return _ELEMENT * written
