"""`Predictor`: a trained network as it is served. What depends on parameters alone is computed once and kept."""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Literal, NamedTuple, Self, SupportsIndex

import jax
import jax.numpy as jnp
import numpy as np

from lowering.arguments import misfit, require_key, require_named, require_symbol, shapes_by_name
from lowering.batching import predict_batches
from lowering.kept import Kept
from lowering.mxnet_words import takes_our_words
from lowering.programs import Programs
from lowering.xla_options import jit
from symjax_nnvm.errors import LoweringError, listed
from symjax_nnvm.ir.types import DType, Shape
from symjax_nnvm.mxnet.checkpoint import load_checkpoint
from symjax_nnvm.passes.infer import infer_type
from symjax_nnvm.pipeline import Options, Plan
from symjax_nnvm.roles import label_variables
from symjax_nnvm.surgery import inference_symbol
from symjax_nnvm.symbol.symbol import Symbol

__all__ = ["Predictor"]

Arrays = Mapping[str, Any]
Inputs = Mapping[str, tuple[Shape, DType]]

_NEW = "predict = lowering.Predictor(net, args, aux); outputs = predict(data=x)"
_WARM = "predict.warm(data=(1, 3, 224, 224))"


class _Ready(NamedTuple):
    """One signature: what runs it, what that takes besides the inputs, and the plan it was made by."""

    executable: jax.stages.Compiled
    held: dict[str, jax.Array]
    plan: Plan


