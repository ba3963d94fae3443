"""Operators that take slices out of an axis, or put some in: delete and insert, as NumPy has them."""

from __future__ import annotations

import numpy as np

from symjax_nnvm.errors import InferenceError, ParamError
from symjax_nnvm.ir.params import Axis, Params, param
from symjax_nnvm.ir.register import Shapes, first_type, register_op
from symjax_nnvm.ir.rules.axes import normal_axis, replaced, size_of
from symjax_nnvm.ir.rules.linear import linear
from symjax_nnvm.ir.types import Shape, format_shape


class PlaceParams(Params):
    """The place: a slice, a number, or an input."""

    start: int | None = param(None, doc="where a slice begins")
    stop: int | None = param(None, doc="the index before which it ends")
    step: int | None = param(None, doc="difference of neighbours in it")
    int_ind: int | None = param(None, doc="an index; negative counts from the end")
    axis: Axis | None = param(None, doc="the axis; None: the array is flattened first")

    def check(self) -> str | None:
        return "slice step cannot be zero" if self.step == 0 else None

    def slices(self, length: int) -> int | None:
        """How many indices of an axis a slice has, before any is made; None of a number."""
        if self.int_ind is not None:
            return None
        start, stop, step = slice(self.start, self.stop, self.step).indices(length)
        return max(0, (stop - start + step - (1 if step > 0 else -1)) // step)

    def places(self, length: int, last: int) -> np.ndarray:
        """Return the indices along an axis; for a number an array without axes. Raises ParamError for one above
        `last`."""
        if self.int_ind is None:
            return np.arange(*slice(self.start, self.stop, self.step).indices(length))
        if not -length <= self.int_ind <= last:
            raise ParamError(
                f"index {self.int_ind} is out of bounds for an axis of size {length}",
                param="int_ind",
                expected=f"{-length} ≤ int_ind ≤ {last}",
                got=self.int_ind,
            )
        return np.asarray(self.int_ind % length if self.int_ind < 0 else self.int_ind)


def flat(p: PlaceParams, shape: Shape) -> tuple[Shape, int]:
    """(shape, axis) of the array that is edited."""
    return ((size_of(shape),), 0) if p.axis is None else (shape, normal_axis(p.axis, len(shape)))


# -- delete ----------------------------------------------------------------------------------------------------------


class DeleteParams(PlaceParams):
    @property
    def has_input(self) -> bool:
        """Whether the second input has the indices."""
        return (self.start, self.stop, self.step, self.int_ind) == (None,) * 4


def _delete_shapes(p: DeleteParams, ins: Shapes, outs: Shapes):
    """arr (…, n, …) → (…, n less the number of different indices, …)."""
    if ins[0] is None:
        return ins, outs
    shape, axis = flat(p, ins[0])
    length = shape[axis]
    new_length = None
    if length is not None and not p.has_input:
        slices = p.slices(length)
        new_length = length - (p.places(length, length - 1).size if slices is None else slices)
    return ins, [replaced(shape, axis, new_length)]


register_op(
    "_npi_delete",
    params=DeleteParams,
    inputs=("arr", "obj"),
    inputs_used=lambda p: ("arr", "obj") if p.has_input else ("arr",),
    infer_shape=_delete_shapes,
    infer_type=first_type,
    TDataDependentShape=True,
    flops=0,
    deviation="it has a gradient; MXNet's has none",
    doc="An array without some slices of an axis. Where an input has their indices, how many remain depends on values: "
    "it runs where they are known, outside jax.jit.",
)
linear(
    "_npi_delete",
    of="arr",
    adjoint="_backward_npi_delete",
    doc="The gradient of _npi_delete: ograd in the slices that are left, 0 in those that are not.",
)

# -- insert ----------------------------------------------------------------------------------------------------------


class InsertParams(PlaceParams):
    val: float | None = param(None, doc="the value; None: an input has it")

    positional = ("val", "start", "stop", "step", "int_ind", "axis")


def inserted(p: InsertParams, shape: Shape, values: Shape, count: int | None) -> int | None:
    """How many slices are put in, where there are `count` indices; None: a number, which is an index without axes.

    Before one index all slices of the values are put in: those of the axis, or, before a number, of their first axis.
    """
    if count not in (None, 1):
        return count
    edited, axis = flat(p, shape)
    aligned = (1,) * (len(edited) - len(values)) + tuple(values)
    if len(aligned) > len(edited):
        raise InferenceError(
            "The values have more axes than the array",
            input="values",
            expected=f"at most {len(edited)} axes",
            got=format_shape(values),
        )
    return aligned[0 if count is None else axis]


def _require_broadcast(values: Shape, slices: Shape, moved: int | None) -> None:
    """Raise InferenceError for values that are not broadcast to the new slices. moved: where their first axis goes."""
    aligned = [1] * (len(slices) - len(values)) + [*values]
    if moved is not None:
        aligned.insert(moved, aligned.pop(0))
    if len(aligned) > len(slices) or any(
        None not in (have, want) and have not in (1, want) for have, want in zip(aligned, slices, strict=False)
    ):
        raise InferenceError(
            "could not broadcast the values into the new slices",
            input="values",
            expected=format_shape(slices),
            got=format_shape(values),
        )


def _insert_shapes(p: InsertParams, ins: Shapes, outs: Shapes):
    """arr (…, n, …), values broadcast to the new slices → (…, n + number of new slices, …)."""
    arr, *others = ins
    values = others.pop(0) if p.val is None else ()
    if arr is None or values is None or None in others:
        return ins, outs
    if arr == () and p.axis is not None:
        raise InferenceError("assignment to 0-d array", input="arr", expected="at least one axis", got="()")
    shape, axis = flat(p, arr)
    length = shape[axis]
    if others:
        (obj,) = others
        if obj is not None and len(obj) > 1:
            raise InferenceError(
                "index array argument obj to insert must be one dimensional or scalar",
                input="obj",
                expected="one axis or none",
                got=format_shape(obj),
            )
        count = obj[0] if obj else None
    elif length is None:
        return ins, outs
    else:
        count = p.slices(length)
        if count is None:
            p.places(length, length)  # a number out of bounds is refused
    new = inserted(p, arr, values, count)
    _require_broadcast(values, (*shape[:axis], new, *shape[axis + 1 :]), axis if count is None else None)
    return ins, [replaced(shape, axis, None if length is None or new is None else length + new)]


for _name, _where in (
    ("_npi_insert_scalar", "an index"),
    ("_npi_insert_slice", "the indices of a slice"),
    ("_npi_insert_tensor", "the indices that an array has"),
):
    _inputs = ("arr", "values", "obj") if _name == "_npi_insert_tensor" else ("arr", "values")
    register_op(
        _name,
        params=InsertParams,
        inputs=_inputs,
        inputs_used=lambda p, names=_inputs: tuple(n for n in names if n != "values" or p.val is None),
        infer_shape=_insert_shapes,
        infer_type=first_type,
        flops=0,
        doc=f"An array with new slices before {_where} of an axis.",
    )
