"""Operators that make arrays out of nothing, or out of another array's shape: zeros, ones, full, ranges, eye."""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

from symjax_nnvm.errors import ParamError
from symjax_nnvm.ir.op import Deviation
from symjax_nnvm.ir.params import Params, Tuple, param
from symjax_nnvm.ir.register import Shapes, Types, check_number, register_op, same_shape, type_of_readers
from symjax_nnvm.ir.rules.storage import storage_of_data
from symjax_nnvm.ir.types import MAX_SIZE, dtype_from_code, shape_from_legacy, shape_from_numpy

NumberType = Literal["bfloat16", "float16", "float32", "float64", "int32", "int64", "int8", "uint8"]
FillType = Literal["bfloat16", "bool", "float16", "float32", "float64", "int32", "int64", "int8", "uint8"]
EyeType = Literal["float16", "float32", "float64", "int32", "int64", "int8", "uint8"]

_OWN_DTYPE = "the dtype"

_FLOATS = ("bfloat16", "float16", "float32", "float64")
_DTYPE = "the dtype; float32, the default, gives way to what the operators using the array need"
_CTX = "device of an imperative call; a graph's devices are chosen where it is run"


class InitParams(Params):
    shape: Tuple = param((), doc="the shape; 0 for a dimension, () for a rank, that the operators using it decide")
    dtype: FillType = param("float32", doc=_DTYPE)
    ctx: str = param("", doc=_CTX)


class InitWithoutDTypeParams(Params):
    shape: Tuple | None = param(None, doc="the shape; 0 for a dimension, None for a rank, that its users decide")
    ctx: str = param("", doc=_CTX)
    dtype: int = param(-1, ge=-1, le=12, doc="the dtype's code; -1: the operators using it decide")


class FullParams(Params):
    shape: Tuple | None = param(None, doc="the shape")
    value: float = param(alias="val", doc="the value of every element")
    dtype: FillType = param("float32", doc=_DTYPE)
    ctx: str = param("", doc=_CTX)


def _given_shape(p: InitParams | InitWithoutDTypeParams | FullParams, ins: Shapes, outs: Shapes):
    """→ the shape parameter, completed by the readers of the array."""
    return (), [shape_from_legacy(p.shape or ())]


for _name, _aliases, _params, _dtypes, _doc in (
    ("_zeros", ("zeros",), InitParams, get_args(FillType), "Zeros."),
    ("_ones", ("ones",), InitParams, get_args(FillType), "Ones."),
    ("_full", ("_npi_full", "full"), FullParams, _FLOATS, "One value in every element."),
):
    register_op(
        _name,
        aliases=_aliases,
        params=_params,
        inputs=(),
        infer_shape=_given_shape,
        **type_of_readers(*_dtypes),
        flops=0,
        shape_parameters=("shape",),
        doc=_doc,
    )


class NumpyInitParams(Params):
    shape: Tuple = param((), ge=-1, doc="the shape; -1 for a dimension that the operators using it decide")
    ctx: str = param("", doc=_CTX)
    dtype: FillType = param("float32", doc=_OWN_DTYPE)


class FullLikeParams(Params):
    fill_value: float = param(doc="the value of every element")
    ctx: str = param("", doc=_CTX)
    dtype: FillType | None = param(None, doc="the dtype; None: that of a")


def _full_like_type(p: FullLikeParams, ins: Types, outs: Types):
    """The dtype parameter, else that of a."""
    dtype = p.dtype or ins[0] or outs[0]
    check_number("fill_value", p.fill_value, dtype)
    return ins, [dtype]


def _numpy_shape(p: NumpyInitParams, ins: Shapes, outs: Shapes):
    """→ the shape parameter."""
    return (), [shape_from_numpy(p.shape)]


def _identity_shape(p: NumpyInitParams, ins: Shapes, outs: Shapes):
    """→ the shape parameter, of a matrix."""
    if len(p.shape) != 2:
        raise ParamError("An identity is a matrix", param="shape", expected="two sizes", got=p.shape)
    return (), [shape_from_numpy(p.shape)]


def own_type(p: Any, ins: Types, outs: Types):
    """The dtype parameter."""
    return ins, [p.dtype]


for _name, _shape, _doc in (
    ("_npi_zeros", _numpy_shape, "Zeros."),
    ("_npi_ones", _numpy_shape, "Ones."),
    ("_npi_identity", _identity_shape, "A matrix of ones on its diagonal, zeros elsewhere."),
):
    register_op(
        _name,
        params=NumpyInitParams,
        inputs=(),
        infer_shape=_shape,
        infer_type=own_type,
        flops=0,
        shape_parameters=("shape",),
        doc=_doc,
    )

