"""Gradient functions made from MXGradient graphs: `grad_fn` and `differentiable`.

The backward graph is built from the operators' own rules and lowered like any other graph; JAX's autodiff computes
none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from lowering.core.cache import Programs
from lowering.core.chosen_options import DATA_AXIS, chosen_options, on_mesh_around, platform_by
from lowering.core.gradient_program import GradientProgram
from lowering.lanes.in_lanes import BatchFunction, InLanes, may_pay, of_rows, parse_lanes
from lowering.messages.arguments import arrays_by_name, head_gradients, misfit, require_symbol
from lowering.messages.doors import GRADIENT, says_how_to_call
from lowering.messages.migration_hints import with_migration_hints
from lowering.sharding.explicit_axes import lying_like, outputs_lying_like, under_auto_axes
from symjax_nnvm.errors import GradientError
from symjax_nnvm.inspect.roles import learned_variables
from symjax_nnvm.passes.mirror import Mirror
from symjax_nnvm.pipeline import Options
from symjax_nnvm.symbol.symbol import Symbol

Arrays = Mapping[str, Any]

_CALL_DIFFERENTIABLE = "outputs, new_aux = lowering.differentiable(symbol)(args | {'data': x}, aux)"


def is_float_array(value: Any) -> bool:
    """Return whether an array-like has a floating-point dtype, bfloat16 included."""
    return jnp.issubdtype(jnp.result_type(value), jnp.floating)


class _Gradients:
    """The gradient programs of one symbol, for the requested arguments; arguments that it lacks get zeros."""

    def __init__(self, symbol: Symbol, wrt: Sequence[str] | None, options: Options, zeros_if_unreachable: bool):
        self._programs = Programs(require_symbol(symbol, "the gradient function"))
        self._options = options
        self._arguments = symbol.list_arguments()
        self._zeros = zeros_if_unreachable
        self._unreachable: tuple[str, ...] | None = None
        self._wrt = None if wrt is None else ((wrt,) if isinstance(wrt, str) else tuple(wrt))
        if self._zeros and self._wrt is not None:
            self._unreachable = tuple(name for name in self._wrt if name not in self._arguments)
            self._wrt = tuple(name for name in self._wrt if name in self._arguments)
        if self._wrt is not None:
            self._get(self._wrt)  # errors at once, not at the first call

    def _get(self, wrt: tuple[str, ...], args: Arrays | None = None) -> GradientProgram:
        return self._programs.gradient(on_mesh_around(replace(self._options, wrt=wrt)), args)

    def split(self, args: Arrays) -> tuple[Arrays, dict[str, jax.Array]]:
        """Return the arguments of the graph, and zeros for those it lacks. Raises GradientError."""
        if not self._zeros:
            return args, {}
        others = {name: value for name, value in args.items() if name not in self._arguments}
        zero_names = self._unreachable
        if zero_names is None:
            zero_names = tuple(name for name, value in others.items() if is_float_array(value))
        missing = [name for name in zero_names if name not in others]
        if missing:
            raise GradientError(
                f"The zero gradients of {missing} need a shape, but there is no array of these names",
                expected="an array for every name in wrt",
                got=list(args),
                fix=f"Put {missing} among the arguments, or take them out of wrt.",
            )
        used = {name: value for name, value in args.items() if name in self._arguments}
        return used, {name: jnp.zeros_like(others[name]) for name in zero_names}

    def program(self, args: Arrays) -> GradientProgram:
        """Return the program for these arguments: `wrt`, or every argument of floating-point dtype."""
        wrt = self._wrt
        if wrt is None:
            wrt = tuple(name for name in self._arguments if name in args and is_float_array(args[name]))
        return self._get(wrt, args)


@with_migration_hints("grad_fn", GRADIENT.call)
def grad_fn(
    symbol: Symbol,
    wrt: Sequence[str] | None = None,
    *,
    is_train: bool = True,
    platform: str | None = None,
    mirror: Mirror = None,
    compute_dtype: DTypeLike | None = None,
    mesh: Any = None,
    data_axis: str | Sequence[str] = DATA_AXIS,
    zeros_if_unreachable: bool = False,
    effort: str | None = None,
    lanes: str | int = "off",
) -> Callable[..., tuple[list[jax.Array], dict[str, jax.Array], dict[str, jax.Array]]]:
    """Return a pure function `grad(args, aux={}, key=None, head_grads=None) -> (outputs, grads, new_aux)`.

    MXGradient builds the gradients. The function's arguments are those of the function that `to_jax` returns, and
    `head_grads`: a list with an array for each output. Where it is missing, or None at a place, a loss head needs none,
    an output of one element gets 1, and any other output raises GradientError. `grads` is a dict by name, of the
    arguments' shapes. `new_aux` has the new states; a BatchNorm that no gradient passes leaves its states.

    The function composes with `jax.jit`. Differentiating it with JAX gives JAX's gradient, not MXNet's: use
    `symbol.gradient(...).gradient(...)` for higher orders.

    Raises what `to_jax` raises.

    Args:
        symbol: the network.
        wrt: names of arguments; None for every argument that is a float array.
        is_train: run in training mode.
        platform: as in `to_jax`.
        mirror: what the backward part computes again instead of keeping it, which takes time and saves memory. None or
            "attributes": nodes that carry `__force_mirroring__`, as in MXNet; "do_mirror": MXNet's rule of
            MXNET_BACKWARD_DO_MIRROR=1; "blocks": everything except what crosses between about √n blocks; "off":
            nothing; or a function of a node. See docs/guide/mirroring.md.
        compute_dtype: as in `to_jax`; gradients are float32 where arguments are.
        mesh: as in `to_jax`. The gradient of an argument with `__sharding__`, or on explicit axes, is split like the
            argument.
        data_axis: as in `to_jax`.
        zeros_if_unreachable: accept arguments, and names in `wrt`, that the symbol does not have; their gradients are
            zeros.
        effort: as in `to_jax`.
        lanes: "off": the function is pure JAX; "auto", or a number: on a CPU it runs in lanes, as in
            `lowering.in_lanes`, and `jax.jit` of it calls them while it runs; it is not for `vmap` and `jax.export`.

    Raises:
        CallError: no such number of lanes.
        GradientError: an operator has no gradient rule, or a head gradient is missing or does not fit its output.
    """
    options = Options(is_train=is_train, platform=platform_by(effort, platform), mirror=mirror)
    options = chosen_options(options, compute_dtype, mesh, data_axis)
    programs = _Gradients(symbol, wrt, options, zeros_if_unreachable)

    arguments, states = set(symbol.list_arguments()), set(symbol.list_auxiliary_states())
    run = under_auto_axes(lambda used, *rest: programs.program(used)(used, *rest))
    ways: Callable[[], list[str]] = list
    if parse_lanes(lanes) != 1:
        learned = {node.name for node in learned_variables(symbol)}

        def samples(used: Arrays, aux: Arrays, key: jax.Array | None, heads: Sequence[Any] | None) -> Arrays:
            data = {name: array for name, array in used.items() if name not in learned}
            return of_rows(data, head=heads or ())

        run = InLanes(BatchFunction(run, run, samples), lanes=lanes, may_pay=may_pay([symbol]), in_programs=True)
        ways = run.ways

    @says_how_to_call(GRADIENT)
    def grad(
        args: Arrays,
        aux: Arrays | None = None,
        key: jax.Array | None = None,
        head_grads: Sequence[Any] | None = None,
    ) -> tuple[list[jax.Array], dict[str, jax.Array], dict[str, jax.Array]]:
        args = arrays_by_name(args, "args", GRADIENT.call)
        aux = arrays_by_name({} if aux is None else aux, "aux", GRADIENT.call)
        head_grads = head_gradients(head_grads)
        used, zeros = programs.split(args)
        if used.keys() != arguments or aux.keys() != states:  # the graph itself has head gradients for arguments, too
            raise misfit(symbol, used, aux)
        outputs, grads, new_aux = run(used, aux, key, head_grads)
        outputs = outputs_lying_like(outputs, symbol, args)
        return outputs, lying_like(grads, args) | zeros, lying_like(new_aux, aux)

    vars(grad)["__explained__"] = lambda: (symbol, ways())
    return grad


@with_migration_hints("differentiable", _CALL_DIFFERENTIABLE)
def differentiable(
    symbol: Symbol,
    *,
    is_train: bool = True,
    platform: str | None = None,
    mirror: Mirror = None,
    compute_dtype: DTypeLike | None = None,
    mesh: Any = None,
    data_axis: str | Sequence[str] = DATA_AXIS,
    zeros_if_unreachable: bool = False,
    effort: str | None = None,
) -> Callable[..., tuple[list[jax.Array], dict[str, jax.Array]]]:
    """Return a JAX function `h(args, aux={}, key=None) -> (outputs, new_aux)` whose `jax.grad` and `jax.vjp` are
    MXGradient.

    Every float argument has a gradient; auxiliary states, integer arguments and the key have none. Loss heads ignore
    the cotangent of their output, as in MXNet. The function works under jit and inside any other JAX code. For loss
    heads, JAX cannot meaningfully differentiate the backward function again.

    Raises what `grad_fn` raises.

    Args:
        symbol: the network.
        is_train: run in training mode.
        platform: as in `to_jax`.
        mirror: as in `grad_fn`.
        compute_dtype: as in `to_jax`.
        mesh: as in `to_jax`.
        data_axis: as in `to_jax`.
        zeros_if_unreachable: as in `grad_fn`.
        effort: as in `to_jax`.
    """
    options = Options(is_train=is_train, platform=platform_by(effort, platform), mirror=mirror)
    options = chosen_options(options, compute_dtype, mesh, data_axis)
    programs = _Gradients(symbol, None, options, zeros_if_unreachable)

    @jax.custom_vjp
    def call(args: Arrays, aux: Arrays, key: jax.Array | None):
        used, _ = programs.split(args)
        outputs, new_aux, _ = programs.program(used).run_forward(used, aux, key)
        return outputs, new_aux

    def forward(args: Arrays, aux: Arrays, key: jax.Array | None):
        used, _ = programs.split(args)
        program = programs.program(used)
        outputs, new_aux, residuals = program.run_forward(used, aux, key)
        # The program goes along: the backward part may be traced where another mesh is set, or none.
        return (outputs, new_aux), (jax.tree_util.Partial(program.run_backward), outputs, residuals, args, aux, key)

    def backward(saved: Any, cotangents: Any):
        run_backward, outputs, residuals, args, aux, key = saved
        grads = run_backward(outputs, residuals, key, cotangents[0])
        zero_args = {name: grads[name] if name in grads else _no_gradient(value) for name, value in args.items()}
        zero_aux = {name: _no_gradient(value) for name, value in aux.items()}
        return zero_args, zero_aux, None if key is None else _no_gradient(key)

    call.defvjp(forward, backward)
    on_auto_axes = under_auto_axes(call)

    def function(
        args: Arrays, aux: Arrays | None = None, key: jax.Array | None = None
    ) -> tuple[list[jax.Array], dict[str, jax.Array]]:
        args = arrays_by_name(args, "args", _CALL_DIFFERENTIABLE)
        aux = arrays_by_name({} if aux is None else aux, "aux", _CALL_DIFFERENTIABLE)
        outputs, new_aux = on_auto_axes(dict(args), dict(aux), key)
        return outputs_lying_like(outputs, symbol, args), lying_like(new_aux, aux)

    function.__name__ = function.__qualname__ = symbol.name or "symbol"
    return function


def _no_gradient(value: Any) -> Any:
    if is_float_array(value):
        return jnp.zeros_like(value)
    return np.zeros(np.shape(value), jax.dtypes.float0)
