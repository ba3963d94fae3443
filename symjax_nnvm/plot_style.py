"""What a drawing says of an operator: its family's colour, and the parameters that matter most."""

from __future__ import annotations

from symjax_nnvm.ir.node import Node

__all__ = ["colour_of", "facts"]

_FAMILIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("#fb8072", ("Convolution", "Deconvolution", "_contrib_Deformable", "_contrib_ModulatedDeformable", "Correlation")),
    ("#fdb462", ("FullyConnected", "dot", "batch_dot", "_linalg", "_contrib_interleaved_matmul", "Embedding")),
    ("#ffffb3", ("Activation", "LeakyReLU", "relu", "sigmoid", "tanh", "softsign", "hard_sigmoid", "erf", "clip")),
    ("#bebada", ("BatchNorm", "_contrib_SyncBatchNorm", "_contrib_BatchNorm", "LayerNorm", "GroupNorm")),
    ("#bebada", ("InstanceNorm", "L2Normalization", "LRN", "Dropout")),
    ("#80b1d3", ("Pooling", "UpSampling", "_contrib_BilinearResize2D", "_contrib_AdaptiveAvgPooling2D", "ROIPooling")),
    ("#80b1d3", ("_contrib_ROIAlign", "SpatialTransformer", "BilinearSampler", "GridGenerator")),
    ("#fccde5", ("softmax", "Softmax", "log_softmax", "LinearRegressionOutput", "LogisticRegressionOutput", "CTCLoss")),
    ("#fccde5", ("MAERegressionOutput", "MakeLoss", "make_loss", "SVMOutput")),
    ("#b3de69", ("RNN", "_foreach", "_while_loop", "_cond", "Sequence")),
    ("#ccebc5", ("elemwise_", "broadcast_", "_plus_", "_minus_", "_mul_", "_div_", "_rminus_", "_rdiv_", "add_n")),
    ("#ccebc5", ("_power", "_maximum", "_minimum", "square", "sqrt", "exp", "log", "abs", "negative")),
    ("#d9d9d9", ("Reshape", "Flatten", "transpose", "SwapAxis", "expand_dims", "squeeze", "slice", "Slice", "Concat")),
    ("#d9d9d9", ("stack", "Pad", "Cast", "take", "repeat", "tile", "one_hot", "pick", "_copy", "BlockGrad")),
)
"""Colour → what the names of a family's operators begin with."""

_DATA, _OTHER = "#8dd3c7", "#f0f0f0"

_SHOWN = ("kernel", "num_filter", "num_hidden", "act_type", "pool_type", "mode", "state_size", "axis", "dim", "scalar")
_SHOWN_TOO = ("shape", "axes", "p", "output_dim", "scale", "dtype", "begin", "end")


def colour_of(op: str | None) -> str:
    """The colour of an operator's family; None is data."""
    if op is None:
        return _DATA
    return next((colour for colour, starts in _FAMILIES if op.startswith(starts)), _OTHER)


def facts(node: Node) -> str:
    """The parameters that tell one layer from another: `3×3/2, 64` of a convolution."""
    given = node.attrs.dict
    found = []
    for key in (*_SHOWN, *_SHOWN_TOO):
        if key not in given:
            continue
        if key == "kernel":
            found.append(_window(given))
        else:
            found.append(given[key][:24])
    if given.get("global_pool", "") in ("True", "1", "true"):
        found = ["global", *(value for value in found if "×" not in value)]
    return ", ".join(found)


def _window(given: dict[str, str]) -> str:
    """`3×3`, and after a slash the strides where they are not 1."""
    kernel = _sizes(given["kernel"])
    strides = set(_sizes(given.get("stride", "")).split("×")) - {"", "1"}
    return kernel + (f"/{_sizes(given['stride']) if len(strides) > 1 else strides.pop()}" if strides else "")


def _sizes(text: str) -> str:
    return "×".join(size.strip().rstrip("L") for size in text.strip("()[] ").split(",") if size.strip())[:24]
