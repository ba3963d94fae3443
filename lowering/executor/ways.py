"""`Ways`: the functions of a network's first calls, and those of all later ones.

The first are made for any platform, and are evaluated or compiled quickly; the others are made for theirs and compiled
fully. A call takes all its parts from one of them: what a forward pass leaves is read by the backward pass of the same.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from lowering.core.cache import Programs
from lowering.core.chosen_options import first_options
from lowering.executor.jitted_functions import ExecutorFunctions
from lowering.host.open_sizes import OpenTraces
from lowering.host.staged import checked_effort, chosen_effort, may_be_quick, may_evaluate
from lowering.xla.platforms import current_platform
from symjax_nnvm.pipeline import Options
from symjax_nnvm.recent import Recent

_KEPT = 4096
"""Signatures whose functions are known, those called last. Their programs are in the bound of all."""


class Ways:
    """The functions of one network for one choice of arguments to differentiate.

    programs, options: as `ExecutorFunctions` takes them. effort: "auto", "quick" or "full"; None: that of the block in
    which a call is made.
    """

    def __init__(self, programs: Programs, options: Options, effort: str | None = None):
        self._programs, self._options, self._effort = programs, options, checked_effort(effort)
        self._full: ExecutorFunctions | None = None
        self._traces: dict[Any, OpenTraces] = {}
        self._chosen: Recent[Any, ExecutorFunctions] = Recent(_KEPT)

    @property
    def full(self) -> ExecutorFunctions:
        """The functions that are compiled fully at the first call of each signature."""
        if self._full is None or self._full.is_forgotten:
            self._full = ExecutorFunctions(self._programs, self._options)
        return self._full

    def functions(self, kinds: Any) -> ExecutorFunctions:
        """The functions of the next call whose arrays have these shapes and dtypes. Raises the errors of the
        pipeline."""
        effort = chosen_effort(self._effort)
        if effort == "full" or self._first is None or (effort == "auto" and not self._may_start):
            return self.full
        chosen = self._chosen.get((effort, kinds))
        if chosen is None or chosen.is_forgotten:
            chosen = ExecutorFunctions(self._programs, self._first, True, self._traces if effort == "auto" else None)
            if chosen.begins:
                self._chosen[effort, kinds] = chosen
                return chosen
        elif not chosen.is_due:
            return chosen
        self._chosen[effort, kinds] = chosen = ExecutorFunctions(self._programs, self._options)
        return chosen

    def lines(self) -> list[str]:
        """Return lines of text: how the calls of each batch's shapes run that train."""
        functions = dict.fromkeys([self._full, *(chosen for _, chosen in self._chosen.items())])
        return [line for function in functions if function is not None for line in function.ways()]

    @cached_property
    def _first(self) -> Options | None:
        return first_options(self._options)

    @property
    def _may_start(self) -> bool:
        """Return whether first calls have a way of their own here."""
        return may_be_quick() if (self._options.platform or current_platform()) == "gpu" else may_evaluate()
