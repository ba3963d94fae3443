"""The walk over the operators: the table of rungs, which each ask one thing of a case or an operator, and the choice of
those that a run climbs.

A rung is a function that fails where something does not hold. `tests/ops/test_ladder.py` climbs all rungs, an operator
in each test; files of tests add theirs with `rung` and `operator_rung`.
"""

import zlib
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from time import process_time
from typing import Any, Literal, TypeVar

import jax
import numpy as np
import pytest

import lowering
from symjax_nnvm.ir.op import Op, list_unique_ops
from symjax_nnvm.symbol import Symbol
from tests.cases import Case, families
from tests.support import ladder
from tests.support.poison import poison
from tests.support.together import together
from tests.support.traced import Traced

KEY = jax.random.key(7)

Part = Literal["quick", "usual", "nightly", "all"]
"""Which rungs a run climbs. quick: those that say so, with one case. nightly: those that the usual run leaves out."""


T = TypeVar("T")


def _float() -> np.dtype:
    """The widest float of programs that are traced now."""
    return jax.dtypes.canonicalize_dtype(np.float64)


def part_of(marks: str) -> Part:
    """The part of the ladder that a choice of marks is about."""
    if marks == "quick" or marks == "nightly":
        return marks
    return "all" if "nightly" in marks else "usual"


class Walk:
    """A case of the table on its way up, with what several rungs need of it, each made once."""

    def __init__(self, family: str, case: Case, *, is_whole: bool):
        self.family, self.case, self.is_whole = family, case, is_whole
        self._made: dict[Hashable, Any] = {}

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What a function makes, which is asked for it once."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    @cached_property
    def symbol(self) -> Symbol:
        return ladder.build(self.case)

    @cached_property
    def names(self) -> list[str]:
        """Names of the arguments whose gradient the case checks."""
        return ladder.wrt(self.case, self.symbol)

    @cached_property
    def given(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], jax.Array]:
        """Arguments, auxiliary states, key."""
        return *ladder.arrays(self.case, self.symbol), KEY

    @cached_property
    def inferred(self) -> tuple[list[tuple[int, ...]], list[np.dtype]]:
        """Shapes and dtypes of the outputs, as inference has them."""
        args, aux, _ = self.given
        shapes = self.symbol.infer_shape(**{name: value.shape for name, value in (args | aux).items()})[1]
        dtypes = self.symbol.infer_type(**{name: value.dtype for name, value in (args | aux).items()})[1]
        return list(shapes), [np.dtype(dtype) for dtype in dtypes]

    @cached_property
    def golden(self) -> dict[str, np.ndarray]:
        """MXNet 1.9.1's arrays of the case."""
        return ladder.golden(self.family, self.case)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {f"in{i}": tensor.shape for i, tensor in enumerate(self.case.inputs)}

    @property
    def dtypes(self) -> dict[str, str]:
        return {f"in{i}": tensor.dtype for i, tensor in enumerate(self.case.inputs)}

    @property
    def is_wide(self) -> bool:
        return any(tensor.dtype in ("float64", "int64") for tensor in self.case.inputs)

    @property
    def function(self) -> Callable[..., Any]:
        """The case's function of (arguments, auxiliary states, key)."""
        return lowering.to_jax(self.symbol, is_train=self.case.is_train)

    def forward(self) -> Traced:
        """The case's function, traced once for all rungs that run it."""
        return self.once(("forward", _float()), lambda: Traced(self.function, *self.given))

    @property
    def traced(self) -> tuple[Any, Any]:
        """Shapes and dtypes of (outputs, new states), as a program has them that other rungs run, too."""
        if ("gradient", _float()) in self._made:
            outputs, _, new_aux = self.gradient().result
            return outputs, new_aux
        return self.forward().result

    def gradient(self) -> Traced:
        """The function of (arguments, auxiliary states, key, head gradients of its outputs' dtypes) that gives outputs,
        gradients and states, traced once while JAX has no autodiff."""

        def trace() -> Traced:
            heads = [
                jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(dtype))
                for shape, dtype in zip(*self.inferred, strict=True)
            ]
            with pytest.MonkeyPatch.context() as patch:
                poison(patch)
                return Traced(
                    lowering.grad_fn(self.symbol, self.names, is_train=self.case.is_train), *self.given, heads
                )

        return self.once(("gradient", _float()), trace)

    def run(self, program: Traced, *args: Any) -> Any:
        """The results of a program: evaluated by NumPy, as a user's first calls are, or compiled."""
        return (program.compiled if self.is_whole else program.evaluated)(*args)

    def gradient_for(self, heads: list[np.ndarray]) -> tuple[Traced, tuple[Any, ...]]:
        """That function for head gradients, and its arguments."""
        program, args = self.gradient(), (*self.given, heads)
        if not program.takes(*args):  # head gradients of another dtype than the outputs'
            program = Traced(lowering.grad_fn(self.symbol, self.names), *args)
        return program, args

    @cached_property
    def differentiated(self) -> Any:
        """(outputs, gradients, new states) for the head gradients that MXNet had."""
        program, args = self.gradient_for(
            self.case.head_grads([self.golden[f"out{i}"].shape for i in range(len(self.symbol))])
        )
        return self.run(program, *args)

    @property
    def values(self) -> Any:
        """(outputs, new states): those computed beside gradients, where there are; in 64 bits if the case has them."""
        if "differentiated" in self.__dict__ and not self.is_wide:
            outputs, _, new_aux = self.differentiated
            return outputs, new_aux
        with jax.enable_x64(self.is_wide):
            return self.run(self.forward(), *self.given)


