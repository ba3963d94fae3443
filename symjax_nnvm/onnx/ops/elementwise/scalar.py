"""ONNX forms of the functions of an array and a number."""

from __future__ import annotations

from symjax_nnvm.ir.types import is_float
from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.numbers import whole
from symjax_nnvm.onnx.ops.elementwise.binary import ALL_FUNCTIONS, FUNCTIONS
from symjax_nnvm.onnx.ops.elementwise.promoted import BITS_OPSET
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.elementwise.scalar import OF_NUMPY, ScalarParams

_NAMED = {"plus": "add", "minus": "sub"}


def _operands(g: Builder, p: ScalarParams, data: Tensor) -> tuple[Tensor, Tensor]:
    """Return the data in the dtype to calculate in, and the number in that dtype."""
    if not is_float(data.dtype):
        wide = "int64" if data.dtype == "bool" else data.dtype
        data = g.cast(data, wide if p.is_int else "float64")
    return data, g.constant(whole(p.scalar, data.dtype), data.dtype)


def _register(name: str, function: str, *, reflected: bool) -> None:
    @onnx_form(name)
    def form(g: Builder, p: ScalarParams, data: Tensor) -> Tensor:
        x, number = _operands(g, p, data)
        return ALL_FUNCTIONS[function](g, *((number, x) if reflected else (x, number)))


for _name in ("plus", "minus", "mul", "div", "mod", "power", *list(FUNCTIONS)[6:]):
    _register(f"_{_name}_scalar", _NAMED.get(_name, _name), reflected=False)
for _name in ("minus", "div", "mod", "power"):
    _register(f"_r{_name}_scalar", _NAMED.get(_name, _name), reflected=True)

_CLASSIC = {"true_divide": "div", "less": "lesser", "less_equal": "lesser_equal"}


def _register_of_numpy(name: str, function: str, *, reflected: bool) -> None:
    @onnx_form(f"_npi_{name}_scalar", opset=BITS_OPSET if name.startswith("bitwise") else 0)
    def form(g: Builder, p: ScalarParams, data: Tensor) -> Tensor:
        if name.startswith("bitwise"):
            x, number = data, g.constant(whole(p.scalar, data.dtype), data.dtype)
        else:
            x, number = _operands(g, p, g.cast(data, g.outs[0].dtype) if function == "div" else data)
        return g.cast(ALL_FUNCTIONS[function](g, *((number, x) if reflected else (x, number))), g.outs[0].dtype)


for _name, _, _ in OF_NUMPY:
    _base = _name.removeprefix("r")
    if _base != "lcm":
        _register_of_numpy(_name, _CLASSIC.get(_base, _base), reflected=_name != _base)
