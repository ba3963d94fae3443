"""`bind` and `simple_bind`: a graph and its arrays become an executor."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, Sharding
from numpy.typing import DTypeLike

from lowering.convolutions.backends import OWNED
from lowering.core.cache import Programs
from lowering.core.chosen_options import DATA_AXIS, chosen_options, on_mesh
from lowering.executor.bound_arrays import Alias, ArrayCell, Cell, OwnCell, Place, array_like
from lowering.executor.bound_graph import Executor
from lowering.executor.ways import Ways
from lowering.jax_casts import is_narrowed
from lowering.messages.arguments import as_array, misfit, prng_key, require_symbol, shapes_by_name
from lowering.messages.migration_hints import keyword_hint, with_migration_hints
from lowering.sharding.ctx_groups import places_of_groups
from lowering.sharding.explicit_axes import chosen_mesh, on_auto_axes
from lowering.sharding.placement import check_fits
from lowering.xla.platforms import device_of, kind_of
from symjax_nnvm.check.remedies import dtype_remedy, shape_remedy
from symjax_nnvm.errors import (
    BindError,
    CallError,
    ExecutorTypeError,
    ExecutorValueError,
    InferenceError,
    NNVMError,
    SymbolTypeError,
    close_names,
    cut,
    explain,
    listed,
    refuse_unknown,
)
from symjax_nnvm.ir.rules.quantized_form import QUANTIZED
from symjax_nnvm.ir.rules.quantized_parameters import refuse_wrong_parameters
from symjax_nnvm.ir.types import DType, dtype_name, is_known, shape_from_legacy, shape_from_numpy, shape_to_numpy
from symjax_nnvm.passes.infer import infer_shape, infer_type
from symjax_nnvm.passes.mirror import Mirror
from symjax_nnvm.pipeline import ANY, Options
from symjax_nnvm.symbol.symbol import Symbol

GradReq = str | Sequence[str] | Mapping[str, str] | None
Context = Any
"""A `jax.Device`, the name of a platform, or None."""
Groups = tuple[tuple[str, Hashable], ...] | None
"""The device of each `ctx_group`, as `Options.groups` has them."""
Given = Sequence[Any] | Mapping[str, Any]

_REQUESTS = ("write", "add", "null")

_SHOWN = 12
"""Lines of shapes or dtypes that an error shows."""

_SIMPLE_BIND = "lowering.simple_bind(symbol, data=(32, 3, 224, 224))"
_BIND = "lowering.bind(symbol, args=args | {'data': x}, aux=aux)"


class _Network:
    """The network to be bound: its programs, and the variables of its graph, which is indexed once."""

    def __init__(self, symbol: Symbol):
        self.programs = Programs(symbol)
        self.symbol = symbol
        self.graph = self.programs.pipeline.graph
        index = self.graph.indexed_graph()
        mutable = index.mutable_input_nodes
        self._args = [nid for nid in index.input_nodes if nid not in mutable]
        self._aux = [nid for nid in index.input_nodes if nid in mutable]
        self.arguments, self.states = ([index.nodes[nid].source.name for nid in ids] for ids in (self._args, self._aux))
        self.inputs = index.input_names

    def shapes(self, named_shapes: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
        """Return shapes of arguments and states that follow from the given ones, or None. Raises InferenceError."""
        numpy = self.symbol.numpy_shapes
        read = shape_from_numpy if numpy else shape_from_legacy
        known_shapes = {name: read(tuple(int(dim) for dim in shape)) for name, shape in named_shapes.items()}
        graph = self.graph.derive(attrs={**self.graph.attrs, "numpy_shapes": numpy})
        return self._variables(infer_shape(graph, shapes=known_shapes).attrs["shape"])

    def dtypes(self, named_dtypes: Mapping[str, Any], narrowed: bool = False) -> tuple[list[Any], list[Any]]:
        """Return dtypes of arguments and states by name. narrowed: those of 64 bits are as those of 32.

        Raises InferenceError, SymbolTypeError for anything that is not a dtype.
        """
        known_dtypes: dict[str, DType | None] = {}
        for name, dtype in named_dtypes.items():
            try:
                known_dtypes[name] = None if dtype is None else dtype_name(dtype)
            except ValueError as error:
                raise SymbolTypeError(f"Argument '{name}' needs a dtype: {error}") from None
        return self._variables(infer_type(self.graph, dtypes=known_dtypes, narrowed=narrowed).attrs["dtype"])

    def undeclared(self) -> list[str]:
        """Return the arguments whose dtype no attribute declares."""
        nodes = self.graph.indexed_graph().nodes
        sources = (nodes[nid].source for nid in self._args)
        return [source.name for source in sources if "__dtype__" not in source.attrs.dict]

    def _variables(self, entries: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        starts = self.graph.indexed_graph().entry_rptr
        return [entries[starts[nid]] for nid in self._args], [entries[starts[nid]] for nid in self._aux]


@with_migration_hints("simple_bind", _SIMPLE_BIND)
def simple_bind(
    symbol: Symbol,
    ctx: Context = None,
    grad_req: GradReq = "write",
    type_dict: Mapping[str, Any] | None = None,
    *,
    group2ctx: Mapping[str, Context] | None = None,
    shared_exec: Executor | None = None,
    shared_arg_names: Sequence[str] | None = None,
    seed: int | jax.Array = 0,
    mirror: Mirror = None,
    compute_dtype: DTypeLike | None = None,
    mesh: Any = None,
    data_axis: str | Sequence[str] = DATA_AXIS,
    effort: str | None = None,
    **shapes: Sequence[int],
) -> Executor:
    """Return an executor with new arrays, all zeros, whose shapes follow from the given ones.

    Args:
        symbol: the network.
        ctx: a `jax.Device`, or "cpu", "gpu" or "tpu"; None for where JAX puts arrays.
        grad_req: "write", "add" or "null": one for all arguments, a list in their order, or a dict by name, where a
            missing name means "null". None means "null" for all.
        type_dict: dtypes by name, from which the others follow; every other argument that declares no dtype is float32.
        group2ctx: as in `bind`.
        shared_exec: an executor whose auxiliary states are shared, and its arguments named in `shared_arg_names` with
            their gradients: both executors see every write.
        shared_arg_names: names of the arguments to share.
        seed: a number or a PRNG key for random operators; every forward pass draws new numbers.
        mirror: what the backward part computes again instead of keeping it, as in `grad_fn`.
        compute_dtype: as in `to_jax`.
        mesh: as in `to_jax`; None for that of the arrays.
        data_axis: as in `to_jax`.
        effort: how programs are made: "auto", "quick" or "full", as in `lowering.effort`; None for the effort of the
            block around a pass.
        shapes: shapes of arguments or auxiliary states by name.

    Raises:
        BindError: the shapes contradict each other or do not decide all others, or the graph does not have a name.
        ExecutorValueError: `grad_req` is wrong.
    """
    device = _device(ctx)
    network = _Network(require_symbol(symbol, "simple_bind"))
    _check_names(network)
    given_shapes = _checked_shapes(network, shapes)
    requests = _grad_requests(network, grad_req, "simple_bind")
    try:
        arg_shapes, aux_shapes = _decided_shapes(network, given_shapes)
        arg_types, aux_types = _decided_types(network, type_dict)
        names = (*network.arguments, *network.states)
        sizes = dict(zip(names, (*arg_shapes, *aux_shapes), strict=True))
        places, groups = _places(symbol, group2ctx, device, sizes)
    except NNVMError as error:
        listing = "".join(f"{name}: {shape}\n" for name, shape in given_shapes.items())
        remedy = shape_remedy(symbol, given_shapes) if isinstance(error, InferenceError) else ""
        raise BindError(f"simple_bind error. Arguments:\n{listing}{error} {remedy}".rstrip()) from error

    def new(names: Sequence[str], shapes: Sequence[Any], dtypes: Sequence[Any]) -> list[ArrayCell]:
        triples = zip(names, shapes, dtypes, strict=True)
        return [OwnCell.zeros(n, shape, jax.dtypes.canonicalize_dtype(t), places[n]) for n, shape, t in triples]

    args = new(network.arguments, arg_shapes, arg_types)
    aux = new(network.states, aux_shapes, aux_types)
    pairs = zip(args, requests, strict=True)
    grads = [
        None if req == "null" else OwnCell.zeros(cell.name, cell.shape, cell.dtype, cell.place) for cell, req in pairs
    ]
    if shared_exec is not None:
        _share(shared_exec, shared_arg_names or (), args, grads, aux)
    options = chosen_options(Options(mirror=mirror, groups=groups), compute_dtype, mesh, data_axis)
    return _executor(network, args, grads, aux, requests, seed, options, effort)


@with_migration_hints("bind", _BIND)
def bind(
    symbol: Symbol,
    ctx: Context = None,
    args: Given | None = None,
    args_grad: Given | None = None,
    grad_req: GradReq = "write",
    aux: Given | None = None,
    group2ctx: Mapping[str, Context] | None = None,
    *,
    seed: int | jax.Array = 0,
    mirror: Mirror = None,
    compute_dtype: DTypeLike | None = None,
    mesh: Any = None,
    data_axis: str | Sequence[str] = DATA_AXIS,
    effort: str | None = None,
) -> Executor:
    """Return an executor over the caller's arrays.

    Arrays that are spread over several devices stay so; a value that is written to one by name is spread like it.

    Args:
        symbol: the network.
        ctx: the device to move the arrays to, as in `simple_bind`; None leaves them where they are.
        args: every argument: a list in the order of `symbol.list_arguments()`, or a dict by name, which may hold more.
        args_grad: arrays that gradients are written or added to, likewise. A gradient whose name is missing, or whose
            array is None, is not computed, whatever `grad_req` is.
        grad_req: as in `simple_bind`.
        aux: every auxiliary state, likewise.
        group2ctx: for each `ctx_group` in the graph (all must be there) a `jax.sharding.NamedSharding`, which says how
            a mesh splits the arrays of its variables; all other arrays are whole on every device. Or, as in MXNet, a
            device, which holds the group's variables and runs its operators; what is in no group follows its inputs,
            or runs on `ctx`. Values that cross are copied, and gradients are computed where the forward part is.
        seed: as in `simple_bind`.
        mirror: as in `grad_fn`.
        compute_dtype: as in `to_jax`.
        mesh: as in `to_jax`; None for that of the arrays.
        data_axis: as in `to_jax`.
        effort: as in `simple_bind`.

    Raises:
        ExecutorValueError: an array is missing or unknown.
        ExecutorTypeError: a value is not an array.
        BindError: shapes or dtypes contradict the graph; the message lists them.
    """
    device = _device(ctx)
    network = _Network(require_symbol(symbol, "bind"))
    _check_names(network)
    names, aux_names = network.arguments, network.states
    _check_present(network, args, aux)
    arg_arrays = _arrays("args", names, args if args is not None else [], partial=False)
    aux_arrays = _arrays("aux", aux_names, aux if aux is not None else [], partial=False)
    grad_arrays = None if args_grad is None else _arrays("args_grad", names, args_grad, partial=True)
    shapes = {n: np.shape(a) for n, a in zip((*names, *aux_names), (*arg_arrays, *aux_arrays), strict=True)}
    places, groups = _places(symbol, group2ctx, device, shapes)
    arg_cells, aux_cells = _cells(names, arg_arrays, places), _cells(aux_names, aux_arrays, places)
    grads = None if grad_arrays is None else _cells(names, grad_arrays, places)
    requests = _grad_requests(network, grad_req, "bind")
    requests = (
        ["null"] * len(names) if grads is None else [r if g else "null" for r, g in zip(requests, grads, strict=True)]
    )
    cells = [cell for cell in (*arg_cells, *aux_cells) if cell is not None]
    refuse_wrong_parameters(names, {cell.name: cell.value for cell in cells if QUANTIZED in cell.name})
    _check_fit(network, cells)
    for arg, grad in zip(arg_cells, grads or (), strict=False):
        if arg and grad and (grad.shape, _held_in(grad)) != (arg.shape, _held_in(arg)):
            expected, got = f"{arg.dtype.name}{arg.shape}", f"{grad.dtype.name}{grad.shape}"
            raise BindError(f"The gradient array does not fit argument {arg.name!r}", expected=expected, got=got)
    arguments, states = cells[: len(names)], cells[len(names) :]
    options = chosen_options(Options(mirror=mirror, groups=groups), compute_dtype, mesh, data_axis)
    return _executor(network, arguments, grads, states, requests, seed, options, effort)


def _held_in(cell: ArrayCell) -> np.dtype:
    """Return the dtype that a cell's numbers are computed in: of 64 bits where JAX has them."""
    return jax.dtypes.canonicalize_dtype(cell.dtype)


