"""ONNX' random numbers. Seeds are not taken: a network here draws from the key that a run is given."""

from __future__ import annotations

from typing import Any

from symjax_nnvm.onnx.imports.composer import Composer
from symjax_nnvm.onnx.imports.file_values import Value
from symjax_nnvm.onnx.imports.import_registry import onnx_import
from symjax_nnvm.onnx.proto import import_onnx


def _dtype(g: Composer, default: str) -> str:
    code = g.attr("dtype")
    dtype = default if code is None else import_onnx().helper.tensor_dtype_to_np_dtype(code).name
    if dtype not in ("float16", "float32", "float64"):
        g.refuse(f"MXNet cannot draw numbers of {dtype}")
    return dtype


def _normal(g: Composer) -> dict[str, Any]:
    return {"loc": g.attr("mean", 0.0), "scale": g.attr("scale", 1.0)}


def _uniform(g: Composer) -> dict[str, Any]:
    return {"low": g.attr("low", 0.0), "high": g.attr("high", 1.0)}


for _name, _params in (("normal", _normal), ("uniform", _uniform)):

    @onnx_import(f"Random{_name.capitalize()}", ignores=("seed",))
    def _draw(g: Composer, name: str = _name, params: Any = _params) -> Value:
        return g.op(f"_random_{name}", shape=tuple(g.attr("shape")), dtype=_dtype(g, "float32"), **params(g))

    @onnx_import(f"Random{_name.capitalize()}Like", ignores=("seed",))
    def _draw_like(g: Composer, x: Value, name: str = _name, params: Any = _params) -> Value:
        g.symbol(x)
        if _dtype(g, x.held) != x.held:
            g.refuse("its dtype is not its input's")
        return g.op(f"_random_{name}_like", x, **params(g))


@onnx_import("Multinomial", ignores=("seed",))
def _multinomial(g: Composer, x: Value) -> Value:
    """Draws by logarithms of weights."""
    if g.attr("dtype", 6) != 6:
        g.refuse("MXNet draws numbers of int32")
    return g.op("_sample_multinomial", g.op("softmax", x, axis=-1), shape=(g.attr("sample_size", 1),), dtype="int32")
