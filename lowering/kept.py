"""`Kept`: what depends on parameters alone, on the device: each value once, however many signatures want it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from lowering.home import Home
from lowering.interpret import Program
from lowering.programs import Programs
from lowering.xla_options import jit
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node
from symjax_nnvm.ir.types import DType, Shape
from symjax_nnvm.pipeline import Options

__all__ = ["Kept", "Wanted"]

Arrays = Mapping[str, Any]


class Wanted(NamedTuple):
    """What a program wants, by name: the arrays' shapes and dtypes, and what makes the arrays, in any thread."""

    avals: dict[str, jax.ShapeDtypeStruct]
    make: Callable[[], dict[str, jax.Array]]


class Kept:
    """The constants, and on the device what was made of them. To be asked by one thread at a time.

    constants: arrays by name. home: where they lie. platform: its; None: JAX's.
    """

    def __init__(self, constants: Arrays, home: Home, platform: str | None):
        self.constants = {
            n: a if isinstance(a, np.ndarray | jax.Array) else np.asarray(a) for n, a in constants.items()
        }
        self.home, self._platform = home, platform
        self._values: dict[Hashable, jax.Array] = {}
        self._numbers: dict[Node, int] = {}
        self._same: dict[Hashable, int] = {}

    @property
    def shapes(self) -> dict[str, Shape]:
        """Of the constants."""
        return {name: tuple(array.shape) for name, array in self.constants.items()}

    @property
    def dtypes(self) -> dict[str, DType]:
        """Of the constants, as they are on the device."""
        return {name: jax.dtypes.canonicalize_dtype(a.dtype).name for name, a in self.constants.items()}

    def placed(self, names: Sequence[str]) -> dict[str, jax.Array]:
        """Constants on the device."""
        self._values |= self._on_device([name for name in names if name not in self._values])
        return {name: self._values[name] for name in names}

    def wanted(self, programs: Programs, options: Options) -> Wanted:
        """What the program of these options takes that no call gives it: constants, and values computed once."""
        program, values = programs.forward(options), programs.plan(options).precompute
        keys: dict[str, Hashable] = (
            {} if values is None else dict(zip(values.attrs["names"], self._identities(values), strict=True))
        )
        missing = {key: name for name, key in keys.items() if key not in self._values}
        read = [name for name in (*program.arg_names, *program.aux_names) if name in self.constants]
        self.placed(read)
        keys |= {name: name for name in read}
        avals, compute = self._computed(programs.precompute(options, list(missing.values())), list(missing))
        found = {name: avals[key] if key in avals else _aval(self._values[key]) for name, key in keys.items()}

        def make() -> dict[str, jax.Array]:
            self._values |= compute()
            return {name: self._values[key] for name, key in keys.items()}

        return Wanted(found, make)

    def _computed(
        self, once: Program | None, keys: Sequence[Hashable]
    ) -> tuple[dict[Hashable, jax.ShapeDtypeStruct], Callable[[], dict[Hashable, jax.Array]]]:
        """Shapes and dtypes of a program's results, by keys, and what computes them."""
        if once is None:
            return {}, dict

        def compute(arrays: Arrays) -> list[jax.Array]:
            return once.collect(once.run(once.bind(arrays, {}), None))[0]

        given = self._on_device(once.arg_names)
        lowered = jit(compute, platform=self._platform, once=True).lower(given)
        if self.home.mesh is None:
            compiled, where = lowered.compile, [self.home.parameter(str(key)) for key in keys]
        else:  # XLA says where on the mesh the results lie
            made = lowered.compile()
            compiled, where = lambda: made, made.output_shardings
        pairs = zip(lowered.out_info, where, strict=True)
        avals = [jax.ShapeDtypeStruct(out.shape, out.dtype, sharding=each) for out, each in pairs]
        return dict(zip(keys, avals, strict=True)), lambda: dict(zip(keys, compiled()(given), strict=True))

    def _on_device(self, names: Sequence[str]) -> dict[str, jax.Array]:
        return {name: self.home.put(self.constants[name], self.home.parameter(name)) for name in names}

    def _identities(self, graph: Graph) -> list[Hashable]:
        """For each output what is equal for all that compute the same of the same constants."""
        for node in graph.nodes():
            inputs = tuple((self._numbers[source], index) for source, index, _ in node.inputs)
            same = (node.op, node.name if node.is_variable else frozenset(node.attrs.dict.items()), inputs)
            self._numbers[node] = self._same.setdefault(same, len(self._same))
        return [(self._numbers[node], index) for node, index, _ in graph.outputs]


def _aval(array: jax.Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=array.sharding)