def _executor(
    network: _Network,
    args: Sequence[ArrayCell],
    grads: Sequence[ArrayCell | None] | None,
    aux: Sequence[ArrayCell],
    requests: Sequence[str],
    seed: int | jax.Array,
    options: Options,
    effort: str | None,
) -> Executor:
    cells = (*args, *aux)
    place = next((cell.place for cell in cells), None)
    layouts = (cell.value.sharding for cell in cells)
    platform = None if place is None else _platform(place)
    if options.groups is not None:
        platform, *others = {kind_of(device) for _, device in options.groups}
        platform = ANY if others else platform
    options = replace(
        options,
        is_train=True,
        wrt=tuple(cell.name for cell, req in zip(args, requests, strict=True) if req != "null"),
        platform=platform,
        shapes=tuple((cell.name, cell.shape) for cell in cells) if options.mirror == "blocks" else None,
        backend=None if platform == ANY else OWNED,
    )
    if options.mesh is None:
        mesh = next((layout.mesh for layout in layouts if isinstance(layout, NamedSharding)), None)
        options = on_mesh(options, chosen_mesh(mesh))
    ways = Ways(network.programs, options, effort)
    return Executor(ways, args, grads, aux, requests, prng_key(seed))


# -- arguments of the caller -----------------------------------------------------------------------------------------


