"""A hybridised network in inference is served by a `Predictor`, as long as its parameters do not change."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from operator import is_
from typing import Any

import jax

from lowering.core.cache import Programs
from lowering.core.inference import refuse_mixed
from lowering.mx.context import Context
from lowering.mx.tape import policy
from lowering.serving.predictor import Predictor
from symjax_nnvm.inspect.roles import label_variables
from symjax_nnvm.pipeline import Options
from symjax_nnvm.symbol.symbol import Symbol


class Serving:
    """Serves a network in inference: by a `Predictor` of its parameters, as long as they do not change.

    The first parameters get one at once. Those that come after a change get one when they have stayed the same for
    some calls, which are more each time: a network that is validated while it trains does without.
    """

    def __init__(self, symbol: Symbol, programs: Programs, data_names: Collection[str]):
        self._symbol, self._programs, self._names = symbol, programs, symbol.list_inputs()
        self._states = frozenset(symbol.list_auxiliary_states())
        self._data = [i for i, name in enumerate(self._names) if name in data_names]
        self._others = [i for i, name in enumerate(self._names) if name not in data_names]
        self._parameters: list[jax.Array] = []
        self._predictor: Predictor | None = None
        self._dtypes: set[tuple[Any, ...]] = set()
        """Of inputs that fit the parameters'."""
        self._calls = self._patience = 0

    def outputs(self, values: Sequence[jax.Array], context: Context) -> list[jax.Array] | None:
        """Return the outputs, or None where no Predictor serves."""
        if context.device is not None or not self.may_serve:
            return None
        parameters = [values[i] for i in self._others]
        if len(parameters) != len(self._parameters) or not all(map(is_, parameters, self._parameters)):
            self.forget()
            self._parameters = parameters
        self._calls += 1
        if self._predictor is None:
            if self._calls <= self._patience:
                return None
            named = {self._names[i]: values[i] for i in self._others}
            aux = {name: value for name, value in named.items() if name in self._states}
            args = {name: value for name, value in named.items() if name not in aux}
            self._predictor = Predictor(self._symbol, args, aux, effort="full")
        inputs = {self._names[i]: values[i] for i in self._data}
        dtypes = tuple([value.dtype for value in inputs.values()])
        if dtypes not in self._dtypes:
            named_dtypes = {name: value.dtype.name for name, value in zip(self._names, values, strict=True)}
            refuse_mixed(self._programs.pipeline.graph, named_dtypes)
            self._dtypes.add(dtypes)
        return self._predictor(**inputs)

    def forget(self) -> None:
        """Free the parameters, which change or are about to: what comes next waits."""
        if self._parameters:
            later = policy.SERVED_LATER if self._predictor else 1
            self._patience = max(policy.SERVED_AFTER, later * self._patience)
        self._parameters, self._predictor, self._calls = [], None, 0
        self._dtypes.clear()

    @cached_property
    def may_serve(self) -> bool:
        """Return whether a Predictor computes the same: not of graphs that draw, call Python or read labels."""
        program = self._programs.forward(Options())
        labels = label_variables(self._symbol)
        return bool(self._data) and not (program.needs_key or program.segments or labels)
