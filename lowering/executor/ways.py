"""`Ways`: the functions of a network's first calls, and those of all later ones.

The first are made for any platform, and are evaluated or compiled quickly; the others are made for theirs and compiled
fully. A call takes all its parts from one of them: what a forward pass leaves is read by the backward pass of the same.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from lowering.core.cache import Programs
from lowering.core.options import first_options
from lowering.executor.functions import ExecutorFunctions
from lowering.host.staged import Account, checked_effort, chosen_effort, may_be_quick, may_evaluate
from lowering.xla.platforms import current_platform
from symjax_nnvm.pipeline import Options
from symjax_nnvm.recent import Recent

_KEPT = 256
"""Signatures whose functions are known, those called last."""


class Ways:
    """Holds the functions of one network for one choice of arguments to differentiate.

    programs, options: as `ExecutorFunctions` takes them. effort: "auto", "quick" or "full"; None: that of the block in
    which a call is made.
    """

    def __init__(self, programs: Programs, options: Options, effort: str | None = None):
        self._programs, self._options, self._effort = programs, options, checked_effort(effort)
        self._chosen: Recent[Any, ExecutorFunctions] = Recent(_KEPT)
        self._moved_up: set[Any] = set()

    @cached_property
    def full(self) -> ExecutorFunctions:
        """The functions that are compiled fully."""
        return ExecutorFunctions(self._programs, self._options)

    def functions(self, kinds: Any) -> ExecutorFunctions:
        """The functions of the next call whose arrays have these shapes and dtypes. Raises the errors of the
        pipeline."""
        effort = chosen_effort(self._effort)
        if effort == "full" or self._first is None or (effort == "auto" and not self._may_start):
            return self.full
        if (effort, kinds) in self._moved_up:  # however many others were called since: its programs are there
            return self.full
        chosen = self._chosen.get((effort, kinds))
        if chosen is None:
            chosen = ExecutorFunctions(self._programs, self._first, True, Account() if effort == "auto" else None)
            self._chosen[effort, kinds] = chosen
            moves_up = chosen.calls_python
        else:
            moves_up = chosen.is_due
        if moves_up:
            self._moved_up.add((effort, kinds))
        return self.full if moves_up else chosen

    @cached_property
    def _first(self) -> Options | None:
        return first_options(self._options)

    @property
    def _may_start(self) -> bool:
        """Return whether first calls have a way of their own here."""
        return may_be_quick() if (self._options.platform or current_platform()) == "gpu" else may_evaluate()