def _device(ctx: Context) -> Place:
    if ctx is None or isinstance(ctx, jax.Device):
        return ctx
    if isinstance(ctx, str):
        return device_of(ctx)
    raise ExecutorTypeError(f'Context type error: expected a jax.Device, "cpu", "gpu", "tpu" or None, got {ctx!r}')


def _check_names(network: _Network) -> None:
    for what, names in (("arguments", network.arguments), ("auxiliary states", network.states)):
        repeated = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
        if repeated:
            raise ExecutorValueError(
                f"Duplicate names detected among the {what}: {listed(repeated)}. Give every variable its own name."
            )


def _grad_requests(network: _Network, grad_req: GradReq, where: str) -> list[str]:
    """Return the request of each argument: write, add or null. Raises ExecutorValueError."""
    names = network.arguments
    match grad_req:
        case None:
            requests = ["null"] * len(names)
        case str():
            requests = [grad_req] * len(names)
        case Mapping():
            refuse_unknown(ExecutorValueError, "grad_req has unknown arguments", grad_req, names, "names")
            requests = [grad_req.get(name, "null") for name in names]
        case _:
            requests = list(grad_req)
    if names and not isinstance(grad_req, str) and grad_req is not None and not len(grad_req):
        raise ExecutorValueError(f"grad_req in {where} cannot be an empty list or dict; None means null for all")
    if len(requests) != len(names):
        raise ExecutorValueError(
            f"The length of grad_req list does not match the number of input arguments in {where}, expected "
            f"{len(names)}, provided {len(requests)}"
        )
    for request in requests:
        if request not in _REQUESTS:
            raise ExecutorValueError(
                f"grad_req={request} is not a valid input in {where}; only 'null', 'write', and 'add' are supported"
            )
    return requests