register_op(
    "_npi_full_like",
    params=FullLikeParams,
    inputs=("a",),
    infer_shape=same_shape,
    infer_type=_full_like_type,
    gradient=lambda node, ograds: [None],
    FIgnoreInputs=lambda attrs: (0,),
    flops=0,
    layout="agnostic",
    doc="One value in every element of an array of the shape of a, and of its dtype unless another is given.",
)

register_op(
    "_zeros_without_dtype",
    params=InitWithoutDTypeParams,
    inputs=(),
    infer_shape=_given_shape,
    infer_type=lambda p, ins, outs: ((), [outs[0] if p.dtype < 0 else dtype_from_code(p.dtype)]),
    shape_parameters=("shape",),
    flops=0,
    doc="Zeros of the dtype that the operators using them need.",
)

for _name, _aliases, _storage in (
    ("zeros_like", ("_sparse_zeros_like",), storage_of_data),
    ("ones_like", (), None),
):
    register_op(
        _name,
        aliases=_aliases,
        infer_shape=same_shape,
        gradient=lambda node, ograds: [None],
        inplace=((0, 0),),
        FIgnoreInputs=lambda attrs: (0,),
        flops=0,
        layout="agnostic",
        storage=_storage,
        doc=f"{_name.removesuffix('_like').capitalize()} of the shape and dtype of data.",
    )

# -- ranges ----------------------------------------------------------------------------------------------------------


class RangeParams(Params):
    start: float = param(doc="first value; without stop: the end, and the range begins at 0")
    stop: float | None = param(None, doc="the value before which the range ends")
    step: float = param(1.0, doc="difference of neighbours")
    repeat: int = param(1, ge=1, doc="how often each value appears")
    infer_range: bool = param(False, doc="without stop: as many values as the operators using it need")
    dtype: NumberType = param("float32", doc=_DTYPE)
    ctx: str = param("", doc=_CTX)

    def check(self) -> str | None:
        if not all(map(math.isfinite, (self.start, self.stop or 0.0, self.step))):
            return "Range needs finite start, stop and step"
        if self.step == 0:
            return "Range does not support step=0"
        start, stop = self.bounds
        if not abs((stop - start) / self.step) < MAX_SIZE:
            return f"Range has more than {MAX_SIZE} values"
        if not self.is_open and not self.count:
            return f"Range does not support (start, stop, step) = ({start:g}, {stop:g}, {self.step:g})"
        return None

    @property
    def is_open(self) -> bool:
        """Whether the users of the array decide its length."""
        return self.infer_range and self.stop is None

    @property
    def bounds(self) -> tuple[float, float]:
        """(first value, end) of a range that is not open."""
        return (0.0, self.start) if self.stop is None else (self.start, self.stop)

    @property
    def count(self) -> int:
        """Number of different values of a range that is not open."""
        start, stop = self.bounds
        return max(math.ceil((stop - start) / self.step), 0)


register_op(
    "_arange",
    aliases=("arange",),
    params=RangeParams,
    inputs=(),
    infer_shape=lambda p, ins, outs: ((), [(None,) if p.is_open else (p.count * p.repeat,)]),
    **type_of_readers(*_FLOATS),
    flops=0,
    deviation=Deviation(
        "a float16 step keeps its fraction; MXNet cuts it off",
        when=lambda p: p.dtype == "float16" and p.step != int(p.step),
    ),
    doc="Evenly spaced values from start, before stop.",
)


class LinspaceParams(Params):
    start: float = param(doc="first value")
    stop: float = param(doc="last value")
    num: int = param(ge=1, doc="how many values")
    endpoint: bool = param(True, doc="whether stop is the last value; else the last is one step before it")
    dtype: NumberType = param("float32", doc=_DTYPE)
    ctx: str = param("", doc=_CTX)


register_op(
    "_linspace",
    aliases=("_npi_linspace", "linspace"),
    params=LinspaceParams,
    inputs=(),
    infer_shape=lambda p, ins, outs: ((), [(p.num,)]),
    **type_of_readers(*_FLOATS),
    flops=0,
    doc="A number of evenly spaced values from start to stop.",
)


