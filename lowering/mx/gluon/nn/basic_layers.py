"""Containers, and layers without spatial axes: Dense, Dropout, Embedding, Flatten, functions as blocks.

Normalisation is here, too, under MXNet's name of its module.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from lowering.messages.counts import check_count, checks_flags
from lowering.mx import ndarray as nd
from lowering.mx import symbol as sym
from lowering.mx.accepted_types import AxisLike, DType, InitializerLike
from lowering.mx.gluon.basic_block import Block, described
from lowering.mx.gluon.gluon_errors import BlockValueError, MismatchError
from lowering.mx.gluon.hybrid import HybridBlock
from lowering.mx.gluon.nn.activations import Activation
from lowering.mx.gluon.nn.normalization import BatchNorm as BatchNorm
from lowering.mx.gluon.nn.normalization import BatchNormReLU as BatchNormReLU
from lowering.mx.gluon.nn.normalization import GroupNorm as GroupNorm
from lowering.mx.gluon.nn.normalization import InstanceNorm as InstanceNorm
from lowering.mx.gluon.nn.normalization import LayerNorm as LayerNorm
from lowering.mx.gluon.tensor import Tensor
from lowering.mx.shared_arguments import explained_by


class _InARow:
    """What both containers have: blocks that are called one after the other, by number."""

    _in_a_row = True  # such a container has no row in a summary

    _children: Any
    _prefix: str
    name_scope: Any
    register_child: Any

    def add(self, *blocks: Any) -> None:
        """Put blocks at the end."""
        for block in blocks:
            self.register_child(block)

    def __repr__(self) -> str:
        return described(self, self._children)  # pyright: ignore[reportArgumentType]

    def __getitem__(self, key: Any) -> Any:
        layers = list(self._children.values())[key]
        if not isinstance(layers, list):
            return layers
        cls: Any = type(self)
        net = cls(prefix=self._prefix)
        with net.name_scope():
            net.add(*layers)
        return net

    def __len__(self) -> int:
        return len(self._children)


@explained_by(Block)
class Sequential(_InARow, Block):
    """Blocks of any kind, one after the other; `add` appends one."""

    def forward(self, x: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the last block's output."""
        for block in self._children.values():
            x = block(x)
        return x

    @explained_by(Block.hybridize)
    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        """Run each hybrid block as one program; it warns where all are hybrid."""
        if self._children and all(isinstance(child, HybridBlock) for child in self._children.values()):
            warnings.warn(
                f"All children of this Sequential layer '{self.prefix}' are HybridBlocks. Consider using "
                "HybridSequential for the best performance.",
                stacklevel=2,
            )
        super().hybridize(active, **kwargs)


@explained_by(HybridBlock)
class HybridSequential(_InARow, HybridBlock):
    """Hybrid blocks, one after the other, which run as one program; `add` appends one."""

    takes_both_dialects = True

    def hybrid_forward(self, F: Any, x: Tensor) -> Any:
        """Return the last block's output."""
        for block in self._children.values():
            x = block(x)
        return x


