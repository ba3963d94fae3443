"""Methods that arrays and symbols of the NumPy dialect share: Python's operators, and functions as methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

from lowering.mx.accepted_types import AxisLike, DType, ShapeLike
from lowering.mx.numpy import axis_reductions, elementwise, rearranging
from lowering.mx.numpy.operators import Operators, require_order
from symjax_nnvm.errors import SymbolTypeError


def _operation(function: str, reflected: bool) -> Callable[[Any, Any], Any]:
    """Return the method of one of Python's operators."""

    def method(self: Methods, other: Any) -> Any:
        if reflected:
            return elementwise.apply_binary(self._op, function, other, self)
        return elementwise.apply_binary(self._op, function, self, other)

    method.__doc__ = f"`np.{function}`."
    return method


class Methods:
    """The methods. A subclass sets the operators that they call."""

    __slots__ = ()

    _op: ClassVar[Operators]

    for _name, _row in elementwise.METHODS.items():
        locals()[_name] = _operation(*_row)
    del _name, _row  # pyright: ignore[reportPossiblyUnboundVariable]

    __hash__ = None  # type: ignore[assignment]

    def __neg__(self) -> Self:
        return elementwise.apply_binary(self._op, "multiply", self, -1.0)

    def __abs__(self) -> Self:
        return elementwise.apply_unary(self._op, "absolute", self)

    def __invert__(self) -> Self:
        return elementwise.apply_unary(self._op, "bitwise_not", self)

    def __round__(self, n: int = 0) -> Self:
        return self.round(n)

    def __ceil__(self) -> Self:
        return elementwise.apply_unary(self._op, "ceil", self)

    def __floor__(self) -> Self:
        return elementwise.apply_unary(self._op, "floor", self)

    def __trunc__(self) -> Self:
        return elementwise.apply_unary(self._op, "trunc", self)

    def __matmul__(self, other: Any) -> Self:
        return rearranging.matmul(self._op, self, other)

    def __rmatmul__(self, other: Any) -> Self:
        return rearranging.matmul(self._op, other, self)

    def reshape(self, *shape: ShapeLike, order: str = "C") -> Self:
        """The elements in another shape, in which one size may be -1."""
        require_order(order)
        if not shape:
            raise SymbolTypeError("reshape() takes exactly 1 argument (0 given)")
        return self._op("_np_reshape", self, newshape=shape[0] if isinstance(shape[0], tuple | list) else shape)

    def flatten(self, order: str = "C") -> Self:
        """The elements on one axis."""
        return self.reshape(-1, order=order)

    def transpose(self, *axes: Any) -> Self:
        """The array with its axes in another order, by default in reverse."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
        return rearranging.transpose(self._op, self, None if order is None else tuple(order))

    def broadcast_to(self, shape: ShapeLike) -> Self:
        """The array in a shape that it broadcasts to."""
        return self._op("_npi_broadcast_to", self, shape=shape)

    def broadcast_like(self, other: Any) -> Self:
        """The array in the shape of another one."""
        return self.broadcast_to(other.shape)

    def swapaxes(self, axis1: int, axis2: int) -> Self:
        """The array with two axes exchanged."""
        return rearranging.swapaxes(self._op, self, axis1, axis2)

    def squeeze(self, axis: AxisLike = None) -> Self:
        """The array without axes of one element."""
        return rearranging.squeeze(self._op, self, axis)

    def repeat(self, repeats: Any, axis: int | None = None) -> Self:
        """Each element repeated."""
        return rearranging.repeat(self._op, self, repeats, axis)

    def take(self, indices: Any, axis: int | None = None, mode: str = "raise") -> Self:
        """The elements at indices along an axis, or of the flat array."""
        return rearranging.take(self._op, self, indices, axis, mode)

    def sort(self, axis: int | None = -1, kind: Any = None, order: Any = None) -> Self:
        """The elements in order along an axis."""
        return rearranging.sort(self._op, self, axis, kind, order)

    def argsort(self, axis: int | None = -1, kind: Any = None, order: Any = None) -> Self:
        """The indices that sort an axis."""
        return rearranging.argsort(self._op, self, axis, kind, order)

    def nonzero(self) -> tuple[Any, ...]:
        """The indices of the elements that are not zero, an array for each axis."""
        return elementwise.nonzero(self._op, self)

    def dot(self, b: Any, out: Any = None) -> Self:
        """`np.dot`."""
        return rearranging.dot(self._op, self, b, out)

    def clip(self, min: Any = None, max: Any = None, out: Any = None) -> Self:
        """Each element, or the nearest bound."""
        return elementwise.clip(self._op, self, min, max, out)

    def round(self, decimals: int = 0, out: Any = None) -> Self:
        """Each element rounded to a number of decimals."""
        return elementwise.FUNCTIONS["round"](self._op, self, decimals, out)

    def cumsum(self, axis: int | None = None, dtype: DType = None, out: Any = None) -> Self:
        """The sums of the elements so far."""
        return axis_reductions.cumsum(self._op, self, axis, dtype, out)

    def argmax(self, axis: int | None = None, out: Any = None) -> Self:
        """The index of the largest element."""
        return axis_reductions.argmax(self._op, self, axis, out)

    def argmin(self, axis: int | None = None, out: Any = None) -> Self:
        """The index of the smallest element."""
        return axis_reductions.argmin(self._op, self, axis, out)

    def sum(self, axis: AxisLike = None, dtype: DType = None, out: Any = None, keepdims: bool = False) -> Self:
        """The sum over axes."""
        return self._op("_np_sum", self, axis=axis, dtype=dtype, keepdims=keepdims, out=out)

    def prod(self, axis: AxisLike = None, dtype: DType = None, out: Any = None, keepdims: bool = False) -> Self:
        """The product over axes."""
        return self._op("_np_prod", self, axis=axis, dtype=dtype, keepdims=keepdims, out=out)

    def mean(self, axis: AxisLike = None, dtype: DType = None, out: Any = None, keepdims: bool = False) -> Self:
        """The mean over axes."""
        return self._op("_npi_mean", self, axis=axis, dtype=dtype, keepdims=keepdims, out=out)

    def std(
        self, axis: AxisLike = None, dtype: DType = None, out: Any = None, ddof: int = 0, keepdims: bool = False
    ) -> Self:
        """The standard deviation over axes."""
        return axis_reductions.std(self._op, self, axis, dtype, out, ddof, keepdims)

    def var(
        self, axis: AxisLike = None, dtype: DType = None, out: Any = None, ddof: int = 0, keepdims: bool = False
    ) -> Self:
        """The variance over axes."""
        return axis_reductions.var(self._op, self, axis, dtype, out, ddof, keepdims)

    def max(self, axis: AxisLike = None, out: Any = None, keepdims: bool = False) -> Self:
        """The largest element over axes."""
        return self._op("_np_max", self, axis=axis, keepdims=keepdims, out=out)

    def min(self, axis: AxisLike = None, out: Any = None, keepdims: bool = False) -> Self:
        """The smallest element over axes."""
        return self._op("_np_min", self, axis=axis, keepdims=keepdims, out=out)

    def all(self, axis: AxisLike = None, out: Any = None, keepdims: bool = False) -> Self:
        """Whether all elements over axes are not zero."""
        return axis_reductions.all(self._op, self, axis, keepdims, out)

    def any(self, axis: AxisLike = None, out: Any = None, keepdims: bool = False) -> Self:
        """Whether some element over axes is not zero."""
        return axis_reductions.any(self._op, self, axis, keepdims, out)