@dataclass(frozen=True)
class Rung:
    """What is asked of an operator, or of some of its cases.

    cases: of an operator's cases those that it asks; None: it asks the operator itself. applies: which operators then.
    sampled: of cases that have it in common one is asked always. one_in: of so many operators one is asked always. The
    other cases and operators are asked at night.
    """

    name: str
    ask: Callable[[Any], None]
    cases: Callable[[list[Case]], list[Case]] | None
    applies: Callable[[Op], object] = bool
    sampled: Callable[[Case], Hashable] | None = None
    quick: bool = False
    one_in: int = 1

    def asks(self, op: str, part: Part) -> bool:
        """Whether the operator itself is asked."""
        if part == "quick":
            return self.quick
        return part == "all" or self._is_usual(op) == (part == "usual")

    def chosen(self, op: str, cases: list[Case], part: Part) -> set[str]:
        """The ids of an operator's cases that are asked."""
        asked = [] if self.cases is None else self.cases(cases)
        if part == "quick":
            return {case.id for case in asked[:1]} if self.quick else set()
        ids = {case.id for case in asked}
        if part == "all":
            return ids
        sampled = ids
        if self.sampled is not None:
            sampled = {case.id for case in {self.sampled(case): case for case in reversed(asked)}.values()}
        usual = sampled if self._is_usual(op) else set[str]()
        return usual if part == "usual" else ids - usual

    def _is_usual(self, op: str) -> bool:
        return zlib.crc32(f"{self.name} {op}".encode()) % self.one_in == 0


RUNGS: dict[str, Rung] = {}


def every(applies: Callable[[Case], object] = bool) -> Callable[[list[Case]], list[Case]]:
    """All cases to which a rung applies."""
    return lambda cases: list(filter(applies, cases))


def first(applies: Callable[[Case], object] = bool, count: int = 1) -> Callable[[list[Case]], list[Case]]:
    """The first cases of an operator to which a rung applies."""
    return lambda cases: list(islice(filter(applies, cases), count))


def rung(
    cases: Callable[[list[Case]], list[Case]],
    *,
    sampled: Callable[[Case], Hashable] | None = None,
    quick: bool = False,
    one_in: int = 1,
) -> Callable[[Callable[[Walk], None]], Callable[[Walk], None]]:
    """Add a function of a walk to the table; the fields are `Rung`'s."""

    def add(ask: Callable[[Walk], None]) -> Callable[[Walk], None]:
        RUNGS[ask.__name__] = Rung(ask.__name__, ask, cases, sampled=sampled, quick=quick, one_in=one_in)
        return ask

    return add


def operator_rung(
    applies: Callable[[Op], object], *, quick: bool = False, one_in: int = 1
) -> Callable[[Callable[[Op], None]], Callable[[Op], None]]:
    """Add a function of an operator to the table."""

    def add(ask: Callable[[Op], None]) -> Callable[[Op], None]:
        RUNGS[ask.__name__] = Rung(ask.__name__, ask, None, applies, quick=quick, one_in=one_in)
        return ask

    return add


CASES: dict[str, list[tuple[str, Case]]] = {}
"""Operator → its cases with their families; operators without cases last."""
for _family, _cases in families().items():
    for _case in _cases:
        CASES.setdefault(_case.op, []).append((_family, _case))
for _op in list_unique_ops():
    if not _op.name.startswith(("_test_", "Custom:")):  # not those of other tests
        CASES.setdefault(_op.name, [])


def climb(op: str, part: Part, *, only: str | None = None, is_whole: bool = False) -> dict[str, float]:
    """Ask every rung of a part, or one of any part; processor seconds of each. What fails is raised together."""
    if is_whole or (only and part != "quick"):
        part = "all"
    rungs = [r for r in RUNGS.values() if only in (None, r.name)]
    cases = [case for _, case in CASES[op]]
    chosen = {r.name: r.chosen(op, cases, part) for r in rungs}
    seconds: dict[str, float] = {}
    with together() as checks:

        def ask(r: Rung, subject: Walk | Op, place: str) -> None:
            start = process_time()
            with checks(f"{place}, rung {r.name}  (pytest tests/ops/test_ladder.py --rung {r.name} -k {op})"):
                r.ask(subject)
            seconds[r.name] = seconds.get(r.name, 0.0) + process_time() - start

        for family, case in CASES[op]:
            walk = Walk(family, case, is_whole=is_whole)
            for r in rungs:
                if case.id in chosen[r.name]:
                    ask(r, walk, case.id)
        if Op.exists(op):
            for r in rungs:
                if r.cases is None and r.asks(op, part) and r.applies(Op.get(op)):
                    ask(r, Op.get(op), op)
    return seconds
