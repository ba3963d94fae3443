"""The quantities that the inference engine infers: shapes and dtypes, each as one row of functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from symjax_nnvm.ir.attributes import FInferDefaultType, FInferShape, FInferType
from symjax_nnvm.ir.op import OpMap
from symjax_nnvm.ir.register import same_type
from symjax_nnvm.ir.types import (
    DTYPE_CODES,
    DType,
    DTypeList,
    Shape,
    ShapeList,
    dtype_from_code,
    dtype_name,
    format_shape,
    merge_dtypes,
    merge_narrowed,
    merge_shapes,
    parse_shape,
    shape_from_legacy,
    shape_from_numpy,
    shape_problem,
)


@dataclass(frozen=True)
class Quantity:
    """Describes a quantity that every entry of a graph has.

    name: prefix of its graph attributes. pass_name: NNVM's name of its pass. rules: the operator attribute that holds
    its rules. default_rule: the rule of operators without one. last_rules: the operator attribute that holds rules for
    values that nothing else decides. merge: two values → their union; ValueError when they differ. all_known:
    whether values are all complete. unknown_parts: how much of a value is unknown, as MXNet counts. from_text: a
    variable's declaration → value. text_form: what from_text takes, for people. from_border: a value in MXNet's
    spelling → value. conflict: (provided, inferred, node, place) → MXNet's words for a contradiction. show: a value for
    people. problem: why a value cannot be, or None. result: the type of the graph attribute.
    """

    name: str
    pass_name: str
    rules: OpMap[Any]
    default_rule: Callable[..., Any] | None
    last_rules: OpMap[Any] | None
    merge: Callable[[Any, Any], Any]
    all_known: Callable[[Iterable[Any]], bool]
    unknown_parts: Callable[[Any], int]
    from_text: Callable[[str], Any]
    text_form: str
    from_border: Callable[[Any], Any]
    conflict: Callable[..., str]
    show: Callable[[Any], str]
    problem: Callable[[Any], str | None]
    result: type[Any]


# -- shapes ----------------------------------------------------------------------------------------------------------


def _shapes_known(shapes: Iterable[Shape | None]) -> bool:
    for shape in shapes:  # noqa: SIM110  (called twice per node: `all` over a generator takes twice as long)
        if shape is None or None in shape:
            return False
    return True


def _merge_shapes(a: Shape | None, b: Sequence[int | None] | None) -> Shape | None:
    # A rule may propose a list; what is kept is always a tuple.
    return merge_shapes(a, None if b is None else tuple(b))


def _shape_conflict(provided: Shape, inferred: Shape, node: str = "", place: str = "") -> str:
    shown = [",".join("?" if dim is None else str(dim) for dim in shape) for shape in (provided, inferred)]
    return f"Shape inconsistent, Provided = [{shown[0]}], inferred shape=({shown[1]})"


SHAPE = Quantity(
    name="shape",
    pass_name="InferShape",
    rules=FInferShape,
    default_rule=None,
    last_rules=None,
    merge=_merge_shapes,
    all_known=_shapes_known,
    unknown_parts=lambda shape: 1 if shape is None else shape.count(None),
    from_text=lambda text: None if text.strip() == "None" else shape_from_legacy(parse_shape(text)),
    text_form="a tuple of integers such as (2, 3), 0 for an unknown dimension",
    from_border=lambda dims: None if dims is None else shape_from_legacy([dim or 0 for dim in dims]),
    conflict=_shape_conflict,
    show=format_shape,
    problem=shape_problem,
    result=ShapeList,
)

NUMPY_SHAPE = replace(
    SHAPE,
    from_text=lambda text: None if text.strip() == "None" else shape_from_numpy(parse_shape(text)),
    text_form="a tuple of integers such as (2, 3), -1 for an unknown dimension",
)
"""Shapes that variables declare in MXNet's convention under `np_shape`."""

# -- dtypes ----------------------------------------------------------------------------------------------------------


def _dtype_from_text(text: str) -> DType | None:
    text = text.strip()
    # Only the names themselves: the text may come from a file, and NumPy's own dtype grammar is a language.
    return text if text in DTYPE_CODES else dtype_from_code(int(text))


def _dtype_from_border(value: Any) -> DType | None:
    if value is None or (isinstance(value, int) and value == -1):
        return None
    return dtype_name(value)


def _dtype_conflict(provided: DType, inferred: DType, node: str = "", place: str = "") -> str:
    where = f" in node {node} at {place}" if node else ""
    return f"Incompatible attr{where}: expected {inferred}, got {provided}"


DTYPE = Quantity(
    name="dtype",
    pass_name="InferType",
    rules=FInferType,
    default_rule=same_type,
    last_rules=FInferDefaultType,
    merge=merge_dtypes,
    all_known=lambda dtypes: None not in dtypes,
    unknown_parts=lambda dtype: int(dtype is None),
    from_text=_dtype_from_text,
    text_form="a dtype code such as 0, or a dtype name such as float32",
    from_border=_dtype_from_border,
    conflict=_dtype_conflict,
    show=lambda dtype: "unknown" if dtype is None else dtype,
    problem=lambda dtype: None,
    result=DTypeList,
)

NARROWED_DTYPE = replace(DTYPE, merge=merge_narrowed)
"""Dtypes of arrays that run in 32 bits where the graph declares 64."""
