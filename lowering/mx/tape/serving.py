"""A hybridised network in inference is served by a `Predictor`, as long as its parameters do not change."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import jax

from lowering.core.cache import Programs
from lowering.core.inference import refuse_mixed
from lowering.mx.context import Context
from lowering.serving.predictor import Predictor
from symjax_nnvm.inspect.roles import label_variables
from symjax_nnvm.pipeline import Options
from symjax_nnvm.symbol.symbol import Symbol

PATIENCE = 64
"""Calls in inference with unchanged parameters, before a Predictor is made again of parameters that had changed."""

MORE_PATIENCE = 8
"""Each change of parameters multiplies the number of calls before the next Predictor by this factor."""


class Serving:
    """Serves a network in inference: by a `Predictor` of its parameters, as long as they do not change.

    The first parameters get one at once. Those that come after a change get one when they have stayed the same for
    some calls, which are more each time: a network that is validated while it trains does without.
    """

    def __init__(self, symbol: Symbol, programs: Programs, names: Sequence[str], is_data: Sequence[bool]):
        self._symbol, self._programs, self._names, self._is_data = symbol, programs, names, is_data
        self._states = frozenset(symbol.list_auxiliary_states())
        self._parameters: list[jax.Array] = []
        self._predictor: Predictor | None = None
        self._dtypes: set[tuple[Any, ...]] = set()
        """Of inputs that fit the parameters'."""
        self._calls = self._patience = 0

    def outputs(self, values: Sequence[jax.Array], context: Context) -> list[jax.Array] | None:
        """Return the outputs, or None where no Predictor serves."""
        if context.device is not None or not self.may_serve:
            return None
        parameters = [value for value, data in zip(values, self._is_data, strict=True) if not data]
        if len(parameters) != len(self._parameters) or any(
            new is not old for new, old in zip(parameters, self._parameters, strict=True)
        ):
            self.forget()
            self._parameters = parameters
        self._calls += 1
        predictor = self._predictor
        if predictor is None:
            if self._calls <= self._patience:
                return None
            named = {n: v for n, v, data in zip(self._names, values, self._is_data, strict=True) if not data}
            args = {name: value for name, value in named.items() if name not in self._states}
            aux = {name: value for name, value in named.items() if name in self._states}
            predictor = self._predictor = Predictor(self._symbol, args, aux, effort="full")
        inputs = {n: v for n, v, data in zip(self._names, values, self._is_data, strict=True) if data}
        dtypes = tuple(value.dtype for value in inputs.values())
        if dtypes not in self._dtypes:
            network = self._programs.pipeline.graph
            refuse_mixed(network, {n: v.dtype.name for n, v in zip(self._names, values, strict=True)})
            self._dtypes.add(dtypes)
        return predictor(**inputs)

    def forget(self) -> None:
        """Free the parameters, which change or are about to: what comes next waits."""
        if self._parameters:
            self._patience = max(PATIENCE, MORE_PATIENCE * self._patience if self._predictor else self._patience)
        self._parameters, self._predictor, self._calls = [], None, 0
        self._dtypes.clear()

    @cached_property
    def may_serve(self) -> bool:
        """Return whether a Predictor computes the same: not of graphs that draw, call Python or read labels."""
        program = self._programs.forward(Options())
        labels = label_variables(self._symbol)
        return any(self._is_data) and not (program.needs_key or program.segments or labels)
