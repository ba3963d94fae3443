"""`sym.contrib`, `sym.linalg`, `sym.random` …: MXNet's groups of operator functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from symjax_nnvm.errors import UnknownFunctionError, closest
from symjax_nnvm.ir.op import Op, list_all_names, why_left_out
from symjax_nnvm.symbol.operator_functions import OperatorFunction, operator_function

_PREFIXES = {"contrib": "_contrib_", "linalg": "_linalg_", "random": "_random_", "sparse": "_sparse_"}


FOREIGN_NAMES = {
    **dict.fromkeys(("fc", "dense", "linear", "inner_product", "affine", "mlp"), "FullyConnected"),
    **dict.fromkeys(("conv", "conv_1d", "conv_2d", "conv_3d", "depthwise_conv", "separable_conv"), "Convolution"),
    **dict.fromkeys(
        ("deconv", "conv_1d_transpose", "conv_2d_transpose", "conv_transpose", "conv_transpose_2d"), "Deconvolution"
    ),
    **dict.fromkeys(
        ("pool", "max_pool", "max_pool_2d", "avg_pool", "avg_pool_2d", "mean_pool", "global_avg_pool"), "Pooling"
    ),
    **dict.fromkeys(("global_avg_pool_2d", "global_max_pool", "lp_pool"), "Pooling"),
    **dict.fromkeys(("bn", "batch_norm_1d", "batch_norm_2d", "batch_normalization"), "BatchNorm"),
    **dict.fromkeys(("ln", "layer_normalization"), "LayerNorm"),
    **dict.fromkeys(("sync_bn",), "_contrib_SyncBatchNorm"),
    **dict.fromkeys(("lstm", "gru", "bilstm", "elman"), "RNN"),
    **dict.fromkeys(("gelu", "elu", "selu", "prelu", "rrelu"), "LeakyReLU"),
    **dict.fromkeys(("relu_6", "hard_tanh", "clamp"), "clip"),
    **dict.fromkeys(("softplus",), "Activation"),
    **dict.fromkeys(("concatenate", "cat"), "concat"),
    **dict.fromkeys(("matmul", "mm"), "dot"),
    **dict.fromkeys(("bmm",), "batch_dot"),
    **dict.fromkeys(("permute",), "transpose"),
    **dict.fromkeys(("unsqueeze",), "expand_dims"),
    **dict.fromkeys(("view",), "Reshape"),
    **dict.fromkeys(("upsample", "interpolate"), "UpSampling"),
    **dict.fromkeys(("nms", "non_max_suppression"), "_contrib_box_nms"),
    **dict.fromkeys(("detach", "stop_grad"), "BlockGrad"),
    **dict.fromkeys(("astype",), "Cast"),
    **dict.fromkeys(("ctc",), "CTCLoss"),
    **dict.fromkeys(("cross_entropy", "cross_entropy_loss", "softmax_cross_entropy_loss"), "softmax_cross_entropy"),
    **dict.fromkeys(("mse", "mse_loss", "l2_loss"), "LinearRegressionOutput"),
    **dict.fromkeys(("mae_loss", "l1_loss"), "MAERegressionOutput"),
    **dict.fromkeys(("lookup", "lookup_table"), "Embedding"),
}
"""Name of a layer or function in Gluon, PyTorch or Keras, and short names of papers, in snake case → the name here."""

_SQUASHED = {name.replace("_", ""): here for name, here in FOREIGN_NAMES.items()}


def where_instead(name: str, full: str, group: str | None) -> str:
    """Return why a function is left out, or `. Did you mean symbol.contrib.box_nms or …?`: functions of its name in
    other groups, else those whose names are most like it. Empty when there is none.

    full: its operator's name. group: the one that lacks it, None for `symbol` itself.
    """
    if name.startswith("__"):
        return ""
    return why_left_out(full) or _closest_functions(name, group, len(list_all_names()))


@lru_cache(maxsize=256)
def _closest_functions(name: str, group: str | None, count: int) -> str:
    """Return the second; cached until an operator is added, because a name that is wrong is often repeated."""
    spelled: dict[str, str] = {}
    for operator in list_all_names():
        home = next((key for key, prefix in _PREFIXES.items() if operator.startswith(prefix)), None)
        short = operator if home is None else operator.removeprefix(_PREFIXES[home])
        if home == "sparse" != group or (home is None and operator.startswith("_")):
            continue  # names of dense operators again, and what Python's operators call
        if short not in spelled or home == group:
            spelled[short] = f"symbol.{short}" if home is None else f"symbol.{home}.{short}"
    elsewhere = _SQUASHED.get(name.lower().replace("_", ""))
    close = [name] if name in spelled else [elsewhere] if elsewhere else closest(name, spelled)
    return f". Did you mean {' or '.join(spelled[short] for short in close)}?" if close else ""


class Namespace:
    """Offers the operator functions whose operators' names begin with a prefix: `contrib.box_nms` makes
    `_contrib_box_nms`.

    functions: further functions of the group, which are not operators of that prefix.
    """

    def __init__(self, name: str, prefix: str, functions: Mapping[str, Callable[..., Any]] | None = None):
        self.__name__ = name
        self.prefix = prefix
        self.functions = dict(functions or {})
        self.__dict__.update(self.functions)

    def __getattr__(self, name: str) -> OperatorFunction:
        full = self.prefix + name
        if name.startswith("__") or not Op.exists(full):
            problem = f"symbol.{self.__name__} has no function {name!r}"
            raise UnknownFunctionError(lambda: problem + where_instead(name, full, self.__name__))
        function = operator_function(Op.get(full), name)  # automatic names come from the short name, as in MXNet
        setattr(self, name, function)
        return function

    def __dir__(self) -> list[str]:
        names = [name.removeprefix(self.prefix) for name in list_all_names() if name.startswith(self.prefix)]
        return sorted({*self.__dict__, *names} - {"__name__", "functions", "prefix"})

    def __repr__(self) -> str:
        return f"<operator functions symbol.{self.__name__}>"
