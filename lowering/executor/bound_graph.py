"""Executor: a graph bound to arrays, run forward and backward as MXNet's executor runs it.

Made by `bind` and `simple_bind`. Its arrays are jax.Arrays, read and written by name: `ex.arg_dict["w"] = x` is what
MXNet writes as `ex.arg_dict["w"][:] = x`. Source of the semantics: MXNet 1.9.1's `graph_executor.cc`, `executor.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from lowering.executor.bound_arrays import (
    ArrayCell,
    ArrayDict,
    ArrayList,
    array_like,
    fill,
    keep_all,
    values_of,
    writing,
    zeros,
)
from lowering.executor.head_gradients import head_gradients
from lowering.executor.jitted_functions import Randomness
from lowering.executor.reshape import reshaped_arrays
from lowering.executor.ways import Ways
from lowering.messages.arguments import refuse_traced
from lowering.messages.doors import FORWARD, says_how_to_call
from lowering.messages.migration_hints import unknown_attribute
from lowering.xla.interrupts import Held
from symjax_nnvm.check.remedies import shape_remedy
from symjax_nnvm.errors import ExecutorTypeError, ExecutorValueError, did_you_mean, listed
from symjax_nnvm.inspect.roles import learned_variables
from symjax_nnvm.ir.rules.quantized_parameters import refuse_wrong_parameters, way_out_of_mixing
from symjax_nnvm.symbol.symbol import Symbol

Monitor = Callable[[str, jax.Array], None]

_FROM_FILE = "'arg:' and 'aux:' belong to the file: symjax_nnvm.load_checkpoint(prefix, epoch) removes them."
_SURPLUS = (
    "allow_extra_params=True leaves out what the graph does not have, as does symjax_nnvm.subset(symbol, args, aux), "
    "which also names missing arrays."
)


class Executor:
    """A graph with its arrays: arguments, gradients and auxiliary states.

    `forward` runs the graph, `backward` computes the gradients, and `forward_backward` does both as one program. A
    later run does not overwrite the arrays that an earlier one returned.
    """

    def __init__(
        self,
        ways: Ways,
        args: Sequence[ArrayCell],
        grads: Sequence[ArrayCell | None] | None,
        aux: Sequence[ArrayCell],
        grad_req: Sequence[str],
        key: jax.Array,
    ):
        """Make an executor; `bind` and `simple_bind` call it. grads: one cell or None per argument, or None when no
        array was given at all.
        grad_req: one of write, add and null per argument; null wherever there is no gradient cell."""
        self._ways = ways
        self._args, self._grads, self._aux = list(args), None if grads is None else list(grads), list(aux)
        self._grad_req = list(grad_req)
        self._written = [cell for cell, req in zip(grads or (), grad_req, strict=False) if cell and req != "null"]
        self._adds, self._again = self._sums()
        self._summed = [cell for cell in self._adds if cell is not None]
        self._kinds = {cell.name: (cell.shape, cell.dtype.name) for cell in (*self._args, *self._aux)}
        self._signature = tuple(self._kinds.values())
        self._functions = ways.functions(self._signature)
        self._functions.knows(self._kinds)
        self._key = key
        self._forwards = 0
        self._source: Callable[[], Randomness] | None = None
        self._drawn: Randomness = None
        self._is_train = False
        self._outputs: list[jax.Array] | None = None
        self._residuals: Any = None
        self._new_aux: list[jax.Array] | None = None  # what the states become when the backward part runs
        self._aux_read: list[jax.Array] = []
        self._monitor: tuple[Monitor, bool] | None = None

    def _sums(self) -> tuple[list[ArrayCell | None], list[int]]:
        """Return the cells that gradients are added to, None where a gradient is only written; and the numbers of the
        gradients that are added when others have been added to the same memory."""
        pairs = zip(self._grads or (), self._grad_req, strict=False)
        requests = [(cell, req) for cell, req in pairs if cell is not None and req != "null"]
        roots: set[int] = set()
        again: list[int] = []
        for i, (cell, req) in enumerate(requests):
            if req == "add" and id(cell.root) in roots:
                again.append(i)
            roots.add(id(cell.root))
        return [cell if req == "add" and i not in again else None for i, (cell, req) in enumerate(requests)], again

    # -- arrays ----------------------------------------------------------------------------------------------------

    @property
    def symbol(self) -> Symbol:
        """Return the graph, as it was given."""
        return self._functions.symbol

    @cached_property
    def arg_arrays(self) -> ArrayList:
        """Return the arguments, in the order of `symbol.list_arguments()`."""
        return ArrayList("argument", self._args)

    @cached_property
    def grad_arrays(self) -> ArrayList | None:
        """Return the gradients in the order of the arguments: None for one that is not computed, and where none is."""
        return None if self._grads is None else ArrayList("gradient", self._grads)

    @cached_property
    def aux_arrays(self) -> ArrayList:
        """Return the auxiliary states, in the order of `symbol.list_auxiliary_states()`."""
        return ArrayList("auxiliary state", self._aux)

    @cached_property
    def arg_dict(self) -> ArrayDict:
        """Return the arguments by name; assigning a wrong shape or dtype raises ExecutorValueError."""
        return ArrayDict("argument", self._functions.arg_names, self._args)

    @cached_property
    def grad_dict(self) -> ArrayDict:
        """Return the gradients by argument name; None for one that is not computed."""
        if self._grads is None:
            raise ExecutorTypeError("The executor was bound without args_grad and has no gradients")
        return ArrayDict("gradient", self._functions.arg_names, self._grads)

    @cached_property
    def aux_dict(self) -> ArrayDict:
        """Return the auxiliary states by name."""
        return ArrayDict("auxiliary state", self._functions.aux_names, self._aux)

    @property
    def outputs(self) -> list[jax.Array]:
        """Return the outputs of the latest forward pass; zeros before the first."""
        if self._outputs is None:
            shapes, _ = jax.eval_shape(self._functions.forward(False), *self._values(), self._randomness(False))
            return [zeros(out.shape, out.dtype) for out in shapes]
        return list(self._outputs)

    @property
    def output_dict(self) -> dict[str, jax.Array]:
        """Return the outputs of the latest forward pass by name; it raises ExecutorValueError when names repeat."""
        names = self.symbol.list_outputs()
        if len(set(names)) < len(names):
            raise ExecutorValueError(f"Duplicate names detected, {listed(names)}: outputs can only be named by number")
        return dict(zip(names, self.outputs, strict=True))

    def cells(self) -> tuple[dict[str, ArrayCell], dict[str, ArrayCell], dict[str, ArrayCell]]:
        """Return the cells of arguments, computed gradients and auxiliary states, by name, so that executors can share
        them."""
        grads = {cell.name: cell for cell in self._grads or () if cell is not None}
        return self._cell_of_argument, grads, {cell.name: cell for cell in self._aux}

    def copy_params_from(
        self,
        arg_params: Mapping[str, Any],
        aux_params: Mapping[str, Any] | None = None,
        allow_extra_params: bool = False,
    ) -> None:
        """Copy arrays into arguments and auxiliary states of the same names, cast to their dtypes.

        Arguments and states that are not named stay as they are. Names are checked before anything is copied.

        Args:
            arg_params: arguments by name.
            aux_params: auxiliary states by name.
            allow_extra_params: ignore names that the graph does not have.

        Raises:
            ExecutorValueError: the graph does not have a name, or a shape is wrong.
        """
        refuse_wrong_parameters(self._functions.arg_names, arg_params)
        pairs: list[tuple[ArrayCell, Any]] = []
        for params, names, cells, quoted, what in (
            (arg_params, self._functions.arg_names, self._args, '"{}"', "arguments"),
            (aux_params or {}, self._functions.aux_names, self._aux, "{}", "auxiliary states"),
        ):
            by_name = dict(zip(names, cells, strict=True))
            for name, array in params.items():
                if name in by_name:
                    pairs.append((by_name[name], array))
                elif not allow_extra_params:
                    prefixed = name.startswith(("arg:", "aux:"))
                    close = "" if prefixed else did_you_mean(name, names, cutoff=0.8)
                    mixed = way_out_of_mixing(set(names).difference(params), [name])
                    way = mixed or " ".join(filter(None, (_FROM_FILE if prefixed else "", close, _SURPLUS)))
                    raise ExecutorValueError(f"Find name {quoted.format(name)} that is not in the {what}. {way}")
        for cell, array in pairs:
            if np.shape(array) != cell.shape:
                raise ExecutorValueError(
                    f"Array {cell.name!r} has the wrong shape", expected=cell.shape, got=np.shape(array)
                )
        for cell, array in pairs:
            cell.assign(array, cast=True)

    # -- running ---------------------------------------------------------------------------------------------------

    @says_how_to_call(FORWARD)
    def forward(self, is_train: bool = False, **data: Any) -> list[jax.Array]:
        """Copy arrays into arguments, run the graph and return the outputs.

        In training, the values that `backward` reads are kept until the next run. States such as BatchNorm's moving
        averages change in `backward`, as on MXNet's CPU; states that update operators write change here.

        Args:
            is_train: run in training mode.
            data: values of arguments by name.

        Raises:
            ExecutorTypeError: the graph does not have an argument.
            ExecutorValueError: a shape or dtype is wrong.
        """
        if not isinstance(is_train, bool | int | np.bool_):
            raise ExecutorTypeError(
                f"is_train must be True or False, got {type(is_train).__name__}; arrays are given by name: "
                "executor.forward(is_train=False, data=x)"
            )
        self._write(data)
        self._start(bool(is_train))
        functions, randomness = self._functions, self._randomness(self._is_train)
        reported: Sequence[Any] = ()
        with self._writing(self._aux[i] for i in functions.written_in_forward):
            args, aux = self._values()
            if self._monitor is not None:
                run = functions.forward_keeping(self._is_train, monitored=True)
                self._outputs, new_aux, self._residuals, reported = run(args, aux, randomness)
            elif self._is_train and functions.wrt:
                run = functions.forward_keeping(self._is_train)
                self._outputs, new_aux, self._residuals, _ = run(args, aux, randomness)
            else:
                self._outputs, new_aux = functions.forward(self._is_train)(args, aux, randomness)
            for i in functions.written_in_forward:
                self._aux[i].keep(new_aux[i])
        self._new_aux, self._aux_read = new_aux, aux
        if self._monitor is not None:
            self._report(reported, forward=True)
        return self.outputs

    def backward(self, out_grads: Any = None, is_train: bool = True) -> None:
        """Compute the gradients of the latest forward pass, and write or add them to the gradient arrays.

        It may be called several times; a random operator's gradient always uses the numbers of the forward pass. Before
        the first forward pass it runs `forward(is_train)`, where MXNet reads outputs that were never written.

        Args:
            out_grads: the head gradients: an array, a list by output number or a dict by output name. Every output that
                is not a loss head needs one; those of loss heads are ignored.
            is_train: let states such as moving averages follow. After a pass in inference mode it also decides whether
                BatchNorm's gradient passes through its statistics, as in MXNet.

        Raises:
            GradientError: a head gradient is missing or has a wrong shape.
        """
        functions = self._functions
        if not functions.wrt:
            return
        heads = self._heads(out_grads)
        if self._outputs is None:
            self.forward(is_train)
        randomness = self._randomness(self._is_train)
        with self._writing([*self._summed, *(self._aux if is_train else ())]):
            args, aux = self._values()
            if self._residuals is None:  # the pass was in inference, or fused: neither keeps anything
                run = functions.forward_keeping(self._is_train, monitored=self._monitor is not None)
                _, _, self._residuals, _ = run(args, aux, randomness)
            in_training = bool(is_train) or self._is_train  # a training pass is differentiated as one
            run = functions.backward(in_training, donate=self._may_donate(), monitored=self._monitor is not None)
            arguments = args, self._outputs, self._residuals, randomness, heads, self._old_gradients()
            with Held():
                grads, written, reported = run(*arguments, aux if functions.in_segments else [])
                self._keep_gradients(grads)
            for name, value in written.items():
                self._aux[functions.aux_names.index(name)].keep(value)
            if is_train:
                self._advance_states(args, aux, randomness)
        if self._monitor is not None:
            self._report(reported, forward=False)

    def forward_backward(self, out_grads: Any = None, **data: Any) -> list[jax.Array]:
        """Run `forward(is_train=True, **data)` and `backward(out_grads)` as one program, and return the outputs.

        XLA sees both passes and keeps only what it needs, so this is faster and takes less memory than the two calls.

        Args:
            out_grads: the head gradients, as in `backward`.
            data: values of arguments by name, as in `forward`.
        """
        functions = self._functions
        if self._monitor is not None or not functions.wrt:
            outputs = self.forward(True, **data)
            self.backward(out_grads)
            return outputs
        heads = self._heads(out_grads)
        self._write(data)
        self._start(True)
        with self._writing([*self._summed, *self._aux]):
            args, aux = self._values()
            run = functions.forward_backward(donate=self._may_donate())
            with Held():
                self._outputs, grads, new_aux = run(args, aux, self._randomness(True), heads, self._old_gradients())
                self._keep_gradients(grads)
                keep_all(self._aux, new_aux)
        self._new_aux = None
        return list(self._outputs or ())

    def _write(self, data: Mapping[str, Any]) -> None:
        refuse_traced(data, "An Executor")
        for name, value in data.items():
            if not array_like(value):
                raise ExecutorValueError(
                    f"only accept keyword argument of NDArrays and numpy.ndarray, got {type(value).__name__} for "
                    f"{name}: pass {name}=np.asarray(...)"
                )
            if name not in self._cell_of_argument:
                names = self._functions.arg_names
                raise ExecutorTypeError(
                    f"Unknown argument {name}; the graph has {listed(names)}. {did_you_mean(name, names)}".rstrip()
                )
            cell = self._cell_of_argument[name]
            if value.shape != cell.shape:
                raise ExecutorValueError(self._other_shape(cell, value.shape))
            cell.assign(value)

    def _other_shape(self, cell: ArrayCell, shape: tuple[int, ...]) -> str:
        """Return the error's text for an array that does not have the shape the executor was bound for."""
        others = {other.name: other.shape for other in (*self._args, *self._aux)}
        learned = {node.name for node in learned_variables(self.symbol)}
        fixed = {name: other_shape for name, other_shape in others.items() if name in learned}
        way = "" if shape[1:] == cell.shape[1:] else shape_remedy(self.symbol, {**fixed, cell.name: shape})
        if not way and len(shape) == len(cell.shape):
            way = f"The shapes of an executor are fixed: call executor = executor.reshape({cell.name}={shape})."
        return f"Shape not match! Argument {cell.name}, need: {cell.shape}, received: {shape}. {way}".rstrip()

    @cached_property
    def _cell_of_argument(self) -> dict[str, ArrayCell]:
        return dict(zip(self._functions.arg_names, self._args, strict=True))

    def _start(self, is_train: bool) -> None:
        """Begin a forward pass: new random numbers, arguments that are fixed at their numbers, and no memory held for
        the backward part of the one before."""
        for i, number in self._functions.fixed:
            fill(self._args[i], number)
        self._residuals = self._new_aux = None
        functions = self._ways.functions(self._signature)
        if functions is not self._functions:
            functions.knows(self._kinds)
            self._functions = functions
        self._forwards += 1
        if self._source is not None and self._functions.draws(is_train):
            self._drawn = self._source()
        self._is_train = is_train

    def _writing(self, cells: Iterable[ArrayCell]) -> AbstractContextManager[Any]:
        """Return a block that writes cells from values it reads of them. Python of the user's may wait for any other
        thread, so nothing is locked where it runs."""
        written = () if self._functions.in_segments else tuple(cells)
        return writing(*written) if written else nullcontext()

    def _values(self) -> tuple[list[jax.Array], list[jax.Array]]:
        return values_of(self._args), values_of(self._aux)

    def _randomness(self, is_train: bool) -> Randomness:
        return (self._drawn or (self._key, self._forwards)) if self._functions.draws(is_train) else None

    def draw_from(self, source: Callable[[], Randomness]) -> None:
        """Take the randomness of each forward pass from a function instead of the executor's own key.

        Args:
            source: a function without arguments that returns a PRNG key and a number.
        """
        self._source = source

    def _heads(self, out_grads: Any) -> list[Any]:
        return head_gradients(out_grads, self._functions.output_names, self._functions.required_heads)

    def _old_gradients(self) -> list[jax.Array | None]:
        return values_of(self._adds)

    def _may_donate(self) -> bool:
        """Return whether sums of gradients may be updated in place: no caller holds the arrays."""
        return bool(self._summed) and not any(cell.shown for cell in self._summed)

    def _keep_gradients(self, grads: Sequence[jax.Array]) -> None:
        if not self._again:
            keep_all(self._written, grads)
            return
        for i, (cell, gradient) in enumerate(zip(self._written, grads, strict=True)):
            cell.keep(cell.value + gradient if i in self._again else gradient)

    def _advance_states(self, args: list[jax.Array], aux: list[jax.Array], randomness: Randomness) -> None:
        """Set the states to the values that the forward part computed, if it read what they hold now."""
        functions = self._functions
        later = [i for i in range(len(aux)) if i not in functions.written_in_forward]
        if not later:
            return
        new_aux = self._new_aux
        if new_aux is None or any(aux[i] is not self._aux_read[i] for i in later):
            _, new_aux = functions.forward(self._is_train)(args, aux, randomness)
        for i in later:
            self._aux[i].keep(new_aux[i])
        self._new_aux = None

    # -- other shapes ----------------------------------------------------------------------------------------------

    def reshape(
        self, partial_shaping: bool = False, allow_up_sizing: bool = False, **shapes: Sequence[int]
    ) -> Executor:
        """Return a new executor for other input shapes; it shares the arrays that keep their shape.

        A smaller array starts with the leading elements of the old one, a larger one with zeros. A monitor also gets
        the new executor's runs.

        Args:
            partial_shaping: let the shapes of arguments change that are not given.
            allow_up_sizing: let arrays grow.
            shapes: shapes of arguments by name; shapes that do not follow from them stay.

        Raises:
            BindError: a shape changes, or grows, that may not.
        """
        args, grads, aux = reshaped_arrays(
            self.symbol, (self._args, self._grads, self._aux), shapes, partial_shaping, allow_up_sizing
        )
        new = Executor(self._ways, args, grads, aux, self._grad_req, self._key)
        new._monitor, new._source = self._monitor, self._source
        return new

    # -- looking inside --------------------------------------------------------------------------------------------

    def set_monitor_callback(self, callback: Monitor | None, monitor_all: bool = False) -> None:
        """Call `callback(name, array)` for every output of every operator, forward and backward.

        Calls come in the order of execution, after the forward or the backward part has run; those for one node's
        gradient come together. Monitored runs keep every value in memory. Values that mirroring computes again, or that
        stay inside one operator of MXNet's, are not reported.

        The gradient of input i of a node is called `{node}_backward_output{i}`; a gradient that is not computed is
        zeros. The inputs of a gradient, `{node}_backward_input{i}`, are those read here: gradients, then the node's
        inputs, then its outputs. MXNet's operators may read others, in another order: SoftmaxOutput's reads its output
        before the label, and those of oneDNN have workspaces.

        Args:
            callback: the function; None to stop.
            monitor_all: also report each operator's inputs, before its outputs.
        """
        self._monitor = None if callback is None else (callback, monitor_all)
        self._residuals = None  # a monitored run keeps others

    def _report(self, reported: Sequence[Sequence[jax.Array]], *, forward: bool) -> None:
        assert self._monitor is not None
        callback, monitor_all = self._monitor
        for call, value in self._functions.reported(reported, forward=forward, monitor_all=monitor_all):
            if isinstance(call.value, str):
                argument = self._cell_of_argument[call.value]
                value = zeros(argument.shape, argument.dtype)
            if value is not None:
                for name in call.names:
                    callback(name, value)

    def ways(self) -> list[str]:
        """Return lines of text: how passes run, when they will be compiled further, and which run in lanes."""
        functions = self._functions
        way = ["compiled quickly" if functions.quick else "compiled"] if functions.account is None else []
        return way + functions.ways()

    def debug_str(self) -> str:
        """Return the graph that runs, with its forward outputs and then its gradients, as text in NNVM's layout.

        The text also has the memory between the executor's arrays, outputs included, as NNVM plans it. XLA plans its
        own: `lowering.compile(symbol).memory()`. No operator uses workspace, so MXNet's last line, which scripts read,
        has 0.
        """
        graph = Symbol(self._ways.full.program(True).program.graph.outputs)
        planned = f"Total {self._ways.full.planned_bytes(self._kinds) >> 20} MB allocated\n"
        return f"{graph.debug_str()}{planned}Total 0 TempSpace resource requested\n"

    def get_optimized_symbol(self) -> Symbol:
        """Return a copy of the forward part as it runs: equal nodes are merged."""
        return self._ways.full.program(True).symbol.copy()

    if not TYPE_CHECKING:  # so that type checkers still see the attributes

        def __getattr__(self, name: str) -> Any:
            unknown_attribute("Executor", name, dir(type(self)))

    def __repr__(self) -> str:
        return f"<Executor {self.symbol!r}, arguments {self.arg_arrays!r}>"