class EyeParams(Params):
    N: int = param(ge=1, doc="number of rows")
    M: int = param(0, ge=0, doc="number of columns; 0: as many as rows")
    k: int = param(0, doc="which diagonal: 0 the main one, positive above, negative below")
    dtype: EyeType = param("float32", doc=_DTYPE)
    ctx: str = param("", doc=_CTX)


register_op(
    "_eye",
    aliases=("eye",),
    params=EyeParams,
    inputs=(),
    infer_shape=lambda p, ins, outs: ((), [(p.N, p.M or p.N)]),
    **type_of_readers(*get_args(EyeType)),
    flops=0,
    doc="Ones on a diagonal, zeros elsewhere.",
)

# -- as NumPy makes them ---------------------------------------------------------------------------------------------


class NumpyRangeParams(Params):
    start: float = param(doc="first value")
    stop: float | None = param(None, doc="the value before which the range ends")
    step: float = param(1.0, doc="difference of neighbours")
    repeat: int = param(1, ge=1, le=1, doc="only 1")
    infer_range: bool = param(False, doc="only false")
    ctx: str = param("", doc=_CTX)
    dtype: NumberType = param("float32", doc=_OWN_DTYPE)

    def check(self) -> str | None:
        if self.stop is None:
            return "_npi_arange requires stop to have a value"
        if not all(map(math.isfinite, (self.start, self.stop, self.step))):
            return "Range needs finite start, stop and step"
        if self.step == 0:
            return "_npi_arange does not support step=0"
        if not abs((self.stop - self.start) / self.step) < MAX_SIZE:
            return f"Range has more than {MAX_SIZE} values"
        return None

    @property
    def count(self) -> int:
        """Number of values."""
        return max(math.ceil(((self.stop or 0.0) - self.start) / self.step), 0)


class NumpyEyeParams(Params):
    N: int = param(ge=0, doc="number of rows")
    M: int | None = param(None, ge=0, doc="number of columns; None: as many as rows")
    k: int = param(0, doc="which diagonal: 0 the main one, positive above, negative below")
    ctx: str = param("", doc=_CTX)
    dtype: NumberType = param("float32", doc=_OWN_DTYPE)

    @property
    def columns(self) -> int:
        """Number of columns."""
        return self.N if self.M is None else self.M


class IndicesParams(Params):
    dimensions: Tuple = param(ge=0, doc="the lengths of the grid's axes")
    dtype: NumberType = param("int32", doc=_OWN_DTYPE)
    ctx: str = param("", doc=_CTX)


class LogspaceParams(Params):
    start: float = param(doc="exponent of the first value")
    stop: float = param(doc="exponent of the last value")
    num: int = param(ge=0, doc="how many values")
    endpoint: bool = param(True, doc="whether stop is the last exponent; else the last is one step before it")
    base: float = param(10.0, doc="what is raised to the exponents")
    ctx: str = param("", doc=_CTX)
    dtype: NumberType = param("float32", doc=_OWN_DTYPE)


class WindowFunctionParams(Params):
    M: int | None = param(None, doc="number of points; below 1, or None, none")
    ctx: str = param("", doc=_CTX)
    dtype: NumberType = param("float32", doc=_OWN_DTYPE)

    @property
    def count(self) -> int:
        """Number of points."""
        return max(self.M or 0, 0)


_WINDOW = "window of M points, for smoothing signals"

for _name, _params, _shape, _doc in (
    ("_npi_arange", NumpyRangeParams, lambda p: (p.count,), "Evenly spaced values from start, before stop."),
    ("_npi_eye", NumpyEyeParams, lambda p: (p.N, p.columns), "Ones on a diagonal, zeros elsewhere."),
    (
        "_npi_indices",
        IndicesParams,
        lambda p: (len(p.dimensions), *p.dimensions),
        "The indices of every place of a grid, one array for each of its axes.",
    ),
    ("_npi_logspace", LogspaceParams, lambda p: (p.num,), "Powers of a base, of evenly spaced exponents."),
    ("_npi_blackman", WindowFunctionParams, lambda p: (p.count,), f"The Blackman {_WINDOW}."),
    ("_npi_hamming", WindowFunctionParams, lambda p: (p.count,), f"The Hamming {_WINDOW}."),
    ("_npi_hanning", WindowFunctionParams, lambda p: (p.count,), f"The Hann {_WINDOW}."),
):
    register_op(
        _name,
        params=_params,
        inputs=(),
        infer_shape=lambda p, ins, outs, shape=_shape: ((), [shape(p)]),
        infer_type=own_type,
        flops=0,
        doc=_doc,
    )
