"""What the rungs of the ladder share: a case as a symbol with named inputs, its goldens, its functions as traced."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun

from lowering.host.evaluator import Evaluator, as_numpy, evaluator_of
from lowering.host.table import NotEvaluated
from symjax_nnvm import symbol as sym
from symjax_nnvm.symbol import Symbol
from tests.cases import Case, families

GOLDENS = Path(__file__).parents[1] / "goldens"


def all_cases() -> list[tuple[str, Case]]:
    """(family, case) of the whole table."""
    return [(family, case) for family, cases in families().items() for case in cases]


def build(case: Case) -> Symbol:
    """The case's operator named `op`, on variables `in0`, `in1`, …."""
    inputs = [sym.Variable(f"in{i}") for i in range(len(case.inputs))]
    if case.graph is not None:
        with sym.NameManager():  # automatic names start at 0
            return case.graph(sym, *inputs)
    return getattr(sym, case.op)(*inputs, name="op", **case.params)


class Traced:
    """A function that JAX traces once, for arguments of the shapes and dtypes given.

    evaluated: NumPy's results for such arguments, as a first call of a user's has them; XLA's where the evaluator
    lacks a primitive. compiled: XLA's. result: shapes and dtypes.
    """

    def __init__(self, function: Callable[..., Any], *args: Any):
        leaves, tree = jax.tree.flatten(args)
        self.closed, self.result = jax.make_jaxpr(
            lambda *arrays: function(*jax.tree.unflatten(tree, arrays)), return_shape=True
        )(*leaves)
        self.left = ""

    def takes(self, *args: Any) -> bool:
        """Whether arguments have the shapes and dtypes that were traced."""
        return self.closed.in_avals == [jax.typeof(jnp.asarray(leaf)) for leaf in jax.tree.leaves(args)]

    @cached_property
    def evaluator(self) -> Evaluator | None:
        """None where a primitive, which `left` then names, is left to XLA."""
        try:
            return evaluator_of(self.closed)
        except NotEvaluated as error:
            self.left = str(error)
            return None

    @cached_property
    def _compiled(self) -> Callable[..., Any]:
        return jax.jit(jaxpr_as_fun(self.closed))

    def compiled(self, *args: Any) -> Any:
        return self._results(self._compiled(*map(jnp.asarray, jax.tree.leaves(args))))

    def evaluated(self, *args: Any) -> Any:
        if self.evaluator is None:
            return self.compiled(*args)
        with np.errstate(all="ignore"):
            return self._results(self.evaluator(*(as_numpy(jnp.asarray(leaf)) for leaf in jax.tree.leaves(args))))

    def _results(self, leaves: Any) -> Any:
        return jax.tree.unflatten(jax.tree.structure(self.result), leaves)


def equations(program: Traced) -> list[tuple[object, ...]]:
    """The equations of a program, those of its loops and branches included, with what each makes and reads."""
    listed: list[tuple[object, ...]] = []

    def walk(jaxpr: Any) -> None:
        numbers: dict[object, int] = {}
        for equation in jaxpr.eqns:
            ins = tuple(repr(v) if hasattr(v, "val") else numbers.setdefault(v, len(numbers)) for v in equation.invars)
            outs = tuple(str(v.aval) for v in equation.outvars)
            for v in equation.outvars:
                numbers.setdefault(v, len(numbers))
            inner = jax.tree.leaves(
                list(equation.params.values()), is_leaf=lambda x: hasattr(x, "eqns") or hasattr(x, "jaxpr")
            )
            bodies = [getattr(x, "jaxpr", x) for x in inner if hasattr(getattr(x, "jaxpr", x), "eqns")]
            params = () if bodies else tuple(f"{name}={value}" for name, value in equation.params.items())
            listed.append((equation.primitive.name, ins, outs, params))
            for body in bodies:
                walk(body)

    walk(program.closed.jaxpr)
    return listed


def arrays(case: Case, symbol: Symbol) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """(arguments, auxiliary states) of the case by name."""
    values = {f"in{i}": value for i, value in enumerate(case.values())}
    aux = set(symbol.list_auxiliary_states())
    return (
        {name: value for name, value in values.items() if name not in aux},
        {name: value for name, value in values.items() if name in aux},
    )


def wrt(case: Case, symbol: Symbol) -> list[str]:
    """Names of the arguments whose gradient the case checks."""
    floats = [i for i, tensor in enumerate(case.inputs) if tensor.dtype.startswith("float")]
    arguments = symbol.list_arguments()
    return [f"in{i}" for i in (floats if case.wrt is None else case.wrt) if f"in{i}" in arguments]


@cache
def _archive(family: str) -> Any:
    return np.load(GOLDENS / "operators" / f"{family.replace('.', '/')}.npz", allow_pickle=False)


def golden(family: str, case: Case) -> dict[str, np.ndarray]:
    """MXNet 1.9.1's arrays of the case: out0, …, grad0, …, aux3, …."""
    prefix = f"{case.id}|"
    archive = _archive(family)
    found = {key.removeprefix(prefix): archive[key] for key in archive.files if key.startswith(prefix)}
    assert found, f"no golden for {case.id}: run tests/goldens/make.py {family}, or say why there is none (no_mxnet)"
    return found
