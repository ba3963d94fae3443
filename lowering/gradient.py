"""Gradient functions made from MXGradient graphs: `grad_fn` and `differentiable`.

The backward graph is built from the operators' own rules and lowered like any other graph; JAX's autodiff computes
none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lowering.arguments import close_names, require_named, require_symbol
from lowering.interpret import Program
from lowering.mxnet_words import takes_our_words
from lowering.recompute import recomputations
from symjax_nnvm.errors import GradientError, explain, listed
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.ir.types import Shape
from symjax_nnvm.passes.full_graph import init_full_graph
from symjax_nnvm.passes.mirror import Mirror
from symjax_nnvm.symbol.symbol import Symbol

__all__ = ["GradientProgram", "differentiable", "grad_fn", "is_float_array"]

Arrays = Mapping[str, Any]
Shapes = Mapping[str, Shape]

_CALL = "outputs, grads, new_aux = lowering.grad_fn(symbol)(args | {'data': x}, aux)"
_CALL_DIFFERENTIABLE = "outputs, new_aux = lowering.differentiable(symbol)(args | {'data': x}, aux)"


def is_float_array(value: Any) -> bool:
    """Whether an array-like has a floating-point dtype, bfloat16 included."""
    return jnp.issubdtype(jnp.result_type(value), jnp.floating)


class GradientProgram:
    """A symbol with its gradients: one program of the forward outputs followed by the gradients of `wrt`.

    The graph is split where NNVM splits it: forward steps are those the outputs and states need; backward steps read
    what the forward part left, or compute it again: mirror, shapes as in `passes/mirror.py`. Raises GradientError for
    names that are not arguments or are not reachable, and for an unknown `mirror`.
    """

    def __init__(
        self,
        symbol: Symbol,
        wrt: Sequence[str],
        *,
        is_train: bool,
        platform: str | None = None,
        mirror: Mirror = None,
        shapes: Shapes | None = None,
    ):
        self.symbol = symbol
        self.wrt = list(wrt)
        self.num_outputs = len(symbol.outputs)
        xs = [NodeEntry(x, 0, 0) for x in _variables(symbol, wrt)]
        graph = init_full_graph(Graph(symbol.outputs), xs, mirror, shapes)
        self.program = Program(graph.outputs, is_train=is_train, platform=platform)
        self.forward = Program(graph.outputs[: self.num_outputs], is_train=is_train, platform=platform)
        self.head_ids = self._head_ids(graph.attrs["head_grads"])
        index = self.program.index
        forward_nodes = {
            self.program.stand_in(index.node_id(self.forward.index.nodes[step.nid].source))
            for step in self.forward.steps
        }
        self.forward_steps = [step for step in self.program.steps if step.nid in forward_nodes]
        self.backward_steps = [step for step in self.program.steps if step.nid not in forward_nodes]
        self.residual_slots = self._residual_slots()
        self._backward = recomputations(self.backward_steps, self.program)

    def _head_ids(self, heads: Sequence[Node]) -> list[int | None]:
        """The numbers of the head gradients; None where the gradients do not depend on one, as for a loss head."""
        index, live = self.program.index, set(self.program.variables)
        numbers = [index.node_id(head) if index.exist(head) else None for head in heads]
        return [nid if nid in live else None for nid in numbers] or [None] * self.num_outputs

    def _residual_slots(self) -> list[int]:
        """Slots that the backward part, or the gradients themselves, read from the forward part."""
        heads = {self.program.index.entry_rptr[nid] for nid in self.head_ids if nid is not None}
        made = {slot for step in self.backward_steps for slot in step.outputs} | heads
        read = [slot for step in self.backward_steps for slot in step.inputs]
        read += self.program.output_slots[self.num_outputs :]
        return sorted({slot for slot in read if slot not in made})

    def bind(self, args: Arrays, aux: Arrays) -> dict[int, jax.Array]:
        """Values of all variables but the head gradients, by number in the gradient graph."""
        index = self.program.index
        values = self.forward.bind(args, aux)
        nodes = self.forward.index.nodes
        return {index.node_id(nodes[nid].source): value for nid, value in values.items()}

    def head_values(self, outputs: Sequence[jax.Array], head_grads: Sequence[Any] | None) -> dict[int, jax.Array]:
        """Values of the head gradients that the backward part reads, by number. Raises GradientError."""
        if head_grads is not None and len(head_grads) != self.num_outputs:
            raise GradientError(
                explain(
                    "Wrong number of head gradients",
                    expected=f"{self.num_outputs}, one for each of {listed(self.symbol.list_outputs())}",
                    got=len(head_grads),
                )
            )
        values: dict[int, jax.Array] = {}
        for i, (nid, output) in enumerate(zip(self.head_ids, outputs, strict=True)):
            if nid is None:
                continue
            given = None if head_grads is None else head_grads[i]
            name = self.symbol.list_outputs()[i]
            if given is None:
                if output.size != 1:
                    raise GradientError(
                        explain(
                            "Because the last operator is not Loss function, head_gradient is required when calling "
                            "backward",
                            node=name,
                            expected=f"a head gradient of shape {output.shape}",
                            fix="If you are attempting to minimize the output as an objective, please modify your "
                            "network and pass it through the make_loss symbol.",
                        )
                    )
                given = jnp.ones(output.shape, output.dtype)
            if np.shape(given) != output.shape:
                raise GradientError(
                    explain("Head gradient of the wrong shape", node=name, expected=output.shape, got=np.shape(given))
                )
            values[nid] = jnp.asarray(given, output.dtype)
        return values

    def __call__(
        self, args: Arrays, aux: Arrays, key: jax.Array | None, head_grads: Sequence[Any] | None
    ) -> tuple[list[jax.Array], dict[str, jax.Array], dict[str, jax.Array]]:
        """(outputs, gradients by argument name, new auxiliary states)."""
        outputs, new_aux, residuals = self.run_forward(args, aux, key)
        return outputs, self.run_backward(outputs, residuals, key, head_grads), new_aux

    def run_forward(
        self, args: Arrays, aux: Arrays, key: jax.Array | None
    ) -> tuple[list[jax.Array], dict[str, jax.Array], dict[int, jax.Array]]:
        """(outputs, new auxiliary states, residuals by slot)."""
        env = self.forward_values(args, aux, key)
        outputs, new_aux = self.program.collect(env)
        return outputs[: self.num_outputs], new_aux, {slot: env[slot] for slot in self.residual_slots}

    def forward_values(self, args: Arrays, aux: Arrays, key: jax.Array | None) -> list[Any]:
        """The environment after the forward steps: a value in each slot that they fill."""
        env: list[Any] = [None] * self.program.num_slots
        for nid, value in self.bind(args, aux).items():
            env[self.program.index.entry_rptr[nid]] = value
        self.program.run_steps(self.forward_steps, env, key)
        return env

    def run_backward(
        self,
        outputs: Sequence[jax.Array],
        residuals: Mapping[int, jax.Array],
        key: jax.Array | None,
        head_grads: Sequence[Any] | None,
    ) -> dict[str, jax.Array]:
        """Gradients by argument name, from what `run_forward` left."""
        return self.collect_gradients(self.backward_values(outputs, residuals, key, head_grads))

    def backward_values(
        self,
        outputs: Sequence[jax.Array],
        residuals: Mapping[int, jax.Array],
        key: jax.Array | None,
        head_grads: Sequence[Any] | None,
    ) -> list[Any]:
        """The environment after the backward steps: a value in each slot that they fill."""
        env: list[Any] = [None] * self.program.num_slots
        for slot, value in residuals.items():
            env[slot] = value
        heads = self.head_values(outputs, head_grads)
        for nid, value in heads.items():
            env[self.program.index.entry_rptr[nid]] = value
        self.program.run_steps(self._backward, env, key)
        return env

    def collect_gradients(self, env: Sequence[Any]) -> dict[str, jax.Array]:
        """Gradients by argument name, from the environment that `backward_values` filled."""
        grads = [env[slot] for slot in self.program.output_slots[self.num_outputs :]]
        return dict(zip(self.wrt, grads, strict=True))


def _variables(symbol: Symbol, names: Sequence[str]) -> list[Node]:
    by_name: dict[str, Node] = {}
    for node in symbol.list_input_nodes("read_only"):
        if node.name in by_name:
            raise GradientError(explain("Two arguments share one name; gradients are returned by name", node=node))
        by_name[node.name] = node
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise GradientError(
            explain(
                f"Cannot differentiate with respect to {listed(unknown)}",
                expected=f"names among {listed(by_name)}",
                fix=f"{close_names(unknown, by_name) or 'symbol.list_arguments() lists the arguments.'} "
                "For zeros where nothing depends on an argument: grad_fn(..., zeros_if_unreachable=True).",
            )
        )
    return [by_name[name] for name in names]


class _Programs:
    """Gradient programs of one symbol, one for each set of arguments asked for, and of shapes where blocks are cut."""

    def __init__(
        self,
        symbol: Symbol,
        wrt: Sequence[str] | None,
        *,
        is_train: bool,
        platform: str | None,
        mirror: Mirror,
        zeros_if_unreachable: bool,
    ):
        self._symbol = require_symbol(symbol, "the gradient function")
        self._arguments = symbol.list_arguments()
        self._zeros = zeros_if_unreachable
        self._unreachable: tuple[str, ...] | None = None
        self._wrt = None if wrt is None else ((wrt,) if isinstance(wrt, str) else tuple(wrt))
        if self._zeros and self._wrt is not None:
            self._unreachable = tuple(name for name in self._wrt if name not in self._arguments)
            self._wrt = tuple(name for name in self._wrt if name in self._arguments)
        self._options = {"is_train": is_train, "platform": platform}
        self._mirror: Mirror = mirror
        self._programs: dict[Any, GradientProgram] = {}
        if self._wrt is not None:
            self._get(self._wrt, None)  # errors at once, not at the first call

    def _get(self, wrt: tuple[str, ...], shapes: Shapes | None) -> GradientProgram:
        signature = (wrt, shapes and tuple(shapes.items()))
        program = self._programs.get(signature)
        if program is None:
            program = self._programs[signature] = GradientProgram(
                self._symbol, wrt, **self._options, mirror=self._mirror, shapes=shapes
            )
        return program

    def split(self, args: Arrays) -> tuple[Arrays, dict[str, jax.Array]]:
        """The arguments of the graph, and zeros for those asked for that it does not have. Raises GradientError."""
        if not self._zeros:
            return args, {}
        others = {name: value for name, value in args.items() if name not in self._arguments}
        wanted = self._unreachable
        if wanted is None:
            wanted = tuple(name for name, value in others.items() if is_float_array(value))
        missing = [name for name in wanted if name not in others]
        if missing:
            raise GradientError(
                explain(
                    f"No array says what shape the zero gradients of {missing} have",
                    expected="an array for every name in wrt",
                    got=list(args),
                    fix=f"Put {missing} among the arguments, or take them out of wrt.",
                )
            )
        used = {name: value for name, value in args.items() if name in self._arguments}
        return used, {name: jnp.zeros_like(others[name]) for name in wanted}

    def of(self, args: Arrays) -> GradientProgram:
        """The program for these arguments: `wrt`, or every argument of floating-point dtype."""
        wrt = self._wrt
        if wrt is None:
            wrt = tuple(name for name in self._arguments if name in args and is_float_array(args[name]))
        return self._get(wrt, {n: np.shape(a) for n, a in args.items()} if self._mirror == "blocks" else None)


@takes_our_words("grad_fn", _CALL)
def grad_fn(
    symbol: Symbol,
    wrt: Sequence[str] | None = None,
    *,
    is_train: bool = True,
    platform: str | None = None,
    mirror: Mirror = None,
    zeros_if_unreachable: bool = False,
) -> Callable[..., tuple[list[jax.Array], dict[str, jax.Array], dict[str, jax.Array]]]:
    """A pure function `grad(args, aux={}, key=None, head_grads=None) -> (outputs, grads, new_aux)`, by MXGradient.

    wrt: argument names; None means every argument that is a float array. head_grads: list aligned with the outputs;
    left out (or None in a place), loss heads need none, a head of one element gets 1, and any other head is an error.
    grads: dict by name, of the arguments' shapes. The function composes with `jax.jit`; differentiating *it* with JAX
    is possible but is JAX's gradient, not ours: use `symbol.gradient(...).gradient(...)` for higher orders.

    mirror: what the backward part computes again instead of keeping it, memory for time. None and "attributes": nodes
    that carry `__force_mirroring__`, as in MXNet; "do_mirror": MXNet's rule of MXNET_BACKWARD_DO_MIRROR=1; "blocks":
    all but what crosses between about √n blocks; "off": nothing; or a function of a node. See docs/mirroring.md.

    zeros_if_unreachable: accept arguments, and names in wrt, that the symbol does not have: their gradients are zeros.

    Raises GradientError, LoweringError, InferenceError.
    """
    programs = _Programs(
        symbol,
        wrt,
        is_train=is_train,
        platform=platform,
        mirror=mirror,
        zeros_if_unreachable=zeros_if_unreachable,
    )

    def grad(
        args: Arrays,
        aux: Arrays | None = None,
        key: jax.Array | None = None,
        head_grads: Sequence[Any] | None = None,
    ) -> tuple[list[jax.Array], dict[str, jax.Array], dict[str, jax.Array]]:
        args, aux = require_named(args, "args", _CALL), require_named({} if aux is None else aux, "aux", _CALL)
        used, zeros = programs.split(args)
        outputs, grads, new_aux = programs.of(used)(used, aux, key, head_grads)
        return outputs, grads | zeros, new_aux

    return grad


@takes_our_words("grad_fn", _CALL_DIFFERENTIABLE)
def differentiable(
    symbol: Symbol,
    *,
    is_train: bool = True,
    platform: str | None = None,
    mirror: Mirror = None,
    zeros_if_unreachable: bool = False,
) -> Callable[..., tuple[list[jax.Array], dict[str, jax.Array]]]:
    """A JAX function `h(args, aux={}, key=None) -> (outputs, new_aux)` whose `jax.grad` / `jax.vjp` *is* MXGradient.

    Gradients flow to every float argument; auxiliary states, integer arguments and the key have none. Loss heads ignore
    the cotangent of their output, as they do in MXNet. Works under jit and inside any other JAX code; the backward
    function itself is not differentiable again by JAX in a meaningful way for loss heads. mirror, zeros_if_unreachable:
    as in `grad_fn`.
    """
    programs = _Programs(
        symbol,
        None,
        is_train=is_train,
        platform=platform,
        mirror=mirror,
        zeros_if_unreachable=zeros_if_unreachable,
    )

    @jax.custom_vjp
    def call(args: Arrays, aux: Arrays, key: jax.Array | None):
        used, _ = programs.split(args)
        outputs, new_aux, _ = programs.of(used).run_forward(used, aux, key)
        return outputs, new_aux

    def forward(args: Arrays, aux: Arrays, key: jax.Array | None):
        used, _ = programs.split(args)
        outputs, new_aux, residuals = programs.of(used).run_forward(used, aux, key)
        return (outputs, new_aux), (outputs, residuals, args, aux, key)

    def backward(saved: Any, cotangents: Any):
        outputs, residuals, args, aux, key = saved
        used, _ = programs.split(args)
        grads = programs.of(used).run_backward(outputs, residuals, key, cotangents[0])
        zero_args = {name: grads[name] if name in grads else _no_gradient(value) for name, value in args.items()}
        zero_aux = {name: _no_gradient(value) for name, value in aux.items()}
        return zero_args, zero_aux, None if key is None else _no_gradient(key)

    call.defvjp(forward, backward)

    def function(
        args: Arrays, aux: Arrays | None = None, key: jax.Array | None = None
    ) -> tuple[list[jax.Array], dict[str, jax.Array]]:
        args = require_named(args, "args", _CALL_DIFFERENTIABLE)
        return call(dict(args), dict(require_named({} if aux is None else aux, "aux", _CALL_DIFFERENTIABLE)), key)

    function.__name__ = function.__qualname__ = symbol.name or "symbol"
    return function


def _no_gradient(value: Any) -> Any:
    if is_float_array(value):
        return jnp.zeros_like(value)
    return np.zeros(np.shape(value), jax.dtypes.float0)
