"""The style of an operator in a drawing: its family's colour, and the parameters that matter most."""

from __future__ import annotations

from symjax_nnvm.ir.attributes import TDrawing
from symjax_nnvm.ir.node import Node
from symjax_nnvm.ir.op import Op

_COLOURS = {
    "convolution": "#fb8072",
    **dict.fromkeys(("dense", "linalg"), "#fdb462"),
    "activation": "#ffffb3",
    "normalization": "#bebada",
    "pooling": "#80b1d3",
    "loss": "#fccde5",
    **dict.fromkeys(("recurrent", "control"), "#b3de69"),
    **dict.fromkeys(("elementwise", "sparse"), "#ccebc5"),
    **dict.fromkeys(("shape", "indexing"), "#d9d9d9"),
}
"""Family, as in TDrawing → colour. By default an operator's family is the folder of its file."""

_DATA, _OTHER = "#8dd3c7", "#f0f0f0"

_SHOWN = ("kernel", "num_filter", "num_hidden", "act_type", "pool_type", "mode", "state_size", "axis", "dim", "scalar")
_SHOWN_TOO = ("shape", "axes", "p", "output_dim", "scale", "dtype", "begin", "end")


def colour_of(op: Op | None) -> str:
    """The colour of an operator's family; None is data."""
    return _DATA if op is None else _COLOURS.get(TDrawing.get(op, ""), _OTHER)


def facts(node: Node) -> str:
    """Return the parameters that distinguish layers: `3×3/2, 64` of a convolution."""
    attributes = node.attrs.dict
    rows = []
    for key in (*_SHOWN, *_SHOWN_TOO):
        if key not in attributes:
            continue
        if key == "kernel":
            rows.append(_window(attributes))
        else:
            rows.append(attributes[key][:24])
    if attributes.get("global_pool", "") in ("True", "1", "true"):
        rows = ["global", *(value for value in rows if "×" not in value)]
    return ", ".join(rows)


def _window(attributes: dict[str, str]) -> str:
    """Return `3×3`, and after a slash the strides where they are not 1."""
    kernel = _sizes(attributes["kernel"])
    strides = set(_sizes(attributes.get("stride", "")).split("×")) - {"", "1"}
    return kernel + (f"/{_sizes(attributes['stride']) if len(strides) > 1 else strides.pop()}" if strides else "")


def _sizes(text: str) -> str:
    return "×".join(size.strip().rstrip("L") for size in text.strip("()[] ").split(",") if size.strip())[:24]
