"""`Block`: a network of layers in Python, with its parameters, its children and their names."""

from __future__ import annotations

import re
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Self

from lowering.messages.counts import checks_flags
from lowering.messages.doors import Door, door_of, refuse_unbound
from lowering.mx import init as initializers
from lowering.mx.accepted_types import ContextsLike, DType
from lowering.mx.gluon.block_files import load_tree, save_tree
from lowering.mx.gluon.block_summary import print_summary
from lowering.mx.gluon.gluon_errors import BlockTypeError, BlockValueError, MismatchError
from lowering.mx.gluon.parameter_dict import ParameterDict
from lowering.mx.gluon.utils import HookHandle, _brief_print_list, _indent
from lowering.mx.gluon.weights import Parameter
from lowering.mx.name import NameManager, Prefix
from lowering.mx.ndarray import save
from lowering.mx.ndarray.saved_arrays import load_named
from lowering.mx.shared_arguments import explained_by
from symjax_nnvm.symbol.scope import next_number


class _BlockScope:
    """The names of blocks that are made inside a block's `name_scope()`."""

    _current = threading.local()

    def __init__(self, block: Block):
        self._block = block
        self._counter: dict[str, int] = {}
        self._outer: list[tuple[_BlockScope | None, Prefix]] = []

    @staticmethod
    def create(prefix: str | None, params: ParameterDict | None, hint: str) -> tuple[str, ParameterDict]:
        """Return (prefix, parameters) of a new block. hint: its class in lower case, which is numbered where prefix is
        None: by the current scope, or among blocks that have none by `mx.name.NameManager`."""
        scope: _BlockScope | None = getattr(_BlockScope._current, "value", None)
        if prefix is None:
            if scope is None:
                prefix = NameManager.current.get(None, hint) + "_"
            else:
                prefix = f"{hint}{next_number(scope._counter, hint)}_"
        outer = "" if scope is None else scope._block.prefix
        if params is not None:
            params = ParameterDict(params.prefix, params)
        elif scope is None:
            params = ParameterDict(prefix)
        else:
            parent = scope._block.params
            params = ParameterDict(parent.prefix + prefix, parent._shared)
        return outer + prefix, params

    def __enter__(self) -> Self:
        if not self._block._empty_prefix:
            names = Prefix(self._block.prefix)
            self._outer.append((getattr(_BlockScope._current, "value", None), names))
            _BlockScope._current.value = self
            names.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        if not self._block._empty_prefix:
            before, names = self._outer.pop()
            names.__exit__(*raised)
            _BlockScope._current.value = before


