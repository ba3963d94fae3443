"""`Predictor`: a trained network as it is served. What depends on parameters alone is computed once and kept."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, Literal, NamedTuple, Self, SupportsIndex

import jax
import jax.export
import numpy as np
from jax.sharding import Sharding

from lowering import streams
from lowering.arguments import misfit, require_key, require_named, require_symbol, shapes_by_name
from lowering.batching import predict_batches
from lowering.compile import serialized
from lowering.convolutions import onednn
from lowering.home import Home, OneDevice, OverMesh
from lowering.kept import Kept
from lowering.mxnet_words import takes_our_words
from lowering.predictor_folder import Folder, Signature, read_folder, write_folder
from lowering.programs import Programs
from lowering.served import for_inputs, serve, serve_parts
from lowering.sharding import Rules, make_placement
from lowering.streams import Streams
from lowering.xla_options import jit
from symjax_nnvm.errors import CallError, LoweringError, listed
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
    """One signature: what runs it, what that takes besides the inputs, what serialises it, what it relies on, and how
    many samples each stream has; None: there are none."""

    executable: Callable[..., list[jax.Array]]
    held: dict[str, jax.Array]
    export: Callable[[], bytes]
    relied_on: onednn.Relied
    rows: int | None


@cache
def _dtype_name(dtype: np.dtype) -> DType:
    """NumPy makes the name anew each time."""
    return dtype.name


def _is_of_here(saved: Signature, trusted: bool) -> bool:
    """Whether a saved program is what this machine would run: streams for as many cores, and weights that lie as its
    library wants them; trusted: they do."""
    if saved.rows is None:
        return trusted or all(onednn.block(*asked) == block for asked, block in saved.relied_on.items())
    fitting = streams.one_core() is not None and saved.parts == streams.count()
    return fitting and (
        trusted or all(onednn.block_of_a_core(*asked) == block for asked, block in saved.relied_on.items())
    )


def _at(sharding: Sharding, array: jax.Array | jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=sharding)


def _traced_for(rows: int | None) -> AbstractContextManager[None]:
    """Where programs are traced, of streams or of all cores."""
    return nullcontext() if rows is None else onednn.on_one_core()


class Predictor:
    """A network with its parameters, as a function of its data: `predict(data=x)` → list of outputs.

    args, aux: arrays by name, which do not change; the arguments that are not among them are the inputs of every call.
    Training heads without a label are what they compute (`inference_symbol`). Parameters are folded, and all else that
    depends on them alone is computed, once, on the device; the rest is compiled once for every combination of input
    shapes and dtypes, by the algorithms that are fastest for them. Signatures share what they compute alike. States
    that the network writes keep the values given. May be called from many threads.

    mesh: a `jax.sharding.Mesh`, over whose axis data_axis inputs are split along their first axis; the axes that
    `__sharding__` in the graph refers to. sharding: of the parameters: "replicate": every device has all; "fsdp": each
    is split; or pairs of a pattern over names and a `PartitionSpec`. Variables that have `__sharding__` are split so.
    With several processes each gives the whole inputs, and `batches` returns whole outputs.
    platform: "cpu", "gpu" or "tpu"; default the one JAX runs on. dtype: "bfloat16" or "float16" for matrix products and
    convolutions. symbol: the network as it runs; inputs: names of what calls give; plan: what the pipeline made.

    Raises LoweringError for arrays that are missing or unknown, CallError for what is no symbol or no dict,
    TrainingError for a sharding that does not fit the mesh or a shape, and what the stages of the pipeline raise.
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
        mesh: jax.sharding.Mesh | None = None,
        sharding: str | Rules = "replicate",
        data_axis: str | Sequence[str] = "data",
    ):
        args = require_named(args, "args", _NEW)
        aux = require_named({} if aux is None else aux, "aux", _NEW)
        labels = {node.name for node in label_variables(require_symbol(symbol, "Predictor"))}
        self.symbol = symbol if labels.issubset(args) else inference_symbol(symbol)
        self._labels = labels.difference(self.symbol.list_arguments())
        self.inputs = [name for name in self.symbol.list_arguments() if name not in args]
        self._wanted = frozenset(self.inputs)
        if {*args, *self.inputs} != set(self.symbol.list_arguments()) or set(aux) != self._states:
            raise misfit(self.symbol, {*args, *self.inputs}, aux)
        arrays = {**args, **aux}
        self._home: Home = OneDevice(platform)
        if mesh is not None:
            shapes = {name: np.shape(array) for name, array in arrays.items()}
            self._home = OverMesh(make_placement(mesh, sharding, data_axis, self.symbol), shapes)
            platform = self._home.platform
        self._options = Options(
            platform=platform,
            precision=dtype,
            constants=frozenset(arrays),
            owned=True,
            mesh=self._home.mesh,
            data_axes=self._home.data_axes,
        )
        self._programs = Programs(self.symbol)
        self._needs_key = self._programs.forward(self._options).needs_key
        self._kept = Kept(arrays, self._home, platform)
        self._ready: dict[tuple[Any, ...], _Ready] = {}
        self._making = threading.Lock()
        self._saved: dict[tuple[Any, ...], Signature] = {}
        self._saved_values: Arrays = {}
        self._placed: dict[str, jax.Array] = {}

    @classmethod
    def load(cls, prefix: str | os.PathLike[str], epoch: SupportsIndex | str | None = None, **options: Any) -> Self:
        """The predictor of `prefix-symbol.json` and `prefix-0000.params`; without an epoch that of a folder, which
        `save` wrote and where nothing is folded or traced again. options: of Predictor; a folder has itself those that
        are not about a mesh, for which its programs, made for one device, are made anew.

        Raises what `symjax_nnvm.load_checkpoint` and Predictor raise; FileError for what is no such folder.
        """
        if epoch is not None:
            return cls(*load_checkpoint(prefix, epoch), **options)
        if own := options.keys() - {"mesh", "sharding", "data_axis"}:
            raise CallError(f"A saved predictor has its own {listed(own)}: Predictor.load({os.fspath(prefix)!r}).")
        folder = read_folder(prefix)
        made: Any = cls
        found = made(*folder.network, **folder.options, **options)
        if folder.platform == found._platform and found._home.mesh is None:
            here = folder.machine is not None and folder.machine == onednn.machine()  # then trials, which take their
            fitting = [one for one in folder.signatures if _is_of_here(one, here)]  # time, would find the same
            found._saved = {(*one.inputs.items(), one.key): one for one in fitting}
            found._saved_values = folder.values
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a folder that `load(path)` takes: the network, and for each signature that was called or warmed its
        program, as StableHLO, with what was computed of parameters. Over one that is there: whoever loads it, and
        whenever this is interrupted, has all of the old or all of the new.

        So a second start neither folds nor traces. Nor does it compile where JAX keeps what it compiled:
        `jax.config.update("jax_compilation_cache_dir", folder)` before, at both. Of a predictor over a mesh the
        network alone is written. Raises MissingExtraError without
        flatbuffers, ParamsFormatError for arrays that files do not hold, OSError.
        """
        values: dict[str, jax.Array] = {}
        names: dict[int, str] = {}
        signatures = []
        with self._making:
            for (*inputs, key), ready in self._ready.items() if self._home.mesh is None else ():
                made = {name: array for name, array in ready.held.items() if name not in self._kept.constants}
                for name, array in made.items():
                    at = names.setdefault(id(array), name if name not in values else f"{name}:{len(values)}")
                    values[at] = array
                held = {name: names[id(array)] for name, array in made.items()}
                constants = [name for name in ready.held if name not in made]
                program = ready.export()
                about = dict(inputs), key is not None
                signatures.append(Signature(*about, held, constants, program, ready.relied_on, ready.rows))
        options = {"platform": self._options.platform, "dtype": self._options.precision}
        args = {name: array for name, array in self._kept.constants.items() if name not in self._states}
        aux = {name: self._kept.constants[name] for name in self._states}
        write_folder(
            path, Folder((self.symbol, args, aux), self._platform, options, signatures, values, onednn.machine())
        )

    @property
    def plan(self) -> Plan:
        """The graph before shapes are known, what the stages of the pipeline changed, and what is computed once."""
        return self._programs.plan(self._options)

    def plan_of(self, **shapes: Sequence[int]) -> Plan:
        """The plan for inputs of these shapes, which `warm` compiles: algorithms are chosen by shape. Raises as it."""
        return self._programs.plan(for_inputs(self._options, self._kept, self._warmed(shapes)[0]))

    @property
    def _platform(self) -> str:
        """Of the device."""
        return self._home.platform

    @property
    def _states(self) -> set[str]:
        return set(self.symbol.list_auxiliary_states())

    def __call__(self, key: jax.Array | None = None, /, **inputs: Any) -> list[jax.Array]:
        """The outputs, in the order of `symbol.list_outputs()`. inputs: an array for every name in `inputs`. key: a
        PRNG key, where the network draws random numbers all the same.

        Raises LoweringError for inputs that are missing or unknown, InferenceError for shapes that do not fit.
        """
        arrays, ready = self._asked(inputs, key)
        return ready.executable(arrays, ready.held, key)

    def _start(self, **inputs: Any) -> Callable[[], list[jax.Array]]:
        """What waits for the outputs of a call, which are computed meanwhile."""
        arrays, ready = self._asked(inputs, None)
        if isinstance(ready.executable, Streams):
            return ready.executable.start(arrays)
        outputs = ready.executable(arrays, ready.held, None)
        return lambda: outputs

    def _asked(self, inputs: Arrays, key: jax.Array | None) -> tuple[dict[str, jax.Array], _Ready]:
        self._check_inputs(inputs)
        require_key(key)
        arrays = {n: self._home.put(inputs[n], self._home.input(n, np.shape(inputs[n]))) for n in self.inputs}
        return arrays, self._ready_for({name: (a.shape, _dtype_name(a.dtype)) for name, a in arrays.items()}, key)

    def batches(
        self, data: Iterable[Any], batch_size: int | None = None, *, progress: bool = False
    ) -> Iterator[list[np.ndarray]]:
        """The outputs of each batch, as they come: the next one is at work when one is handed out.

        data: dicts by name, tuples in the order of `inputs`, or arrays where there is one; `lowering.Batches`, too,
        whose labels are not read. Samples are on axis 0. batch_size: that of all batches, by default the first one's;
        shorter ones are padded by rows of theirs, so that nothing is compiled anew, and what comes of those is cut off.
        progress: a bar on a terminal. Raises LoweringError for batches that are longer, and for short ones where an
        output has no samples on axis 0; for `Batches(shard=)` over a mesh of several processes, each of which gives the
        whole batch; and what calls raise.
        """
        if getattr(data, "shard", None) is not None and self._home.processes > 1:
            fix = "lowering.Batches(arrays, batch_size) without shard: devices take their rows of it."
            raise LoweringError("Every process gives whole batches to a predictor over a mesh", got="shard=", fix=fix)
        return predict_batches(
            *(self._start, data),
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
        if given.keys() == self._wanted:
            return
        parameters = {*self.symbol.list_arguments()} - self._wanted
        if twice := sorted(parameters.intersection(given)):
            raise LoweringError(
                f"The predictor has {listed(twice)} already; expected {listed(self.inputs)}. Other parameters need "
                "another one: lowering.Predictor(net, args, aux)."
            )
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
                saved = self._saved.get((*inputs.items(), key is not None))
                made = self._made_ready(inputs, key) if saved is None else self._saved_ready(saved, inputs, key)
                found = self._ready[signature] = made
        return found

    def _made_ready(self, inputs: Inputs, key: jax.Array | None) -> _Ready:
        asked = self._programs, self._kept, self._options, inputs
        (run, wanted, *_), rows = serve_parts(*asked) or (serve(*asked), None)
        jitted, here = jit(run, platform=self._options.platform), None if rows is None else streams.one_core()

        def given(here: Sharding | None) -> tuple[Any, ...]:
            held = {name: _at(here or a.sharding, a) for name, a in wanted.avals.items()}
            return self._avals(inputs, rows, here), held, key if rows is None else None

        with onednn.relied_on() as relied_on, _traced_for(rows):
            lowered = jitted.lower(*given(here))
        with ThreadPoolExecutor(1) as beside, onednn.compiling():  # XLA compiles both at once
            made = beside.submit(wanted.make)
            compiled, held = lowered.compile(), made.result()

        def export() -> bytes:
            with _traced_for(rows):
                return serialized(onednn.exported(jitted.plain, *given(None), platforms=[self._platform]))

        return _Ready(self._streamed(compiled, held, rows, here), held, export, relied_on, rows)

    def _streamed(
        self, compiled: jax.stages.Compiled, held: dict[str, jax.Array], rows: int | None, here: Sharding | None
    ) -> Any:
        """What runs a signature: the program, or streams of it."""
        if rows is None or here is None:
            return compiled
        return Streams(compiled, held, rows, here, self._home.parameter(""))

    def _saved_ready(self, saved: Signature, inputs: Inputs, key: jax.Array | None) -> _Ready:
        """What a folder has; what it has of streams is made anew where they were turned off meanwhile."""
        here = None if saved.rows is None else streams.one_core()
        if saved.rows is not None and here is None:
            return self._made_ready(inputs, key)
        for name in set(saved.held.values()) - self._placed.keys():
            self._placed[name] = self._home.put(self._saved_values[name], self._home.parameter(name))
        held = {name: self._placed[array] for name, array in saved.held.items()} | self._kept.placed(saved.constants)
        program, rows = jax.export.deserialize(bytearray(saved.program)), saved.rows
        avals = {name: _at(here or a.sharding, a) for name, a in held.items()}
        given = self._avals(inputs, rows, here), avals, key if rows is None else None
        lowered = jit(program.call, platform=self._options.platform).lower(*given)
        with onednn.compiling():
            executable = self._streamed(lowered.compile(), held, rows, here)
        return _Ready(executable, held, lambda: saved.program, saved.relied_on, rows)

    def _avals(self, inputs: Inputs, rows: int | None, here: Sharding | None) -> dict[str, jax.ShapeDtypeStruct]:
        """Of what a program takes. rows: of each stream; here: where, if not at home."""
        shapes = {n: (shape if rows is None else (rows, *shape[1:]), dtype) for n, (shape, dtype) in inputs.items()}
        return {
            n: jax.ShapeDtypeStruct(*each, sharding=here or self._home.input(n, each[0])) for n, each in shapes.items()
        }

    def _input_dtypes(self) -> dict[str, str]:
        graph = self._programs.pipeline.graph
        index = graph.indexed_graph()
        dtypes = infer_type(graph, dtypes=self._kept.dtypes).attrs["dtype"]
        found = {index.nodes[nid].source.name: dtypes[index.entry_rptr[nid]] for nid in index.input_nodes}
        return {name: found.get(name) or "float32" for name in self.inputs}
