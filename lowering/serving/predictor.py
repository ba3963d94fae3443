"""`Predictor`: a trained network for serving. Values that depend on parameters alone are computed once and kept."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple, Self, SupportsIndex

import jax
import numpy as np
from jax.sharding import Sharding
from numpy.typing import DTypeLike

from lowering.convolutions.backends import OWNED, compiling
from lowering.core.cache import Programs
from lowering.core.chosen_options import DATA_AXIS, chosen_options, first_options
from lowering.core.inference import with_remedy
from lowering.host.open_sizes import OpenTraces
from lowering.host.staged import Staged, checked_effort, chosen_effort, primitives_of
from lowering.messages.arguments import (
    arrays_by_name,
    is_key,
    misfit,
    refuse_traced,
    require_symbol,
    shapes_by_name,
)
from lowering.messages.doors import PREDICT, Door
from lowering.messages.migration_hints import with_migration_hints
from lowering.serving.archive import Folder, Signature, read_folder, write_folder
from lowering.serving.batches import predict_batches
from lowering.serving.constant_store import ConstantStore
from lowering.serving.full_later import FullLater
from lowering.serving.onnx_session import OnnxPrograms
from lowering.serving.plan import ServingPlan, served, serving_plan
from lowering.sharding.placement import Rules, make_placement, on_device, put
from lowering.xla import cpu_streams
from lowering.xla.compile_options import Awaited, estimated, jit, options_for, tell_compiled
from lowering.xla.cpu_streams import Streams
from lowering.xla.kept_programs import keeps_programs
from lowering.xla.library_call import LIBRARY_CALLS
from symjax_nnvm.check.remedies import shape_remedy
from symjax_nnvm.errors import CallError, InferenceError, LoweringError, listed
from symjax_nnvm.inspect.roles import label_variables
from symjax_nnvm.io.files import path_text
from symjax_nnvm.ir.rules.quantized_parameters import refuse_wrong_parameters
from symjax_nnvm.ir.types import DType, Shape
from symjax_nnvm.mxnet.checkpoint import load_checkpoint
from symjax_nnvm.passes.infer import variable_dtypes
from symjax_nnvm.pipeline import Options, Plan
from symjax_nnvm.progress import tell
from symjax_nnvm.recent import Recent
from symjax_nnvm.surgery import inference_symbol
from symjax_nnvm.symbol.symbol import Symbol

__all__ = ["Predictor"]

Arrays = Mapping[str, Any]
Inputs = Mapping[str, tuple[Shape, DType]]

_NEW = "predict = lowering.Predictor(net, args, aux); outputs = predict(data=x)"
_WARM = Door("predict.warm", "shapes by name", "predict.warm(data=(1, 3, 224, 224))")


class _Ready(NamedTuple):
    """One signature: how it runs, the function that runs it, and the arrays that this takes besides the inputs.

    later: compiles it fully; None where it is.
    """

    plan: ServingPlan
    executable: Callable[..., list[jax.Array]]
    held: dict[str, jax.Array]
    later: FullLater[_Ready] | None = None

    def run(self, arrays: Arrays, key: jax.Array | None) -> list[jax.Array]:
        """Return the outputs. The arrays are a tuple, as JAX would sort a dict's names in each call."""
        return self.executable(arrays, (*self.held.values(),), key)


@lru_cache(64)
def _dtype_name(dtype: np.dtype) -> DType:
    """The name of a dtype, cached: NumPy makes it anew each time."""
    return dtype.name


def _kinds_of(arrays: Mapping[str, jax.Array]) -> Inputs:
    """Return shapes and dtypes by name."""
    return {name: (array.shape, _dtype_name(array.dtype)) for name, array in arrays.items()}


def _signature_of(inputs: Inputs, key: jax.Array | None) -> tuple[Any, ...]:
    return (*inputs.items(), None if key is None else (key.shape, key.dtype))


def _aval(sharding: Sharding, array: jax.Array | jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=sharding)