class Block:
    """The base class of layers and networks.

    A subclass makes its children and parameters in `__init__`, as attributes, and must define `forward(self, *args)`,
    which computes with NDArrays.

    Args:
        prefix: the beginning of the names of all parameters inside; None for the class name in lower case with a
            number.
        params: a ParameterDict whose parameters are shared by name.
    """

    @checks_flags
    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None):
        self._empty_prefix = prefix == ""
        self._prefix, self._params = _BlockScope.create(prefix, params, self._alias())
        self._name = self._prefix.removesuffix("_")
        self._scope = _BlockScope(self)
        self._children: OrderedDict[str, Block] = OrderedDict()
        self._reg_params: dict[str, Parameter] = {}
        self._forward_hooks: OrderedDict[Any, Callable[..., Any]] = OrderedDict()
        self._forward_pre_hooks: OrderedDict[Any, Callable[..., Any]] = OrderedDict()

    def __repr__(self) -> str:
        return described(self, {name: value for name, value in vars(self).items() if isinstance(value, Block)})

    def __setattr__(self, name: str, value: Any) -> None:
        existing = getattr(self, name, None)
        if isinstance(existing, Parameter | Block) and not isinstance(value, type(existing)):
            raise BlockTypeError(
                f"Changing attribute type for {name} from {type(existing)} to {type(value)} is not allowed."
            )
        if isinstance(value, Block):
            self.register_child(value, name)
        elif isinstance(value, Parameter):
            if name in self._reg_params:
                problem = f"Overriding Parameter attribute {name} is not allowed."
                raise MismatchError(problem, fix="To share parameters between blocks, give params= to the block.")
            self._reg_params[name] = value
        super().__setattr__(name, value)

    def _alias(self) -> str:
        """Return the word that numbers make a prefix of."""
        return type(self).__name__.lower()

    # -- names, children, parameters ---------------------------------------------------------------------------------

    @property
    def prefix(self) -> str:
        """Return the beginning of the parameters' names."""
        return self._prefix

    @property
    def name(self) -> str:
        """Return the prefix without the underscore at its end."""
        return self._name

    @property
    def params(self) -> ParameterDict:
        """Return the parameters of this block, without those of its children."""
        return self._params

    def name_scope(self) -> _BlockScope:
        """Return a `with` block in which new blocks and parameters get this block's prefix."""
        return self._scope

    def register_child(self, block: Block, name: str | None = None) -> None:
        """Add a block as a child; a block that is assigned to an attribute is added automatically.

        Args:
            block: the child.
            name: its name; None for its number.
        """
        self._children[str(len(self._children)) if name is None else name] = block

    @checks_flags
    def collect_params(self, select: str | None = None) -> ParameterDict:
        """Return the parameters of this block and, in order, of its children.

        Args:
            select: a regular expression that names must match from their beginning, such as ".*weight|.*bias"; None for
                all.
        """
        self._warn_of_unregistered()
        params = ParameterDict(self._params.prefix)
        matches = re.compile(select or "").match
        params.update({name: param for name, param in self.params.items() if matches(name)})
        for child in self._children.values():
            params.update(child.collect_params(select=select))
        return params

    def _warn_of_unregistered(self) -> None:
        """Warn about blocks in lists and dicts, which are not children."""
        children = set(self._children.values())
        for name, value in vars(self).items():
            contained = _blocks_in(value) if name != "_children" and isinstance(value, list | tuple | dict) else ()
            if any(block not in children for block in contained):
                warnings.warn(
                    f'"{type(self).__name__}.{name}" is an unregistered container with Blocks. Note that Blocks '
                    "inside the list, tuple or dict will not be registered automatically. Make sure to register "
                    "them using register_child() or switching to nn.Sequential/nn.HybridSequential instead. ",
                    stacklevel=3,
                )

    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, Parameter]:
        """Return parameters by structural names: attributes from the root on, with dots."""
        prefix = prefix + "." if prefix else ""
        params = {prefix + name: param for name, param in self._reg_params.items()}
        for name, child in self._children.items():
            params |= child._collect_params_with_prefix(prefix + name)
        return params

    @checks_flags
    @explained_by(ParameterDict.initialize)
    def initialize(
        self, init: Any = None, ctx: ContextsLike = None, verbose: bool = False, force_reinit: bool = False
    ) -> None:
        """Initialise all parameters."""
        init = initializers.create("uniform") if init is None else init
        self.collect_params().initialize(init, ctx, verbose, force_reinit)

    @checks_flags
    def apply(self, fn: Callable[[Block], Any]) -> Self:
        """Call a function with each child, then with this block, and return this block."""
        for child in self._children.values():
            child.apply(fn)
        fn(self)
        return self

    def cast(self, dtype: DType) -> None:
        """Convert the parameters to another dtype."""
        for child in self._children.values():
            child.cast(dtype)
        for param in self.params.values():
            param.cast(dtype)

    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        """Run each hybrid child as one program.

        Args:
            active: False runs them operator by operator again.
            kwargs: as in `HybridBlock.hybridize`.
        """
        for child in self._children.values():
            child.hybridize(active, **kwargs)

    # -- files -------------------------------------------------------------------------------------------------------

    def save_parameters(self, filename: str, deduplicate: bool = False) -> None:
        """Write the parameters to a file of arrays, under structural names: "features.0.weight".

        Args:
            filename: the file's path.
            deduplicate: write a shared parameter once, under the last of its names.
        """
        params = self._collect_params_with_prefix()
        if deduplicate:
            names = {param: name for name, param in params.items()}
            params = {name: param for param, name in names.items()}
        save(filename, {name: param._to_save() for name, param in params.items()})

    @checks_flags
    @explained_by(ParameterDict.load)
    def load_parameters(
        self,
        filename: str,
        ctx: ContextsLike = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Load the parameters from a file, whose names are structural, or whole ones where no name has a dot.

        Args:
            ignore_extra: ignore names that the block does not have.

        Raises:
            MismatchError: the file does not have a parameter, or a shape or dtype differs; the error is an
                AssertionError, too.
            BlockValueError: the block does not have a name.
        """
        loaded, params = load_named(filename, "a network"), self._collect_params_with_prefix()
        if not loaded and not params:
            return
        if not any("." in name for name in loaded):
            options = ctx, allow_missing, ignore_extra, self.prefix, cast_dtype, dtype_source
            self.collect_params().load(filename, *options)
            return
        if not allow_missing:
            present = {params[name] for name in loaded if name in params}
            for name, param in params.items():
                if param not in present:
                    raise MismatchError(
                        f"Parameter '{name}' is missing in file '{filename}', which contains parameters: "
                        f"{_brief_print_list(loaded)}",
                        fix="Set allow_missing=True to ignore missing parameters.",
                    )
        for name, value in loaded.items():
            if name in params:
                params[name]._load_init(value, ctx, cast_dtype=cast_dtype, dtype_source=dtype_source)
            elif not ignore_extra:
                raise BlockValueError(
                    f"Parameter '{name}' loaded from file '{filename}' is not present in ParameterDict, which contains "
                    f"parameters {_brief_print_list(params)}",
                    fix="Set ignore_extra=True to ignore.",
                )

    def save(self, prefix: str) -> None:
        """Write `prefix-model.json`, the tree of blocks, and `prefix-model.params`."""
        save_tree(self, f"{prefix}-model.json")
        self.save_parameters(f"{prefix}-model.params")

    def load(self, prefix: str) -> None:
        """Load what `save` wrote for a network made by the same code: names, parameters and traced graphs.

        Hybrid blocks run the traced graphs from now on.

        Args:
            prefix: the part of the path before `-model.json`.

        Raises:
            MismatchError: the files are of another network.
        """
        load_tree(self, f"{prefix}-model.json")
        self.load_parameters(f"{prefix}-model.params")

    def save_params(self, filename: str) -> None:
        """Write the parameters under their whole names without the block's prefix; deprecated."""
        warnings.warn("save_params is deprecated. Please use save_parameters.", stacklevel=2)
        self.collect_params().save(filename, strip_prefix=self.prefix)

    def load_params(
        self, filename: str, ctx: ContextsLike = None, allow_missing: bool = False, ignore_extra: bool = False
    ) -> None:
        """Call `load_parameters`; deprecated."""
        warnings.warn("load_params is deprecated. Please use load_parameters.", stacklevel=2)
        self.load_parameters(filename, ctx, allow_missing, ignore_extra)

    # -- running -----------------------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What `forward` returns for these arguments; hooks run before and after. Raises CallError, a TypeError, for
        arguments by name, which MXNet's blocks do not take, and for a wrong number of them."""
        if kwargs:
            raise self._door().refusal(args, kwargs)
        for hook in self._forward_pre_hooks.values():
            hook(self, args)
        try:
            out = self.forward(*args)
        except TypeError as error:
            refuse_unbound(error, self._door(), args, kwargs)
        for hook in self._forward_hooks.values():
            hook(self, args, out)
        return out

    def _door(self) -> Door:
        """Return the `Door` of the block: what messages show as a call of it."""
        return door_of(type(self).__name__, self.forward)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the outputs for inputs; a subclass must define it."""
        raise NotImplementedError(f"{type(self).__name__} must define forward(self, *args)")

    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call `hook(block, input)` before `forward`; the returned handle can detach it."""
        return _attached(self._forward_pre_hooks, hook)

    def register_forward_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call `hook(block, input, output)` after `forward`; the returned handle can detach it."""
        return _attached(self._forward_hooks, hook)

    def register_op_hook(self, callback: Callable[..., Any], monitor_all: bool = False) -> None:
        """Call `callback(name, operator, array)` for the operators of all hybrid blocks inside.

        Args:
            callback: as in `HybridBlock.register_op_hook`.
            monitor_all: report inputs as well.
        """
        for child in self._children.values():
            child.register_op_hook(callback, monitor_all)

    def summary(self, *inputs: Any) -> None:
        """Print each layer's output shape and number of parameters; the network must not be hybridised.

        Args:
            inputs: inputs of one call.
        """
        print_summary(self, *inputs)


def described(block: Block, children: Any) -> str:
    """The text of a block and, indented, of its children by name."""
    rows = "\n".join(f"  ({name}): {_indent(repr(child), 2)}" for name, child in children.items())
    return f"{type(block).__name__}(\n{rows}\n)"


def _attached(hooks: Any, hook: Callable[..., Any]) -> HookHandle:
    handle = HookHandle()
    handle.attach(hooks, hook)
    return handle


def _blocks_in(value: Any) -> Iterator[Block]:
    """Yield the blocks in lists, tuples and dicts."""
    if isinstance(value, Block):
        yield value
    elif isinstance(value, list | tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _blocks_in(item)


def has_hooks(block: Block) -> bool:
    """Whether functions are called before or after a block."""
    return bool(block._forward_hooks or block._forward_pre_hooks)