class Dense(HybridBlock):
    """A dense layer: activation(x · weightᵀ + bias).

    Args:
        units: the size of the output's last axis.
        activation: the activation after it, such as "relu"; None for none.
        use_bias: whether a bias is added.
        flatten: flatten x to (n, d) first; False keeps all axes except the last.
        dtype: the dtype of the parameters.
        weight_initializer: the initialiser of the weight; None for the network's.
        bias_initializer: the initialiser of the bias.
        in_units: the size of the input; 0: the first call decides.
        kwargs: `prefix` and `params` of the block.
    """

    @checks_flags
    def __init__(
        self,
        units: int,
        activation: str | None = None,
        use_bias: bool = True,
        flatten: bool = True,
        dtype: DType = "float32",
        weight_initializer: InitializerLike = None,
        bias_initializer: InitializerLike = "zeros",
        in_units: int = 0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        check_count(units, "units", 0)
        self._flatten, self._units, self._in_units = flatten, units, in_units
        options = {"dtype": dtype, "allow_deferred_init": True}
        with self.name_scope():
            self.weight = self.params.get("weight", shape=(units, in_units), init=weight_initializer, **options)
            self.bias = self.params.get("bias", shape=(units,), init=bias_initializer, **options) if use_bias else None
            self.act = None if activation is None else Activation(activation, prefix=activation + "_")

    def hybrid_forward(self, F: Any, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
        """(n, units), or (..., units) without flatten."""
        inputs = [x, weight] if bias is None else [x, weight, bias]
        out = F.FullyConnected(*inputs, no_bias=bias is None, num_hidden=self._units, flatten=self._flatten, name="fwd")
        return out if self.act is None else self.act(out)

    def __repr__(self) -> str:
        units, in_units = self.weight.shape
        return f"{type(self).__name__}({in_units or None} -> {units}, {self.act or 'linear'})"


class Dropout(HybridBlock):
    """In training, sets elements to 0 with a probability, and scales the others.

    Args:
        rate: the probability.
        axes: the axes along which all elements are dropped together.
        kwargs: `prefix` and `params` of the block.
    """

    def __init__(self, rate: float, axes: AxisLike = (), **kwargs: Any):
        super().__init__(**kwargs)
        self._rate, self._axes = rate, axes

    def hybrid_forward(self, F: Any, x: Tensor) -> Any:
        """x with elements dropped."""
        if self._rate > 0:
            return F.Dropout(x, p=self._rate, axes=self._axes, name="fwd", cudnn_off=False)
        return F.identity(x)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p = {self._rate}, axes={self._axes})"


class Embedding(HybridBlock):
    """The rows of a matrix (input_dim, output_dim) whose numbers are in x.

    Args:
        input_dim: the number of rows.
        output_dim: the size of a row.
        dtype: the dtype of the parameters.
        weight_initializer: the initialiser of the weight; None for the network's.
        sparse_grad: show the gradient as row_sparse, with the rows that are not zero; it is dense.
        kwargs: `prefix` and `params` of the block.
    """

    @checks_flags
    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        dtype: DType = "float32",
        weight_initializer: InitializerLike = None,
        sparse_grad: bool = False,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self._kwargs = {
            "input_dim": input_dim,
            "output_dim": output_dim,
            "dtype": dtype,
            "sparse_grad": sparse_grad,
        }
        self.weight = self.params.get(
            "weight",
            shape=(input_dim, output_dim),
            init=weight_initializer,
            dtype=dtype,
            allow_deferred_init=True,
            grad_stype="row_sparse" if sparse_grad else "default",
        )

    def hybrid_forward(self, F: Any, x: Tensor, weight: Tensor) -> Any:
        """x's axes, and one of output_dim."""
        return F.Embedding(x, weight, name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        return "{}({input_dim} -> {output_dim}, {dtype})".format(type(self).__name__, **self._kwargs)


@explained_by(HybridBlock)
class Flatten(HybridBlock):
    """Reshapes (n, ...) to (n, d)."""

    def hybrid_forward(self, F: Any, x: Tensor) -> Any:
        """(n, d)."""
        return F.flatten(x)

    def __repr__(self) -> str:
        return type(self).__name__


class Lambda(Block):
    """A function of arrays as a block.

    Args:
        function: the function, or the name of one in mx.nd.
        prefix: the prefix of the block.

    Raises:
        MismatchError: there is no function of that name.
        BlockValueError: `function` is neither a function nor a name.
    """

    def __init__(self, function: str | Callable[..., Any], prefix: str | None = None):
        super().__init__(prefix=prefix)
        if isinstance(function, str):
            _check_names(function, nd)
            self._func_impl = getattr(nd, function)
        elif callable(function):
            self._func_impl = function
        else:
            raise _no_function(function)

    def forward(self, *args: Any) -> Any:
        """Return what the function returns."""
        return self._func_impl(*args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._func_impl.__name__})"


class HybridLambda(HybridBlock):
    """A function (F, x, ...) as a hybrid block.

    Args:
        function: the function, or the name of one in mx.nd and mx.sym.
        prefix: the prefix of the block.

    Raises:
        MismatchError: there is no function of that name.
        BlockValueError: `function` is neither a function nor a name.
    """

    def __init__(self, function: str | Callable[..., Any], prefix: str | None = None):
        super().__init__(prefix=prefix)
        if isinstance(function, str):
            _check_names(function, nd, sym)
            self._func: Callable[..., Any] = lambda F, *args: getattr(F, function)(*args)
            self._func_name = function
        elif callable(function):
            self._func, self._func_name = function, function.__name__
            self.takes_both_dialects = True
        else:
            raise _no_function(function)

    def hybrid_forward(self, F: Any, x: Tensor, *args: Any) -> Any:
        """Return what the function returns."""
        return self._func(F, x, *args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._func_name})"


def _check_names(name: str, *modules: Any) -> None:
    if not all(hasattr(module, name) for module in modules):
        where = "/".join(module.__name__.rpartition(".")[2] for module in reversed(modules))
        raise MismatchError(f"Function name {name} is not found in {where}.")


def _no_function(function: Any) -> BlockValueError:
    return BlockValueError(f"Unrecognized function in lambda: {function!r:.80} of type {type(function)}")