class Predictor:
    """A network with its parameters, as a function of its data: `predict(data=x)` → list of outputs.

    args, aux: arrays by name, which do not change; the arguments that are not among them are the inputs of every call.
    Training heads without a label are what they compute (`inference_symbol`). Parameters are folded, and all else that
    depends on them alone is computed, once, on the device; the rest is compiled once for every combination of input
    shapes and dtypes, by the algorithms that are fastest for them. Signatures share what they compute alike. States
    that the network writes keep the values given. May be called from many threads.

    platform: "cpu", "gpu" or "tpu"; default the one JAX runs on. dtype: "bfloat16" or "float16" for matrix products and
    convolutions. symbol: the network as it runs; inputs: names of what calls give; plan: what the pipeline made.

    Raises LoweringError for arrays that are missing or unknown, CallError for what is no symbol or no dict, and what
    the stages of the pipeline raise.
    """

    @takes_our_words("Predictor", _NEW)
    def __init__(
        self,
        symbol: Symbol,
        args: Arrays,
        aux: Arrays | None = None,
        *,
        platform: str | None = None,
        dtype: Literal["bfloat16", "float16"] | None = None,
    ):
        args = require_named(args, "args", _NEW)
        aux = require_named({} if aux is None else aux, "aux", _NEW)
        labels = {node.name for node in label_variables(require_symbol(symbol, "Predictor"))}
        self.symbol = symbol if labels.issubset(args) else inference_symbol(symbol)
        self._labels = labels.difference(self.symbol.list_arguments())
        self.inputs = [name for name in self.symbol.list_arguments() if name not in args]
        if {*args, *self.inputs} != set(self.symbol.list_arguments()) or set(aux) != self._states:
            raise misfit(self.symbol, {*args, *self.inputs}, aux)
        self._here = jax.sharding.SingleDeviceSharding(jax.devices(platform)[0])
        self._options = Options(platform=platform, precision=dtype, constants=frozenset(args) | frozenset(aux))
        self._programs = Programs(self.symbol)
        self._needs_key = self._programs.forward(self._options).needs_key
        self._kept = Kept({**args, **aux}, self._here, platform)
        self._ready: dict[Hashable, _Ready] = {}
        self._making = threading.Lock()

    @classmethod
    def load(cls, prefix: str | os.PathLike[str], epoch: SupportsIndex | str, **options: Any) -> Self:
        """The predictor of `prefix-symbol.json` and `prefix-0000.params`. options: of Predictor.

        Raises what `symjax_nnvm.load_checkpoint` and Predictor raise.
        """
        return cls(*load_checkpoint(prefix, epoch), **options)

    @property
    def plan(self) -> Plan:
        """The graph before shapes are known, what the stages of the pipeline changed, and what is computed once."""
        return self._programs.plan(self._options)

    def plan_of(self, **shapes: Sequence[int]) -> Plan:
        """The plan for inputs of these shapes, which `warm` compiles: algorithms are chosen by shape. Raises as it."""
        return self._programs.plan(self._options_for(self._warmed(shapes)[0]))

    @property
    def _states(self) -> set[str]:
        return set(self.symbol.list_auxiliary_states())

    def __call__(self, key: jax.Array | None = None, /, **inputs: Any) -> list[jax.Array]:
        """The outputs, in the order of `symbol.list_outputs()`. inputs: an array for every name in `inputs`. key: a
        PRNG key, where the network draws random numbers all the same.

        Raises LoweringError for inputs that are missing or unknown, InferenceError for shapes that do not fit.
        """
        self._check_inputs(inputs)
        require_key(key)
        arrays = {name: jax.device_put(jnp.asarray(inputs[name]), self._here) for name in self.inputs}
        ready = self._ready_for({name: (a.shape, a.dtype.name) for name, a in arrays.items()}, key)
        return ready.executable(arrays, ready.held, key)

    def batches(
        self, data: Iterable[Any], batch_size: int | None = None, *, progress: bool = False
    ) -> Iterator[list[np.ndarray]]:
        """The outputs of each batch, as they come: the next one is at work when one is handed out.

        data: dicts by name, tuples in the order of `inputs`, or arrays where there is one; `lowering.Batches`, too,
        whose labels are not read. Samples are on axis 0. batch_size: that of all batches, by default the first one's;
        shorter ones are padded by rows of theirs, so that nothing is compiled anew, and what comes of those is cut off.
        progress: a bar on a terminal. Raises LoweringError for batches that are longer, and for short ones where an
        output has no samples on axis 0; and what calls raise.
        """
        return predict_batches(
            *(self, data),
            inputs=self.inputs,
            outputs=self.symbol.list_outputs(),
            unread=self._labels,
            batch_size=batch_size,
            progress=progress,
        )

    def warm(self, **shapes: Sequence[int]) -> Self:
        """Compile for inputs of these shapes, `warm(data=(1, 3, 224, 224))`, before the first call wants it; returns
        the predictor. Inputs have the dtypes that follow from those of the parameters, else float32.

        Raises LoweringError for names that are missing or unknown, InferenceError for shapes that do not fit.
        """
        self._ready_for(*self._warmed(shapes))
        return self

    def _warmed(self, shapes: Mapping[str, Sequence[int]]) -> tuple[Inputs, jax.Array | None]:
        """The signature of inputs of these shapes."""
        known = shapes_by_name(shapes, "shapes", _WARM)
        self._check_inputs(known)
        dtypes = self._input_dtypes()
        return {n: (known[n], dtypes[n]) for n in self.inputs}, jax.random.key(0) if self._needs_key else None

    def __repr__(self) -> str:
        return f"<Predictor {self.symbol!r} of {', '.join(self.inputs)}>"

    def _check_inputs(self, given: Mapping[str, Any]) -> None:
        parameters = {*self.symbol.list_arguments()} - set(self.inputs)
        if twice := sorted(parameters.intersection(given)):
            raise LoweringError(
                f"The predictor has {listed(twice)} already; expected {listed(self.inputs)}. Other parameters need "
                "another one: lowering.Predictor(net, args, aux)."
            )
        if given.keys() != set(self.inputs):
            raise misfit(self.symbol, {*parameters, *given}, self._states)

    # -- what runs ---------------------------------------------------------------------------------------------------

    def _ready_for(self, inputs: Inputs, key: jax.Array | None) -> _Ready:
        """What runs inputs of these shapes and dtypes; made by whoever asks for it first."""
        signature = (*inputs.items(), None if key is None else (key.shape, key.dtype))
        found = self._ready.get(signature)
        if found is not None:
            return found
        with self._making:
            found = self._ready.get(signature)
            if found is None:
                found = self._ready[signature] = self._made_ready(inputs, key)
        return found

    def _made_ready(self, inputs: Inputs, key: jax.Array | None) -> _Ready:
        options = self._options_for(inputs)
        program, plan = self._programs.forward(options), self._programs.plan(options)

        def run(inputs: Arrays, held: Arrays, key: jax.Array | None) -> list[jax.Array]:
            given = {**held, **inputs}
            args, aux = ({name: given[name] for name in names} for names in (program.arg_names, program.aux_names))
            return program.collect(program.run(program.bind(args, aux), key))[0]

        wanted = self._kept.wanted(self._programs, options)
        arrays = {name: jax.ShapeDtypeStruct(*each, sharding=self._here) for name, each in inputs.items()}
        lowered = jit(run, platform=self._options.platform).lower(arrays, wanted.avals, key)
        with ThreadPoolExecutor(1) as beside:  # XLA compiles both at once
            held = beside.submit(wanted.make)
            return _Ready(lowered.compile(), held.result(), plan)

    def _options_for(self, inputs: Inputs) -> Options:
        shapes = self._kept.shapes | {name: shape for name, (shape, _) in inputs.items()}
        dtypes = self._kept.dtypes | {name: dtype for name, (_, dtype) in inputs.items()}
        return replace(self._options, shapes=tuple(shapes.items()), dtypes=tuple(dtypes.items()))

    def _input_dtypes(self) -> dict[str, str]:
        graph = self._programs.pipeline.graph
        index = graph.indexed_graph()
        dtypes = infer_type(graph, dtypes=self._kept.dtypes).attrs["dtype"]
        found = {index.nodes[nid].source.name: dtypes[index.entry_rptr[nid]] for nid in index.input_nodes}
        return {name: found.get(name) or "float32" for name in self.inputs}