def _check_present(network: _Network, args: Given | None, aux: Given | None) -> None:
    """Raise ExecutorValueError for dicts that lack an array; they may have more."""
    for what, arrays, names in (
        ("args", args, network.arguments),
        ("aux", aux, network.states),
    ):
        missing = [name for name in names if name not in arrays] if isinstance(arrays, Mapping) else []
        if missing:
            named, states = (arrays.keys() if isinstance(arrays, Mapping) else () for arrays in (args, aux))
            so = f", and so are {listed(missing[1:])}" if missing[1:] else ""
            raise ExecutorValueError(
                f"key `{missing[0]}` is missing in `{what}`{so}. {misfit(network.symbol, named, states)}"
            )


def _arrays(what: str, names: Sequence[str], argument: Given, *, partial: bool) -> list[Any]:
    """Return an array for each name, which dicts are known to have; None where partial arrays leave one out."""
    if isinstance(argument, Mapping):
        arrays = [argument.get(name) for name in names]
    elif isinstance(argument, list):
        if len(argument) != len(names):
            raise ExecutorValueError(
                f"Length of {what} does not match the number of arguments: {len(argument)} for {listed(names)}. "
                f"A dict by name is safer: {_BIND}."
            )
        arrays = argument
    else:
        raise ExecutorTypeError(
            f"Only accept list of NDArrays or dict of str to NDArray as {what}, got {type(argument).__name__}. For "
            f"example: {_BIND}."
        )
    for name, array in zip(names, arrays, strict=True):
        if not array_like(array) and not (partial and array is None):
            raise ExecutorTypeError(f"Only accept arrays in {what}, got {type(array).__name__} for {name}")
    return arrays


