"""`ConstantStore`: values that depend on parameters alone, on the device, shared by all signatures that need them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import jax
import numpy as np

from lowering.core.cache import Programs
from lowering.core.program import Program
from lowering.jax_casts import require_held
from lowering.sharding.placement import Placement, put
from lowering.xla.compile_options import jit
from symjax_nnvm import __version__
from symjax_nnvm.errors import InferenceError
from symjax_nnvm.io.files import release_pages
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node
from symjax_nnvm.ir.types import DType, Shape, is_known
from symjax_nnvm.passes.infer import infer_shape, infer_type
from symjax_nnvm.pipeline import Options

__all__ = ["ConstantStore", "Wanted"]

Arrays = Mapping[str, Any]


_AT_ONCE = 1 << 28
"""Bytes of values that one program computes: it reads as many, and keeps as many on the way."""


class Wanted(NamedTuple):
    """The arrays that a program wants: shapes and dtypes by name, and what makes them, in any thread."""

    avals: dict[str, jax.ShapeDtypeStruct]
    make: Callable[[], dict[str, jax.Array]]


class ConstantStore:
    """The constants, and the values computed from them on the device, kept as long as a program holds them. Only one
    thread at a time may use the store.

    constants: arrays by name. placement: where they are. platform: that programs are compiled for; None: JAX's default.
    saved: values that were computed in another process, by their addresses (`computed`); one of another shape or dtype
    than is wanted is not taken.
    """

    def __init__(self, constants: Arrays, placement: Placement, platform: str | None):
        self.constants = {
            n: require_held(a if isinstance(a, np.ndarray | jax.Array) else np.asarray(a), n)
            for n, a in constants.items()
        }
        self.placement, self._platform = placement, platform
        self._shardings = placement.parameters(self.shapes)
        self.saved: Arrays = {}
        self._placed: WeakValueDictionary[str, jax.Array] = WeakValueDictionary()
        self._computed: WeakValueDictionary[str, jax.Array] = WeakValueDictionary()

    @property
    def shapes(self) -> dict[str, Shape]:
        """Return shapes of the constants by name."""
        return {name: tuple(array.shape) for name, array in self.constants.items()}

    @property
    def dtypes(self) -> dict[str, DType]:
        """Return dtypes of the constants by name, as they are on the device."""
        return {name: jax.dtypes.canonicalize_dtype(a.dtype).name for name, a in self.constants.items()}

    @property
    def kinds(self) -> dict[str, tuple[Shape, DType]]:
        """Return shapes and dtypes of the constants by name, as they are on the device."""
        dtypes = self.dtypes
        return {name: (shape, dtypes[name]) for name, shape in self.shapes.items()}

    @property
    def computed(self) -> dict[str, jax.Array]:
        """Return values that programs hold, each by its address, which is equal for all programs that compute the same
        of the same constants, in any process of this version."""
        return dict(self._computed)

    def wanted(self, programs: Programs, options: Options) -> Wanted:
        """Return the arrays that a program of these options takes besides inputs: constants, and values computed
        once."""
        program, values = programs.forward(options), programs.plan(options).precompute
        addresses: dict[str, str] = {}
        if values is not None:
            addresses = dict(zip(values.attrs["names"], self._addresses(values), strict=True))
        constant_names = [n for n in (*program.arg_names, *program.aux_names) if n in self.constants]
        names = {address: name for name, address in addresses.items()}
        arrays = {address: array for address in names if (array := self._computed.get(address)) is not None}
        arrays |= self._of_saved(programs, options, {a: name for a, name in names.items() if a not in arrays})
        avals, compute = self._compiling(programs, options, {a: name for a, name in names.items() if a not in arrays})
        avals |= {address: _aval(array) for address, array in arrays.items()}

        wide = jax.config.read("jax_enable_x64")  # of this thread; another one may make them

        def make() -> dict[str, jax.Array]:
            with jax.enable_x64(wide):
                values = arrays | compute()
                self._computed.update(values)
                return self.on_device(constant_names) | {name: values[address] for name, address in addresses.items()}

        all_avals = self._avals(constant_names) | {name: avals[address] for name, address in addresses.items()}
        return Wanted(all_avals, make)

    def _of_saved(self, programs: Programs, options: Options, names: Mapping[str, str]) -> dict[str, jax.Array]:
        """Return the saved values that equal what this process would compute, by address. names: by address."""
        saved = [address for address in names if address in self.saved]
        once = programs.precompute(options, [names[address] for address in saved])
        if once is None:
            return {}
        arrays = {}
        for address, (shape, dtype) in zip(saved, self._kinds_of_results(once), strict=True):
            array = self.saved[address]
            if (array.shape, array.dtype) == (shape, dtype):
                arrays[address] = put(array, self.placement.sharding())
        return arrays

    def _kinds_of_results(self, once: Program) -> list[tuple[Shape, Any]]:
        """Return shape and dtype of each result of a program: those that inference decides, in a fifth of the time that
        JAX takes to trace it; JAX's where it decides not all."""
        avals = self._avals(once.arg_names)
        try:
            sizes = infer_shape(once.graph, shapes={n: a.shape for n, a in avals.items()}, attr_key=None)
            types = infer_type(once.graph, dtypes={n: a.dtype.name for n, a in avals.items()}, attr_key=None)
        except InferenceError:  # dtypes contradict the network, and JAX promotes them
            return [(aval.shape, aval.dtype) for aval in jax.eval_shape(_computing(once), avals)]
        index = once.graph.indexed_graph()
        places = [index.entry_id(entry) for entry in index.outputs]
        kinds = [(sizes.attrs["shape"][place], types.attrs["dtype"][place]) for place in places]
        if all(is_known(shape) and dtype is not None for shape, dtype in kinds):
            return [(shape, jax.dtypes.canonicalize_dtype(dtype)) for shape, dtype in kinds]
        return [(aval.shape, aval.dtype) for aval in jax.eval_shape(_computing(once), avals)]

    def _compiling(
        self, programs: Programs, options: Options, names: Mapping[str, str]
    ) -> tuple[dict[str, jax.ShapeDtypeStruct], Callable[[], dict[str, jax.Array]]]:
        """Return shapes and dtypes of values by their addresses, and a function that computes them, some after the
        others. names: by address."""
        avals: dict[str, jax.ShapeDtypeStruct] = {}
        calls: list[Callable[[], dict[str, jax.Array]]] = []
        for addresses in self._portions(programs, options, names):
            once = programs.precompute(options, [names[address] for address in addresses])
            assert once is not None
            part, call = self._compiling_part(once, addresses)
            avals |= part
            calls.append(call)
        return avals, lambda: {address: array for call in calls for address, array in call().items()}

    def _portions(self, programs: Programs, options: Options, names: Mapping[str, str]) -> list[list[str]]:
        """Return the addresses by the programs that compute them: one, unless the constants are many bytes."""
        portions: list[list[str]] = []
        once = programs.precompute(options, [*names.values()])
        if once is None:
            return portions
        if sum(self.constants[name].nbytes for name in once.arg_names) <= _AT_ONCE:
            return [[*names]]
        bytes_left = 0
        for address, aval in zip(names, jax.eval_shape(_computing(once), self._avals(once.arg_names)), strict=True):
            size = aval.size * aval.dtype.itemsize
            if size > bytes_left or not portions:
                portions.append([])
                bytes_left = _AT_ONCE
            portions[-1].append(address)
            bytes_left -= size
        return portions

    def _compiling_part(
        self, once: Program, addresses: Sequence[str]
    ) -> tuple[dict[str, jax.ShapeDtypeStruct], Callable[[], dict[str, jax.Array]]]:
        """Return shapes and dtypes of a program's results, by addresses, and a function that computes them."""
        lowered = jit(_computing(once), platform=self._platform, kind="quick").lower(self._avals(once.arg_names))
        if self.placement.mesh is None:
            compiled, where = lowered.compile, [self.placement.sharding()] * len(addresses)
        else:  # XLA decides where on the mesh the results are stored
            executable = lowered.compile()
            compiled, where = lambda: executable, executable.output_shardings
        pairs = zip(lowered.out_info, where, strict=True)
        avals = [jax.ShapeDtypeStruct(out.shape, out.dtype, sharding=sharding) for out, sharding in pairs]

        def compute() -> dict[str, jax.Array]:
            values = jax.block_until_ready(compiled()(self.on_device(once.arg_names)))  # which frees its arguments
            return dict(zip(addresses, values, strict=True))

        return dict(zip(addresses, avals, strict=True)), compute

    def _avals(self, names: Sequence[str]) -> dict[str, jax.ShapeDtypeStruct]:
        """Return shapes and dtypes of constants, as they are on the device."""
        dtypes = self.dtypes
        return {n: jax.ShapeDtypeStruct(self.constants[n].shape, dtypes[n], sharding=self._shardings[n]) for n in names}

    def on_device(self, names: Sequence[str]) -> dict[str, jax.Array]:
        """Return constants on the device, each once while it is held; what was read of their files is dropped."""
        arrays = {}
        for name in names:
            array = self._placed.get(name)
            if array is None:
                constant = self.constants[name]
                array = self._placed[name] = put(constant, self._shardings[name])
                if isinstance(constant, np.ndarray):
                    release_pages(constant)
            arrays[name] = array
        return arrays

    def _addresses(self, graph: Graph) -> list[str]:
        """Return the address of each output: operators, their parameters and the names of constants in one word.
        Version and platform are part of it, since numbers and an operator's layout may differ between them."""
        words: dict[Node, str] = {}
        for node in graph.nodes():
            about = [node.name] if node.op is None else [node.op.name, *sorted(node.attrs.dict.items())]
            words[node] = _word([about, [(words[source], index) for source, index, _ in node.inputs]])
        return [_word([__version__, self.placement.platform, words[node], index]) for node, index, _ in graph.outputs]


def _computing(once: Program) -> Callable[[Arrays], list[jax.Array]]:
    return lambda arrays: once.collect(once.run(once.bind(arrays, {}), None))[0]


def _word(facts: Sequence[Any]) -> str:
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _aval(array: jax.Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=array.sharding)
