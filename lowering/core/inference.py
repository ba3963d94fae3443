"""Shapes and dtypes of all entries of a program, inferred once before any rule runs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from lowering.native.unpromised import UndecidedSizeError
from symjax_nnvm.check.remedies import dtype_remedy, shape_remedy
from symjax_nnvm.errors import InferenceError, NarrowedDtypeWarning
from symjax_nnvm.inspect.footprint import check_workspaces
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.listing import variables
from symjax_nnvm.ir.pass_registry import apply_pass
from symjax_nnvm.ir.rules.size_symbols import decide_by
from symjax_nnvm.ir.types import DTYPE_CODES, DType, DTypeList, Shape, ShapeList
from symjax_nnvm.passes.infer import infer_shape, infer_type
from symjax_nnvm.passes.infer.wide_dtypes import asking_for_64_bits, may_ask_for_64_bits
from symjax_nnvm.symbol.symbol import Symbol

decide_by(UndecidedSizeError)

_KEPT = 64
"""The number of results that are kept: a program with more shapes than that is traced anew anyway."""


class Inferred(NamedTuple):
    """Holds shapes and dtypes of all entries, None where undecided; dtypes only where something reads them."""

    shapes: Sequence[Shape | None]
    dtypes: Sequence[DType | None]


def _holds(inferred: DType | None, dtype: DType) -> bool:
    """Return whether a dtype is the inferred one, or its 32-bit form where JAX's 64-bit mode is off."""
    return inferred in (dtype, None) or (
        inferred in ("int64", "uint64", "float64") and jax.dtypes.canonicalize_dtype(inferred).name == dtype
    )