class Predictor:
    """A network with its parameters as a function of its data: `predict(data=x)` returns a list of outputs.

    Training heads without a label become their forward values (`inference_symbol`). Whatever depends on parameters
    alone is computed once, on the device. The rest is compiled once for each combination of input shapes and dtypes,
    with the algorithms that are fastest for them. Signatures share the values that they compute alike. States that the
    network writes keep their first values. Many threads may call one predictor.

    Raises what the stages of the pipeline raise.

    Args:
        symbol: the network.
        args: arguments by name, which do not change; the other arguments are the inputs of every call.
        aux: auxiliary states by name.
        platform: "cpu", "gpu" or "tpu"; None for the one that JAX runs on.
        compute_dtype: as in `to_jax`.
        mesh: a `jax.sharding.Mesh`, to whose axes the graph's `__sharding__` refers. With several processes, each
            passes the whole inputs, and `batches` returns whole outputs.
        sharding: how the mesh splits parameters: "replicate" puts all of them on every device, "fsdp" splits each; or
            pairs of a pattern over names and a `PartitionSpec`. A variable's `__sharding__` comes first.
        data_axis: the mesh axis, or axes, along which inputs are split by their first axis.
        keep: how many signatures keep their programs, the latest called first; a call of another compiles again. None:
            all.
        one_core: on a CPU, compute each call on one core, in the calling thread. Calls of several threads then run side
            by side: more requests a second, each slower than on all cores.
        effort: how programs are made: "auto", "quick" or "full", as in `lowering.effort`; None for the effort of the
            block around a call. Calls use what `warm` has compiled; `batches` compiles fully.
        backend: "xla"; or "onnxruntime", which runs the network on the CPU as an exported ONNX model (it needs the
            packages onnx and onnxruntime). The first outputs of each signature are compared with XLA's.
        attention: "cudnn" for cuDNN's fused kernel on a CUDA GPU, for attention in half precision with heads of 8, 16,
            … 128 numbers; None for products and softmax by XLA. Not measured.

    Attributes:
        symbol: the network as it runs.
        inputs: the names of the inputs of every call.

    Raises:
        LoweringError: arrays are missing or unknown.
        CallError: `symbol` is not a symbol, `args` or `aux` is not a dict of arrays of numbers, or `keep` is not a
            number of signatures; or backend="onnxruntime" comes with a mesh, another platform or another dtype.
        SymbolValueError: there is no such platform, or no such attention.
        TrainingError: the sharding does not fit the mesh or a shape.
    """

    @with_migration_hints("Predictor", _NEW)
    def __init__(
        self,
        symbol: Symbol,
        args: Arrays,
        aux: Arrays | None = None,
        *,
        platform: str | None = None,
        compute_dtype: DTypeLike | None = None,
        mesh: jax.sharding.Mesh | None = None,
        sharding: str | Rules = "replicate",
        data_axis: str | Sequence[str] = DATA_AXIS,
        keep: int | None = 64,
        one_core: bool = False,
        effort: str | None = None,
        backend: str = "xla",
        attention: str | None = None,
    ):
        if backend not in ("xla", "onnxruntime"):
            raise CallError(f'backend must be "xla" or "onnxruntime", got {backend!r:.40}.')
        if backend == "onnxruntime":
            if mesh is not None or compute_dtype is not None or platform not in (None, "cpu"):
                fix = 'Leave out mesh, compute_dtype and platform, or use backend="xla".'
                raise CallError(f'backend="onnxruntime" runs the network as it is, on the CPU. {fix}')
            platform = "cpu"
        if keep is not None and (isinstance(keep, bool) or not isinstance(keep, int) or keep < 1):
            raise CallError(f"keep must be a number of signatures from 1 on, or None for all, got {keep!r:.40}.")
        args = arrays_by_name(args, "args", _NEW)
        aux = arrays_by_name({} if aux is None else aux, "aux", _NEW)
        labels = {node.name for node in label_variables(require_symbol(symbol, "Predictor"))}
        self.symbol = symbol if labels.issubset(args) else inference_symbol(symbol)
        self._labels = labels.difference(self.symbol.list_arguments())
        self.inputs = [name for name in self.symbol.list_arguments() if name not in args]
        self._wanted = frozenset(self.inputs)
        if {*args, *self.inputs} != set(self.symbol.list_arguments()) or set(aux) != self._states:
            raise misfit(self.symbol, {*args, *self.inputs}, aux, "lowering.Predictor(net, args, aux)")
        refuse_wrong_parameters(self.symbol.list_arguments(), args)
        arrays = {**args, **aux}
        single, self._placement = on_device(platform), make_placement(mesh, sharding, data_axis, self.symbol)
        if mesh is None:
            self._placement = single
        else:
            platform = self._placement.platform
        self._kept = ConstantStore(arrays, self._placement, platform)
        options = Options(platform=platform, constants=frozenset(arrays), backend=OWNED)
        self._options = chosen_options(options, compute_dtype, self._placement.mesh, data_axis, attention)
        self._programs = Programs(self.symbol)
        program = self._programs.forward(self._options)
        self._needs_key, self._calls_python = program.needs_key, program.segments is not None
        self._keep, self._one_core = keep, one_core
        self._ready: Recent[tuple[Any, ...], _Ready | None] = Recent(keep)  # None: called, and not prepared yet
        self._making = threading.Lock()
        self._saved: Sequence[Signature] = ()
        self._is_saved = False
        self._effort = checked_effort(effort)
        self._constants: dict[str, jax.Array] | None = None
        self._first: Staged | None = None
        self._by_onnx: OnnxPrograms | None = None
        if backend == "onnxruntime":
            if self._needs_key or self._calls_python:
                raise CallError(
                    'The network draws random numbers or calls Python, which ONNX cannot. Use backend="xla".'
                )
            by_xla = partial(Predictor, self.symbol, args, aux, platform=platform, keep=1, effort="quick")
            self._by_onnx = OnnxPrograms(self.symbol, arrays, 1 if one_core else None, by_xla)
        elif first_options(self._options) and not (one_core or self._calls_python):
            traces = OpenTraces(self.symbol.outputs)
            full = lambda _: self._prepared  # noqa: E731
            self._first = Staged(self._unprepared, full, effort=self._effort, network=True, open_traces=traces)

    @classmethod
    def load(cls, prefix: str | os.PathLike[str], epoch: SupportsIndex | str | None = None, **options: Any) -> Self:
        """Load a predictor from MXNet's two files, or from a folder that `save` wrote.

        Values that a folder holds are not computed again, except over a mesh. An untrusted folder can do what an
        untrusted checkpoint can: compute other numbers. It holds no program; programs are compiled by calls and by
        `warm`.

        Raises what `symjax_nnvm.load_checkpoint` and Predictor raise.

        Args:
            prefix: the prefix of `prefix-symbol.json` and `prefix-0000.params`; without an epoch, the folder's path.
            epoch: a number, or text such as `"0003"`.
            options: further arguments of Predictor; a folder has its own platform and compute_dtype.

        Raises:
            FileError: the path is not a folder of a predictor, or files in it have changed since they were saved.
        """
        if epoch is not None:
            return cls(*load_checkpoint(prefix, epoch), **options)
        prefix = path_text(prefix, "prefix")
        if own := options.keys() & {"platform", "compute_dtype"}:
            raise CallError(f"A saved predictor has its own {listed(own)}: Predictor.load({prefix!r}).")
        folder = read_folder(prefix)
        predictor_class: Any = cls
        own = {"platform": folder.options["platform"], "compute_dtype": folder.options["dtype"]}
        predictor = predictor_class(*folder.network, **own, **options)
        predictor._first, predictor._is_saved = None, True  # of what is saved nothing is computed again
        predictor._saved = [one for one in folder.signatures if one.inputs.keys() == predictor._wanted]
        if predictor._placement.mesh is None:
            predictor._kept.saved = folder.values
        return predictor

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a folder that `load(path)` reads: the network, `signatures`, and the values computed from parameters.

        The values are those of the signatures whose programs are kept. A predictor that loads them computes none of
        them again. It does not compile either if JAX caches its programs: call
        `jax.config.update("jax_compilation_cache_dir", folder)` first, when saving and when loading. A predictor over a
        mesh writes no values.

        Args:
            path: the folder. An existing one is replaced whole: a reader, or an interruption at any moment, finds
                either all old files or all new ones.

        Raises:
            ParamsFormatError: files cannot hold an array.
            OSError: a file cannot be written.
        """
        path = path_text(path)
        called = [signature for signature, _ in self._ready.items()]
        for *inputs, key in called:
            self._ready_for(dict(inputs), None if key is None else jax.random.key(0), quickly=True)
        with self._making:
            values = self._kept.computed if self._placement.mesh is None else {}
        options = {"platform": self._options.platform, "dtype": self._options.compute_dtype}
        args = {name: array for name, array in self._kept.constants.items() if name not in self._states}
        aux = {name: self._kept.constants[name] for name in self._states}
        write_folder(path, Folder((self.symbol, args, aux), options, self._signatures(), values))

    @property
    def signatures(self) -> list[dict[str, jax.ShapeDtypeStruct]]:
        """Return the shapes and dtypes of inputs, by name, of each saved or kept signature, the latest used last.

        `for inputs in predict.signatures: predict.warm(**inputs)` compiles all of them when a server starts.
        """
        return [{n: jax.ShapeDtypeStruct(*aval) for n, aval in one.inputs.items()} for one in self._signatures()]

    def _signatures(self) -> list[Signature]:
        ready = [Signature(dict(inputs), key is not None) for (*inputs, key), _ in self._ready.items()]
        return [*(one for one in self._saved if one not in ready), *ready][-(self._keep or 0) :]

    @property
    def plan(self) -> Plan:
        """Return the plan before shapes are known: the graph, the stages' changes, and the values computed once."""
        return self._programs.plan(self._options)

    def plan_of(self, **shapes: Sequence[int]) -> Plan:
        """Return the plan for inputs of these shapes, which `warm` compiles; algorithms are chosen by shape.

        Raises what `warm` raises.

        Args:
            shapes: shapes of all inputs by name.
        """
        return self._programs.plan(self._plan_for(self._warmed(shapes)[0]).options)

    def ways(self) -> list[str]:
        """Return lines of text: the signatures of past calls, how each runs, and when it will be compiled further."""
        started = [] if self._first is None else self._first.ways()
        compiled = [
            f"{', '.join(f'{dtype}{list(shape)}' for _, (shape, dtype) in signature[:-1])}: "
            f"{', '.join(filter(None, (str(ready.later or 'compiled'), str(ready.plan))))}"
            for signature, ready in self._prepared_ones()
        ]
        return [*started, *compiled]

    @property
    def _platform(self) -> str:
        """Return the platform of the device."""
        return self._placement.platform

    @cached_property
    def _states(self) -> set[str]:
        return set(self.symbol.list_auxiliary_states())

    def __call__(self, key: jax.Array | None = None, /, *others: Any, **inputs: Any) -> list[jax.Array]:
        """Return the outputs, in the order of `symbol.list_outputs()`. inputs: an array for every name in `inputs`.
        key: a PRNG key, where the network draws random numbers all the same. others: refused.

        Raises LoweringError for inputs that are missing or unknown, CallError for anything that is not an array of
        numbers, InferenceError for shapes that do not fit.
        """
        if others or not (key is None or is_key(key)):
            raise PREDICT.refusal((*(() if key is None else (key,)), *others), inputs)
        arrays, shapes = self._validated(inputs)
        signature = _signature_of(shapes, key)
        ready = self._ready.get(signature)
        if ready is None and self._first is None:
            ready = self._ready_for(shapes, key, quickly=self._is_saved and chosen_effort(self._effort) != "full")
        if ready is not None:
            if ready.later is not None:
                effort = chosen_effort(self._effort)
                if effort == "full" or (effort == "auto" and not ready.later.counts()):
                    ready = self._ready_for(shapes, key)
            return ready.run(arrays, key)
        assert self._first is not None
        with self._in_own_names(shapes):
            outputs = self._first(arrays, self._first_constants(), key)
        with self._making:
            self._ready.setdefault(signature, None)
        return outputs

    def _first_constants(self) -> dict[str, jax.Array]:
        """Return the constants on the device, for a first call of inputs of their shapes."""
        with self._making:
            constants = self._constants  # which a call in another thread may let go of meanwhile
            if constants is None:
                constants = self._constants = self._kept.on_device([*self._kept.constants])
            return constants

    def _prepared(self, arrays: dict[str, jax.Array], _: Any, key: jax.Array | None) -> list[jax.Array]:
        """Return the outputs by the program that is prepared for inputs like these, made now if it is not there."""
        ready = self._ready_for(_kinds_of(arrays), key)
        self._constants = None  # until another signature is called first
        return ready.run(arrays, key)

    def _unprepared(self, arrays: Arrays, constants: Arrays, key: jax.Array | None) -> list[jax.Array]:
        """Return the outputs by a program for any platform, without values that are computed once."""
        options = first_options(self._options)
        assert options is not None
        args = {name: array for name, array in {**arrays, **constants}.items() if name not in self._states}
        aux = {name: constants[name] for name in self._states}
        return self._programs.forward(options).evaluate(args, aux, key)[0]

    def _start(self, **inputs: Any) -> Callable[[], list[jax.Array]]:
        """Return a function that waits for the outputs of a call, which are computed meanwhile."""
        arrays, shapes = self._validated(inputs)
        ready = self._ready_for(shapes, None)
        if isinstance(ready.executable, Streams):
            return ready.executable.start(arrays)
        outputs = ready.run(arrays, None)
        return lambda: outputs

    def _validated(self, inputs: Arrays) -> tuple[dict[str, jax.Array], Inputs]:
        """Return arrays of a call on their devices, and their shapes and dtypes."""
        self._check_inputs(inputs, PREDICT)
        refuse_traced(inputs, "A Predictor")
        inputs = arrays_by_name(inputs, "inputs", PREDICT.call)
        arrays = {n: put(inputs[n], self._placement.input(n, np.shape(inputs[n]))) for n in self.inputs}
        return arrays, _kinds_of(arrays)

    @with_migration_hints("Predictor.batches", "predict.batches(data, batch_size=32)")
    def batches(
        self, data: Iterable[Any], batch_size: int | None = None, *, progress: bool = False
    ) -> Iterator[list[np.ndarray]]:
        """Return the outputs of each batch as an iterator; the next batch is computed while the caller uses one.

        Raises what calls raise.

        Args:
            data: dicts by name, tuples in the order of `inputs`, or arrays where there is one input, with samples on
                axis 0; or `lowering.Batches`, whose labels are not used.
            batch_size: the size of all batches; None for the first one's. A shorter batch is filled with rows of its
                own, so that nothing is compiled again, and their results are cut off.
            progress: show a bar on a terminal.

        Raises:
            LoweringError: a batch is longer than `batch_size`; a batch is shorter and an output has no samples on axis
                0; or `data` is `Batches(shard=)` over a mesh of several processes, each of which must pass the whole
                batch.
        """
        if batch_size is not None and (
            isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1
        ):
            raise CallError(f"batch_size must be a number of samples from 1 on, or None, got {batch_size!r:.40}.")
        if getattr(data, "shard", None) is not None and self._placement.processes > 1:
            fix = "Use lowering.Batches(arrays, batch_size) without shard: each device takes its rows of it."
            raise LoweringError(
                "Every process must give whole batches to a predictor over a mesh", got="shard=", fix=fix
            )
        return predict_batches(
            *(self._start, data),
            inputs=self.inputs,
            outputs=self.symbol.list_outputs(),
            unread=self._labels,
            batch_size=batch_size,
            progress=progress,
        )

    def warm(self, **shapes: Sequence[int] | jax.ShapeDtypeStruct) -> Self:
        """Compile for inputs of these shapes, `warm(data=(1, 3, 224, 224))`, before the first call needs it.

        Args:
            shapes: shapes by name, with the dtypes that follow from those of the parameters, else float32; or shapes
                with dtypes, as `signatures` has them.

        Returns:
            The predictor itself.

        Raises:
            LoweringError: a name is missing or unknown.
            InferenceError: shapes do not fit the network.
        """
        self._ready_for(*self._warmed(shapes))
        return self

    def _warmed(self, shapes: Mapping[str, Sequence[int] | jax.ShapeDtypeStruct]) -> tuple[Inputs, jax.Array | None]:
        """Return the signature of inputs of these shapes."""
        avals = {n: shape for n, shape in shapes.items() if isinstance(shape, jax.ShapeDtypeStruct)}
        sizes = shapes_by_name({**shapes, **{n: shape.shape for n, shape in avals.items()}}, "shapes", _WARM.call)
        self._check_inputs(sizes, _WARM)
        dtypes = {n: jax.dtypes.canonicalize_dtype(shape.dtype).name for n, shape in avals.items()}
        dtypes = self._input_dtypes() | dtypes
        return {n: (sizes[n], dtypes[n]) for n in self.inputs}, jax.random.key(0) if self._needs_key else None

    def __repr__(self) -> str:
        return f"<Predictor {self.symbol!r} of {', '.join(self.inputs)}>"

    def _check_inputs(self, inputs: Mapping[str, Any], door: Door) -> None:
        if inputs.keys() == self._wanted:
            return
        parameters = {*self.symbol.list_arguments()} - self._wanted
        if twice := sorted(parameters.intersection(inputs)):
            raise LoweringError(
                f"The predictor has {listed(twice)} already; expected {listed(self.inputs)}. For other parameters make "
                "another one with lowering.Predictor(net, args, aux)."
            )
        raise door.misnamed(self.inputs, inputs)

    # -- signatures --------------------------------------------------------------------------------------------------

    def _prepared_ones(self) -> list[tuple[tuple[Any, ...], _Ready]]:
        """Return the signatures whose programs are there, with what runs them, the last used at the end."""
        return [(signature, ready) for signature, ready in self._ready.items() if ready is not None]

    def _ready_for(self, inputs: Inputs, key: jax.Array | None, quickly: bool = False) -> _Ready:
        """Return the signature of inputs of these shapes and dtypes; made by the first thread that needs it. quickly:
        it may be compiled quickly."""
        signature = _signature_of(inputs, key)
        ready = self._ready.get(signature)
        if ready is not None and (quickly or ready.later is None):
            return ready
        with self._making:
            ready = self._ready.get(signature)
            if ready is None:
                with self._in_own_names(inputs):
                    ready = self._ready[signature] = self._compiled(inputs, key, quickly)
            elif ready.later is not None and not quickly:
                ready = self._ready[signature] = ready.later.compiles()
        return ready

    @contextmanager
    def _in_own_names(self, inputs: Inputs) -> Iterator[None]:
        """Report shapes that do not fit by the names of the caller's network, not of the graph that the stages made."""
        try:
            yield
        except InferenceError:
            shapes: Any = self._kept.shapes | {name: shape for name, (shape, _) in inputs.items()}
            try:
                self.symbol.infer_shape_partial(**shapes)
            except InferenceError as error:
                raise with_remedy(error, shape_remedy(self.symbol, shapes)) from None
            raise

    def _plan_for(self, inputs: Inputs) -> ServingPlan:
        return serving_plan(self._programs, self._kept, self._options, inputs, self._one_core)

    def _compiled(self, inputs: Inputs, key: jax.Array | None, quickly: bool) -> _Ready:
        """Return the signature of inputs of these shapes and dtypes, compiled by its plan. quickly: with little effort
        where that is faster."""
        plan = self._plan_for(inputs)
        if self._by_onnx is not None:
            self._programs.forward(self._options).inference.of_variables({**inputs, **self._kept.kinds})
            return _Ready(plan, self._by_onnx.program(inputs), {})
        function, constants, _ = served(self._programs, self._kept, plan)
        names = [*constants.avals]

        def run(arrays: Arrays, held: Sequence[Any], key: jax.Array | None) -> list[jax.Array]:
            return function(arrays, dict(zip(names, held, strict=True)), key)

        if self._calls_python:  # it is not one program; shapes that do not fit are reported now
            self._programs.forward(self._options).inference.of_variables({**inputs, **self._kept.kinds})
            made = constants.make()
            return _Ready(plan, run, {name: made[name] for name in names})
        stream = cpu_streams.one_core() if plan.one_core else None
        constant_avals = tuple(_aval(stream or aval.sharding, aval) for aval in constants.avals.values())
        program_avals = self._avals(inputs, plan.rows, stream), constant_avals, key if stream is None else None
        began = time.perf_counter()
        traced = jit(run, platform=self._options.platform).trace(*program_avals)
        lowered, jaxpr = traced.lower(), traced.jaxpr.jaxpr
        quick = options_for("cpu", "quick") if quickly and self._pays_quickly(jaxpr) else None
        shapes = self._kept.shapes | {name: shape for name, (shape, _) in inputs.items()}

        def compiled(options: Mapping[str, str] | None) -> Awaited:
            return Awaited(lowered.compile({**options} if options else None), lambda: estimated(self.symbol, shapes))

        with ThreadPoolExecutor(1) as beside, compiling():  # XLA compiles both at once
            making = beside.submit(constants.make)
            executable = compiled(quick)
            made = making.result()
        held = {name: made[name] for name in names}
        tell_compiled(self.symbol.name or "a predictor", began)
        if stream is not None:
            executable = Streams(executable, [*held.values()], plan.rows, stream, self._placement.sharding())

        def fully() -> _Ready:
            began = time.perf_counter()
            tell("compiling")
            with compiling():
                full = compiled(None)
            tell_compiled(self.symbol.name or "a predictor", began)
            return _Ready(plan, executable.by(full) if isinstance(executable, Streams) else full, held)

        return _Ready(plan, executable, held, FullLater(jaxpr, fully) if quick else None)

    def _pays_quickly(self, jaxpr: Any) -> bool:
        """Return whether a program that calls of a saved network begin with is compiled quickly: on a CPU, where JAX
        does not keep the fully compiled one for the next start."""
        may_be = self._platform == "cpu" and first_options(self._options) is not None
        return may_be and not (keeps_programs() and LIBRARY_CALLS.isdisjoint(primitives_of(jaxpr)))

    def _avals(self, inputs: Inputs, rows: int | None, here: Sharding | None) -> dict[str, jax.ShapeDtypeStruct]:
        """Return shapes and dtypes of the inputs that a program takes. rows: the rows of each stream; here: on its
        device."""
        shapes = {n: (shape if rows is None else (rows, *shape[1:]), dtype) for n, (shape, dtype) in inputs.items()}
        shardings = {n: here or self._placement.input(n, shape) for n, (shape, _) in shapes.items()}
        return {n: jax.ShapeDtypeStruct(*kind, sharding=shardings[n]) for n, kind in shapes.items()}

    def _input_dtypes(self) -> dict[str, str]:
        dtypes = variable_dtypes(self._programs.pipeline.graph, self._kept.dtypes)
        return {node.name: dtype for node, dtype in dtypes.items() if node.name in self._wanted}
