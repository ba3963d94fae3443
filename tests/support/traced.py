"""A function that JAX traces once, to be evaluated by NumPy or compiled."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun

from lowering.host.evaluator import Evaluator, as_numpy, evaluator_of
from lowering.host.primitives import NotEvaluated


def canonical(leaf: Any) -> Any:
    """An argument in the dtype that JAX gives it. `jnp.asarray` compiles a program for each shape of NumPy's arrays."""
    if isinstance(leaf, np.ndarray | np.generic):
        return np.asarray(leaf, jax.dtypes.canonicalize_dtype(leaf.dtype))
    return jnp.asarray(leaf)


class Traced:
    """A function that JAX traces once, for arguments of the shapes and dtypes given.

    evaluated: NumPy's results for such arguments, as a first call of a user's has them; XLA's where the evaluator
    lacks a primitive. compiled: XLA's. result: shapes and dtypes.
    """

    def __init__(self, function: Callable[..., Any], *args: Any, **named: Any):
        leaves, tree = jax.tree.flatten((args, named))

        def traced(*arrays: Any) -> Any:
            args, named = jax.tree.unflatten(tree, arrays)
            return function(*args, **named)

        self.closed, self.result = jax.make_jaxpr(traced, return_shape=True)(*leaves)
        self.left = ""

    def takes(self, *args: Any) -> bool:
        """Whether arguments have the shapes and dtypes that were traced."""
        return self.closed.in_avals == [jax.typeof(canonical(leaf)) for leaf in jax.tree.leaves(args)]

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

    def compiled(self, *args: Any, **named: Any) -> Any:
        return self._results(self._compiled(*map(canonical, jax.tree.leaves((args, named)))))

    def evaluated(self, *args: Any, **named: Any) -> Any:
        if self.evaluator is None:
            return self.compiled(*args, **named)
        with np.errstate(all="ignore"):
            leaves = (as_numpy(canonical(leaf)) for leaf in jax.tree.leaves((args, named)))
            return self._results(self.evaluator(*leaves))

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


def evaluated(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """What a function gives, without a compilation for each of its primitives, which a call outside jit costs."""
    return Traced(function, *args, **named).evaluated(*args, **named)