def _cells(names: Sequence[str], arrays: Sequence[Any], places: Mapping[str, Place]) -> list[ArrayCell | None]:
    pairs = zip(names, arrays, strict=True)
    return [None if array is None else _cell_of(name, array, places[name]) for name, array in pairs]


def _cell_of(name: str, array: Any, place: Place) -> ArrayCell:
    """Return a new cell of an array; or the given cell itself, which its owner may still write, and which may have
    another name in another graph, or in this one."""
    if isinstance(array, OwnCell) and array.name in ("", name) and array.place == place:
        array.name = name
        return array
    if isinstance(array, Cell):
        if array.place == place:
            return Alias(name, array)
        array = array.show()
    # A copy by NumPy: `jnp.array` compiles one for every shape.
    if isinstance(array, jax.Array):
        value = on_auto_axes(array)
    else:
        value = jax.device_put(np.array(as_array(array, name, ExecutorTypeError)), place)
    if value.weak_type:  # would have the graph compiled anew when it is written
        value = value.astype(value.dtype)
    return OwnCell(name, value if place is None else jax.device_put(value, place), place, shown=True)


def _places(
    symbol: Symbol, group2ctx: Mapping[str, Context] | None, device: Place, shapes: Mapping[str, tuple[int, ...]]
) -> tuple[dict[str, Place], Groups]:
    """Give places of arrays by name, and the devices of groups.

    Raises what `places_of_groups` raises, and TrainingError for what cannot be split."""
    if group2ctx is None:
        return dict.fromkeys(shapes, device), None
    of_groups = {name: ctx if isinstance(ctx, NamedSharding) else _device(ctx) for name, ctx in group2ctx.items()}
    places, groups = places_of_groups(symbol, of_groups, device)
    for name, place in places.items():
        if isinstance(place, NamedSharding):
            check_fits(place.mesh, place.spec, name, shapes[name])
    return {name: places.get(name, device) for name in shapes}, groups


def _platform(place: Place) -> str:
    return kind_of(next(iter(place.device_set)) if isinstance(place, Sharding) else place)


# -- inferred shapes and dtypes --------------------------------------------------------------------------------------


