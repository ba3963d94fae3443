"""The JAX rule of each operator, kept as an operator attribute.

A rule is `rule(params, *inputs) -> output | tuple of outputs`, a pure JAX function. An operator that mutates inputs
returns its outputs followed by the new values of those inputs, in the order of FMutateInputs. A rule declares what it
needs besides parameters and inputs, and receives it as keywords: `@lowers("Dropout", needs=("key", "is_train"))`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

from symjax_nnvm.ir import attributes
from symjax_nnvm.ir.attributes import FDraws, TWritesInForward, with_twin
from symjax_nnvm.ir.node import NodeAttrs
from symjax_nnvm.ir.op import Op, OpMap
from symjax_nnvm.ir.rules.size_symbols import is_open
from symjax_nnvm.ops.custom import custom_name

Rule = Callable[..., Any]

Need = Literal[
    "key",
    "is_train",
    "platform",
    "algorithm",
    "out_shapes",
    "out_dtypes",
    "attrs",
    "programs",
    "reversible",
    "mesh",
    "requests",
]
"""The values that a rule may need: its own PRNG key; the static train flag; the platform's name ("cpu", "gpu",
"tpu"); the algorithm that ChooseAlgorithm chose, or chooses now that shapes are known, of an operator with FAlgorithm;
the inferred shapes / dtypes of the outputs (None where undecided); the node's NodeAttrs; its subgraphs, each as a
`Program`; whether JAX is going to differentiate the function in reverse, as the gradient witness does; the mesh of
devices to which shardings refer, or None; of each output "null" where nothing reads it, "add" and an array where it is
to be the sum with that array, else "write", of Python that runs between programs."""


class ByPart(NamedTuple):
    """Marks a rule that loops over the samples of a batch on a CPU and has one result: a mesh can split it.

    samples: the inputs with samples along the first axis. summed: the result is a sum over samples; else it has samples
    along its first axis.
    """

    samples: tuple[int, ...]
    summed: bool = False


class Numbers(NamedTuple):
    """Marks a rule that needs sizes as numbers. reason: why. axes: those of its first input; None: all."""

    reason: str
    axes: tuple[int, ...] | None = None

    def are_missing(self, shape: Sequence[int]) -> bool:
        """Return whether a size that has to be a number was left open."""
        axes = range(len(shape)) if self.axes is None else self.axes
        return any(is_open(shape[axis]) for axis in axes if -len(shape) <= axis < len(shape))


@dataclass(frozen=True)
class LoweringRule:
    """A rule and its needs besides parameters and inputs.

    draws: (parameters, is_train) → whether a rule that needs a key draws random numbers then, as the operator's card
    declares (FDraws); None, without a declaration: always, or, for a rule that needs programs, when one of them draws.
    Where it draws nothing it receives no key, so that a graph which happens to draw nothing runs without one. by_part:
    how devices share its work, where XLA cannot split it (`lowering/core/mesh_parts.py`). python: it is Python on
    arrays that have values, and returns a `PythonCall`. by_values: parameters → whether it reads values of its inputs:
    then it runs between programs, as Python does. numbers: which sizes an exported program cannot leave open, and why.
    changing: parameters that may be arrays of one element, or tuples of such: what callers change from call to call.
    one_by_one: each number that it draws depends on its place alone, so that the first of many are those of few.
    """

    rule: Rule
    needs: tuple[Need, ...] = ()
    draws: Callable[[Any, bool], bool] | None = None
    by_part: ByPart | None = None
    python: bool = False
    by_values: Callable[[Any], bool] | None = None
    numbers: Numbers | None = None
    changing: tuple[str, ...] = ()
    one_by_one: bool = False

    def runs_apart(self, params: Any) -> bool:
        """Return whether an operator of these parameters runs between programs, where arrays have values."""
        return self.python or (self.by_values is not None and self.by_values(params))

    def keeping(self, states: Sequence[int]) -> LoweringRule:
        """Return the rule that leaves these inputs, which the operator mutates, as they are."""

        def keeping(params: Any, *inputs: Any, **extra: Any) -> tuple[Any, ...]:
            results = self.rule(params, *inputs, **extra)
            return *results[: -len(states)], *(inputs[i] for i in states)

        return replace(self, rule=keeping)


FLowering: OpMap[LoweringRule] = attributes.FLowering
"""The operator attribute that holds the rules."""


def writes_in_backward(op: Op | None) -> bool:
    """Return whether an operator's states are written in the backward part of a training step: true for operators that
    read is_train, such as BatchNorm, as in MXNet."""
    return op is not None and "is_train" in FLowering[op].needs and op not in TWritesInForward


def lowers(
    *names: str,
    needs: Sequence[Need] = (),
    by_part: ByPart | None = None,
    python: bool = False,
    by_values: Callable[[Any], bool] | None = None,
    numbers: Numbers | None = None,
    changing: Sequence[str] = (),
    one_by_one: bool = False,
) -> Callable[[Rule], Rule]:
    """Register the decorated function as the lowering rule of operators and of their twins.

    Args:
        names: the operators' names.
        needs: what the rule gets as keyword arguments besides parameters and inputs: see `Need`.
        by_part: the rule loops over the samples of a batch on a CPU; a mesh can then split the batch.
        python: the rule is Python on arrays that have values, and returns a `PythonCall`.
        by_values: parameters → whether the rule reads values of its inputs, on which shapes or errors depend. Programs
            then run in segments; where one is traced as a whole, the rule raises an error or does without.
        numbers: the sizes that an exported program cannot leave open, and why.
        changing: parameters that may be arrays of one element, or tuples of such, since callers change them with each
            call.
        one_by_one: each random number depends on its place alone: the first numbers of a large draw are those of a
            small one.

    Raises:
        TypeError: `needs` has a word that is not in `Need`.
        OpNotRegisteredError: no operator has one of the names.
    """
    unknown = set(needs) - set(get_args(Need))
    if unknown:
        raise TypeError(f"a rule cannot need {sorted(unknown)}; it can need {get_args(Need)}")

    def register(rule: Rule) -> Rule:
        for op in (op for name in names for op in with_twin(name)):
            draws = _draws(op) if "key" in needs and op in FDraws else None
            facts = (tuple(needs), draws, by_part, python, by_values, numbers, tuple(changing), one_by_one)
            op.set_attr("FLowering", LoweringRule(rule, *facts))
        return rule

    return register


def _draws(op: Op) -> Callable[[Any, bool], bool]:
    """Return when an operator draws, by its card."""

    def draws(p: Any, is_train: bool) -> bool:
        attrs = NodeAttrs(op, "")
        attrs.parsed = p
        when = FDraws[op](attrs)
        return when == "always" or (when == "training" and is_train)

    return draws


def lowers_custom(op_type: str, needs: Sequence[Need] = ()) -> Callable[[Rule], Rule]:
    """Register the decorated function as the lowering rule of the operator that `Custom(op_type=…)` runs.

    Args:
        op_type: the type's name, as in `register_custom`.
        needs: as in `lowers`.
    """
    return lowers(custom_name(op_type), needs=needs)


def lowers_table(rules: Mapping[str, Rule]) -> None:
    """Register rules that take no parameters, `inputs -> output`: one row each."""
    for name, function in rules.items():
        lowers(name)(_without_params(function))


def _without_params(function: Rule) -> Rule:
    return lambda p, *inputs: function(*inputs)