class Inference:
    """Runs inference over the graph of a program, before its rules run, so that a contradiction is reported in the
    graph's terms and not in JAX's.

    A result is looked up by the arrays that have values: the variables, or those that the forward part left. Results
    are kept, and one that agrees with all these arrays is taken: forward and backward part, and an executor that was
    bound with its shapes, share one. network: the graph that it was made of; an error that this graph has, too, is
    reported by its names. mixes_dtypes: whether arrays of dtypes that contradict the network are computed with, in the
    dtype to which JAX promotes them. reads_dtypes: whether some rule wants dtypes inferred, too.
    """

    def __init__(self, graph: Graph, network: Graph | None = None, mixes_dtypes: bool = True):
        self._graph = graph
        self._network = graph if network is None else network
        self._index = graph.indexed_graph()
        self._mixes_dtypes = mixes_dtypes
        self.reads_dtypes = False
        self._known: list[Inferred] = []
        self._narrowing_told = False

    def of_environment(self, env: Sequence[Any]) -> Inferred:
        """Infer all shapes from the arrays in an environment. Raises InferenceError."""
        arrays = [(eid, env[eid]) for eid in range(self._index.num_node_entries) if env[eid] is not None]
        return self.of_arrays({eid: (value.shape, value.dtype.name) for eid, value in arrays})

    def of_variables(self, arrays: Mapping[str, tuple[Shape, DType]]) -> Inferred:
        """Infer all shapes from shape and dtype of variables by name. Raises InferenceError."""
        index = self._index
        named = ((index.entry_rptr[nid], index.nodes[nid].source.name) for nid in index.input_nodes)
        return self.of_arrays({eid: arrays[name] for eid, name in named if name in arrays})

    def of_arrays(self, arrays: Mapping[int, tuple[Shape, DType]]) -> Inferred:
        """Infer all shapes from shape and dtype of some entries by number. Raises InferenceError."""
        for place, inferred in enumerate(self._known):
            if self._agrees(inferred, arrays):
                self._known.insert(0, self._known.pop(place))
                return inferred
        shapes = self._infer(arrays)
        self._known = [shapes, *self._known[: _KEPT - 1]]
        return shapes

    def _agrees(self, inferred: Inferred, arrays: Mapping[int, tuple[Shape, DType]]) -> bool:
        return all(
            inferred.shapes[eid] == shape and _holds(inferred.dtypes[eid], dtype)
            for eid, (shape, dtype) in arrays.items()
        )

    def _infer(self, arrays: Mapping[int, tuple[Shape, DType]]) -> Inferred:
        shapes = ShapeList([None] * self._index.num_node_entries)
        dtypes = DTypeList([None] * self._index.num_node_entries)
        for eid, (shape, dtype) in arrays.items():
            shapes[eid] = shape
            dtypes[eid] = dtype if dtype in DTYPE_CODES else None
        try:
            graph = apply_pass(self._graph.derive(attrs={"shape": shapes}), "MXInferShape")
            check_workspaces(graph)
        except InferenceError as error:
            known_shapes = self._of_inputs(lambda eid: shapes[eid])
            error = self._in_its_terms(error, lambda: infer_shape(self._network, shapes=known_shapes))
            raise with_remedy(error, shape_remedy(Symbol(self._network.outputs), known_shapes)) from None
        shapes = graph.attrs["shape"]
        if not self._mixes_dtypes:
            refuse_mixed(self._network, self._of_inputs(lambda eid: dtypes[eid]))
        if self.reads_dtypes or any(shape is not None and 0 in shape for shape in shapes):
            dtypes = apply_pass(self._graph.derive(attrs={"dtype": dtypes}), "MXInferType").attrs["dtype"]
        return Inferred(shapes, dtypes)

    def check_dtypes(self, env: Any) -> None:
        """Infer dtypes after a rule has failed: a dtype that does not fit is best reported by the graph's names.

        Raises InferenceError.
        """
        dtypes = DTypeList([None] * self._index.num_node_entries)
        for nid in self._index.input_nodes:
            value = env[self._index.entry_rptr[nid]]
            if value is not None and value.dtype.name in DTYPE_CODES:
                dtypes[self._index.entry_rptr[nid]] = value.dtype.name
        try:
            apply_pass(self._graph.derive(attrs={"dtype": dtypes}), "MXInferType")
        except InferenceError as error:
            known_dtypes = self._of_inputs(lambda eid: dtypes[eid])
            error = self._in_its_terms(error, lambda: infer_type(self._network, dtypes=known_dtypes))
            raise with_remedy(error, dtype_remedy(Symbol(self._network.outputs), known_dtypes)) from None

    def _in_its_terms(self, error: InferenceError, infer: Callable[[], Any]) -> InferenceError:
        """Return the same error of the network that the graph was made of, if the network has it."""
        try:
            if self._network is not self._graph:
                infer()
        except InferenceError as network_error:
            return network_error
        return error

    def _of_inputs(self, value_of: Callable[[int], Any]) -> dict[str, Any]:
        """Return the known values of the variables, by name. value_of: an entry's number → its value, or None."""
        index = self._index
        names = {node.name for node in variables(self._network.nodes())}
        values = ((index.nodes[nid].source.name, value_of(index.entry_rptr[nid])) for nid in index.input_nodes)
        return {name: value for name, value in values if value is not None and name in names}

    def warn_of_narrowing(self) -> None:
        """Warn, once, of the nodes whose attributes request 64 bits where JAX has only 32."""
        warned, self._narrowing_told = self._narrowing_told, True
        if warned or jax.dtypes.canonicalize_dtype(np.float64) == np.float64 or not may_ask_for_64_bits(self._graph):
            return
        try:
            inferred = apply_pass(self._graph.derive(attrs={"dtype_attr_key": "__dtype__"}), "MXInferType")
        except InferenceError:
            return  # what does not fit together is reported where the arrays' dtypes are known
        asking = [f"{node.name!r} ({dtype})" for node, dtype in asking_for_64_bits(inferred)]
        if asking:
            origins = ", ".join(asking[:5]) + (f" and {len(asking) - 5} more" if len(asking) > 5 else "")
            warnings.warn(
                f"The graph asks for 64-bit numbers and runs in 32 bits: nodes {origins}. For 64 bits run it inside "
                "`with jax.enable_x64(True):`, or set the environment variable JAX_ENABLE_X64=1.",
                NarrowedDtypeWarning,
                stacklevel=6,
            )


def refuse_mixed(network: Graph, dtypes: Mapping[str, DType]) -> None:
    """Raise InferenceError where dtypes of variables, by name, contradict a network: MXNet mixes none."""
    narrowed = jax.dtypes.canonicalize_dtype(np.float64) != np.float64
    known_dtypes = {name: dtype for name, dtype in dtypes.items() if dtype in DTYPE_CODES}
    try:
        infer_type(network, dtypes=known_dtypes, attr_key=None, narrowed=narrowed)
    except InferenceError as error:
        raise with_remedy(error, dtype_remedy(Symbol(network.outputs), dtypes)) from None


def with_remedy(error: InferenceError, remedy: str) -> InferenceError:
    """Return the error with a way out at its end."""
    return InferenceError(f"{error} {remedy}".rstrip(), error.node)