def _checked_shapes(network: _Network, shapes: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return shapes by name. Raises BindError for keywords that are not variables, and for anything that is not a
    shape."""
    inputs = network.inputs
    unknown = [name for name in shapes if name not in inputs]
    if unknown:
        listing = "".join(f"{name}: {cut(repr(value), 80)}\n" for name, value in shapes.items())
        hints = " ".join(filter(None, (keyword_hint("simple_bind", name, inputs) for name in unknown[:3])))
        problem = explain(f"The graph has no {listed(unknown)}", expected=f"shapes of {listed(inputs)}", fix=hints)
        raise BindError(f"simple_bind error. Arguments:\n{listing}{problem}")
    try:
        return shapes_by_name(shapes, "shapes", _SIMPLE_BIND)
    except CallError as error:
        raise BindError(f"simple_bind error. Keywords need to be shapes: {error}") from error


def _decided_shapes(network: _Network, shapes: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """Return shapes of all arguments and states. Raises BindError for shapes that stay undecided."""
    arg_shapes, aux_shapes = network.shapes(shapes)
    named = zip((*network.arguments, *network.states), (*arg_shapes, *aux_shapes), strict=True)
    undecided = [(name, shape) for name, shape in named if not is_known(shape)]
    if undecided:
        listed = "".join(f"{name}: {shape_to_numpy(shape)}, " for name, shape in undecided[:10])
        raise BindError(
            "InferShape pass cannot decide shapes for the following arguments (-1 means unknown dimensions). Please "
            f"consider providing them as inputs:\n{listed}"
        )
    return arg_shapes, aux_shapes


def _decided_types(network: _Network, type_dict: Mapping[str, Any] | None) -> tuple[list[Any], list[Any]]:
    """Return dtypes of all arguments and states. Raises BindError."""
    if not isinstance(type_dict, Mapping | None):
        expected = "a dict of dtypes by name"
        raise CallError("Wrong argument", param="type_dict", expected=expected, got=f"{type_dict!r:.80}")
    unknown = [name for name in type_dict or () if name not in network.inputs]
    if unknown:
        fix = close_names(unknown, network.inputs) or None
        raise BindError(f"The graph has no {listed(unknown)}", expected=f"dtypes of {listed(network.inputs)}", fix=fix)
    dtypes = dict.fromkeys(network.undeclared(), "float32") if type_dict is None else type_dict
    arg_types, aux_types = network.dtypes(dtypes)
    named = zip((*network.arguments, *network.states), (*arg_types, *aux_types), strict=True)
    undecided = [name for name, dtype in named if dtype is None]
    if undecided:
        raise BindError(
            "InferType pass cannot decide types for the following arguments. Please consider providing them in "
            f"type_dict:\n{', '.join(undecided[:10])}"
        )
    return arg_types, aux_types


def _check_fit(network: _Network, cells: Sequence[ArrayCell]) -> None:
    """Raise BindError when shapes or dtypes contradict the graph."""
    shapes = {cell.name: cell.shape for cell in cells}
    dtypes = {cell.name: cell.dtype.name for cell in cells}
    infer_dtypes = partial(network.dtypes, narrowed=is_narrowed(np.dtype("float64")))
    checks: Any = ((network.shapes, shapes, shape_remedy), (infer_dtypes, dtypes, dtype_remedy))
    for infer, values, remedy in checks:
        try:
            infer(values)
        except InferenceError as error:
            listing = [f"{name}: {value}\n" for name, value in values.items()]
            shown = "".join(listing[:_SHOWN]) + (f"and {len(listing) - _SHOWN} more\n" if len(listing) > _SHOWN else "")
            advice = remedy(network.symbol, values)
            raise BindError(f"bind error. Arguments:\n{shown}{error} {advice}".rstrip()) from error


def _share(
    executor: Executor,
    shared_arg_names: Sequence[str],
    args: list[ArrayCell],
    grads: list[ArrayCell | None],
    aux: list[ArrayCell],
) -> None:
    """Put cells of another executor in place of new ones. Raises BindError when they do not fit."""
    arg_cells, grad_cells, aux_cells = executor.cells()
    unknown = [name for name in shared_arg_names if name not in arg_cells or name not in {cell.name for cell in args}]
    if unknown:
        raise BindError(f"shared_exec and the graph do not both have {listed(unknown)}", fix="Name common arguments.")

    def shared(cell: ArrayCell, other: ArrayCell) -> ArrayCell:
        if (cell.shape, cell.dtype) != (other.shape, other.dtype):
            expected, got = f"{cell.dtype.name}{cell.shape}", f"{other.dtype.name}{other.shape}"
            raise BindError(f"Array {cell.name!r} of shared_exec does not fit the graph", expected=expected, got=got)
        return other

    for i, cell in enumerate(args):
        if cell.name in shared_arg_names:
            args[i] = shared(cell, arg_cells[cell.name])
            grad, other = grads[i], grad_cells.get(cell.name)
            if grad is not None and other is not None:
                grads[i] = shared(grad, other)
    for i, cell in enumerate(aux):
        if cell.name in aux_cells:
            aux[i] = shared(cell, aux_cells[cell.name])
