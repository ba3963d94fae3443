"""`Programs`: the programs of one network, built on first use and kept. Every entry point of the library uses it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lowering.convolutions.backends import placed
from lowering.core.gradient_program import GradientProgram
from lowering.core.inference import Inference
from lowering.core.node_keys import with_places
from lowering.core.program import Program
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.types import Shape
from symjax_nnvm.pipeline import Options, Pipeline, Plan
from symjax_nnvm.recent import Recent
from symjax_nnvm.symbol.symbol import Symbol

__all__ = ["Programs"]

_KEPT = 16
"""How many programs are kept. A Predictor makes one or two for each signature, and needs none once it is compiled."""


class Programs:
    """The programs of a symbol, one for each set of options that make another; those used last are kept.

    symbol: the network, which must not change afterwards. mixes_dtypes: as of `Inference`. Raises what the stages of
    the pipeline raise, and LoweringError for operators without a rule.
    """

    def __init__(self, symbol: Symbol, mixes_dtypes: bool = True):
        self.symbol, self._mixes_dtypes = symbol, mixes_dtypes
        self.pipeline = Pipeline(with_places(symbol.outputs))
        self._programs: Recent[Options, Program | GradientProgram] = Recent(_KEPT)
        self._inferences: Recent[int, Inference] = Recent(_KEPT)  # by the graph's id; each holds its graph

    def plan(self, options: Options) -> Plan:
        """Return the graph that the stages make, and a record of each stage."""
        return self.pipeline.plan(placed(options))

    def forward(self, options: Options) -> Program:
        """Return the program of the outputs; options without wrt."""
        program = self._program(options)
        assert isinstance(program, Program)
        return program

    def as_given(self, options: Options) -> Program:
        """Return the program of the network itself, before any stage of the pipeline."""
        graph = self.pipeline.graph
        return Program(graph, placed(options), inference=Inference(graph, mixes_dtypes=self._mixes_dtypes))

    def gradient(self, options: Options, arrays: Mapping[str, Any] | None = None) -> GradientProgram:
        """Return the program of outputs and gradients. arrays: by name, where a stage needs their shapes."""
        if arrays is not None and options.mirror == "blocks":
            shapes: tuple[tuple[str, Shape], ...] = tuple((name, np.shape(array)) for name, array in arrays.items())
            options = replace(options, shapes=shapes)
        program = self._program(options)
        assert isinstance(program, GradientProgram)
        return program

    def precompute(self, options: Options, names: Sequence[str] | None = None) -> Program | None:
        """Return the program of the values computed once for these options: those of the variables that `forward` has
        in place of entries that depend on `options.constants` alone, in the order of
        `plan(options).precompute.attrs["names"]`, or of `names`, which are some of them. Its arguments are the
        constants that they are made of, states among them. None where there are none."""
        options = placed(options)
        graph = self.plan(options).precompute
        if graph is None or names is None:
            return None if graph is None else Program(graph, options)
        entries = dict(zip(graph.attrs["names"], graph.outputs, strict=True))
        return Program(Graph([entries[name] for name in names]), options) if names else None

    def _program(self, options: Options) -> Program | GradientProgram:
        options = placed(options)
        kept_program = self._programs.get(options)
        if kept_program is None:
            plan = self.plan(options)
            network = self.pipeline.graph if options.wrt is None else None
            inference = self._inferences.get(id(plan.graph))
            if inference is None:
                inference = Inference(plan.graph, self.pipeline.graph, self._mixes_dtypes)
                self._inferences[id(plan.graph)] = inference
            program = Program(plan.graph, options, beside=plan.head_grads, inference=inference, network=network)
            kept_program = self._programs[options] = program if options.wrt is None else GradientProgram(program, plan)
        return kept_program
