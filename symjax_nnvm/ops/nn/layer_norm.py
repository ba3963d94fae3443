"""Normalisation of each sample by its own statistics: LayerNorm, GroupNorm, InstanceNorm, and their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.params import Axis, Params, param
from symjax_nnvm.ir.register import Entries, ShapeRule, Shapes, float_type, register_op, same_shape
from symjax_nnvm.ir.rules.axes import known, normal_axis, replaced
from symjax_nnvm.ir.types import Shape, format_shape
from symjax_nnvm.ops.nn.batch_norm import statistics_ignored


class LayerNormParams(Params):
    axis: Axis = param(-1, doc="the axis that is normalised; gamma and beta run along it")
    eps: float = param(9.99999975e-06, doc="added to the variance")
    output_mean_var: bool = param(False, doc="show the outputs `mean` and `std`")


class GroupNormParams(Params):
    num_groups: int = param(1, ge=1, doc="number of groups that the channels, axis 1, are shared out to")
    eps: float = param(9.99999975e-06, doc="added to the variance")
    output_mean_var: bool = param(False, doc="show the outputs `mean` and `std`")


class InstanceNormParams(Params):
    eps: float = param(0.00100000005, doc="added to the variance")


# -- shapes ----------------------------------------------------------------------------------------------------------


def _layer_norm_shapes(p: LayerNormParams, ins: Shapes, outs: Shapes):
    """data (…, d, …), gamma, beta (d,) → (…, d, …), mean (…, 1, …), std (…, 1, …)."""
    (data,), (out,) = same_shape(p, ins[:1], outs[:1])
    size = known(*(shape[0] for shape in ins[1:] if shape))
    if data is None:
        return [data, *[(size,)] * 2], [out, *outs[1:]]
    try:
        axis = normal_axis(p.axis, len(data))
    except ValueError as error:
        raise InferenceError(f"Channel axis out of range: axis={p.axis}. {error}") from error
    data = replaced(data, axis, known(data[axis], size))
    rows = replaced(data, axis, 1)
    return [data, *[(data[axis],)] * 2], [data, rows, rows]


def _ranked(shape: Shape, op: str) -> None:
    if len(shape) < 3:
        problem = f"{op} only supports input tensors of rank >= 3"
        raise InferenceError(problem, input="data", expected="data (n, c, …)", got=format_shape(shape))


def _group_norm_shapes(p: GroupNormParams, ins: Shapes, outs: Shapes):
    """data (n, c, …), gamma, beta (g,) → (n, c, …), mean (n, g), std (n, g)."""
    (data,), (out,) = same_shape(p, ins[:1], outs[:1])
    samples = None
    if data is not None:
        _ranked(data, "GroupNorm")
        samples, channels = data[:2]
        if channels is not None and channels % p.num_groups:
            problem = "# of channels must be divisible by # of groups"
            expected = f"a divisor of {channels} channels"
            raise InferenceError(problem, param="num_groups", expected=expected, got=p.num_groups)
    return [data, *[(p.num_groups,)] * 2], [out, *[(samples, p.num_groups)] * 2]


def _instance_norm_shapes(p: InstanceNormParams, ins: Shapes, outs: Shapes):
    """data (n, c, …), gamma, beta (c,) → (n, c, …), mean (n, c), std (n, c)."""
    (data,), (out,) = same_shape(p, ins[:1], outs[:1])
    size = known(*(shape[0] for shape in ins[1:] if shape))
    samples = None
    if data is not None:
        _ranked(data, "InstanceNorm")
        samples, size = data[0], known(data[1], size)
        data = out = replaced(data, 1, size)
    return [data, *[(size,)] * 2], [out, *[(samples, size)] * 2]


def _backward_shapes(forward: ShapeRule) -> ShapeRule:
    """ograd, data, gamma, mean, std → gradients of data, gamma, beta, each of its input's shape."""

    def rule(p: Any, ins: Shapes, outs: Shapes):
        ograd, data, gamma, mean, std = ins
        (data,), (ograd,) = same_shape(p, [data], [outs[0] if ograd is None else ograd])
        (data, gamma, beta), (out, mean, std) = forward(p, [data, gamma, outs[2]], [ograd, mean, std])
        return [out, data, gamma, mean, std], [data, gamma, beta]

    return rule


# -- gradients -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Rows:
    """How an operator sees its data as rows that are normalised: the shape it gives them (None: their own), the axis
    that is normalised, and the one that gamma runs along."""

    shape: tuple[int, ...] | None
    normalised: int
    vector: int

    def as_rows(self, data: NodeEntry) -> NodeEntry:
        """The data as rows."""
        return data if self.shape is None else apply("Reshape", data, shape=self.shape)

    def back(self, rows: NodeEntry, data: NodeEntry) -> NodeEntry:
        """Rows in the shape of data."""
        return rows if self.shape is None else apply("reshape_like", rows, data)

    def mean(self, rows: NodeEntry) -> NodeEntry:
        """The mean of each row, to be broadcast."""
        return apply("mean", rows, axis=self.normalised, keepdims=True)


def _settings(p: Any) -> dict[str, Any]:
    """The parameters of the normalised axes."""
    return {name: value for name, value in vars(p).items() if name != "output_mean_var"}


def _gradient(name: str) -> Callable[[Node, Entries], Entries]:
    def rule(node: Node, ograds: Entries) -> Entries:
        """One operator makes all three. As in MXNet, head gradients of `mean` and `std` are ignored."""
        mean, std = NodeEntry(node, 1, 0), NodeEntry(node, 2, 0)
        grads = apply(f"_backward_{name}", ograds[0], *node.inputs[:2], mean, std, **_settings(node.attrs.parsed))
        return [grads._replace(index=i) for i in range(3)]

    return rule


def _gradient_of_gradient(name: str, rows_of: Callable[[Any], _Rows]) -> Callable[[Node, Entries], Sequence[Any]]:
    def rule(node: Node, ograds: Entries):
        """With X̂ = (X - μ) r, means m over rows, P(V) = V - m(V) - X̂ m(V X̂) and U = γ dY, the first gradient is

        dX = r P(U), dγ = Σ dY X̂, dβ = Σ dY. Of <G, dX> + <Gγ, dγ> + <Gβ, dβ> the gradients are, P being symmetric,

        of dY: γ r P(G) + Gγ X̂ + Gβ; of γ: Σ dY r P(G); and of X, through X̂ and through r:
        r P(Gγ dY - r (m(U X̂) G + m(G X̂) U)) - r X̂ m(r P(G) U).
        """
        p = node.attrs.parsed
        rows = rows_of(p)
        dy, x, gamma, mean, std = node.inputs
        data, like = x, rows.as_rows(x)
        dy, g, x = rows.as_rows(dy), rows.as_rows(ograds[0]), like
        ones = apply("ones_like", gamma)

        def projected(v: NodeEntry) -> NodeEntry:
            """r P(V): the first gradient with γ = 1."""
            return apply(f"_backward_{name}", v, x, ones, mean, std, **_settings(p))

        def spread(vector: NodeEntry) -> NodeEntry:
            return apply("_channels_like", vector, like, axis=rows.vector)

        # Dependence on X must be explicit: μ and σ as outputs of the forward operator pass no gradient.
        normal = apply(name, x, ones, apply("zeros_like", gamma), **_settings(p))
        variance = apply("moments", x, axes=(rows.normalised,), keepdims=True)._replace(index=1)
        r = apply("rsqrt", apply("_plus_scalar", variance, scalar=p.eps))
        u = apply("broadcast_mul", dy, spread(gamma))
        projected_g = projected(g)
        ggamma = spread(ograds[1])

        of_dy = apply(
            "broadcast_add",
            apply(
                "elemwise_add",
                apply("broadcast_mul", projected_g, spread(gamma)),
                apply("broadcast_mul", normal, ggamma),
            ),
            spread(ograds[2]),
        )
        of_gamma = apply("sum", apply("elemwise_mul", dy, projected_g), axis=rows.vector, exclude=True)
        crossed = apply(
            "elemwise_add",
            apply("broadcast_mul", g, rows.mean(apply("elemwise_mul", u, normal))),
            apply("broadcast_mul", u, rows.mean(apply("elemwise_mul", g, normal))),
        )
        of_normal = apply("elemwise_sub", apply("broadcast_mul", dy, ggamma), apply("broadcast_mul", crossed, r))
        through_r = apply("broadcast_mul", r, rows.mean(apply("elemwise_mul", projected_g, u)))
        of_x = apply("elemwise_sub", projected(of_normal), apply("broadcast_mul", normal, through_r))
        return [rows.back(of_dy, data), rows.back(of_x, data), of_gamma, None, None]

    return rule


# -- operators -------------------------------------------------------------------------------------------------------

for _name, _aliases, _params, _shapes, _rows_of, _doc in (
    (
        "LayerNorm",
        ("_npx_layer_norm",),
        LayerNormParams,
        _layer_norm_shapes,
        lambda p: _Rows(None, p.axis, p.axis),
        "Every row along an axis with mean 0 and variance 1, times gamma, plus beta (Ba et al., Layer Normalization, "
        "2016). The output `std` is √(variance + eps).",
    ),
    (
        "GroupNorm",
        (),
        GroupNormParams,
        _group_norm_shapes,
        lambda p: _Rows((0, p.num_groups, -1), 2, 1),
        "Every group of channels of every sample with mean 0 and variance 1, times gamma, plus beta (Wu, He: Group "
        "Normalization, 2018). As in MXNet 1.9 gamma and beta have one element for each group, not for each channel. "
        "The output `std` is √(variance + eps).",
    ),
    (
        "InstanceNorm",
        (),
        InstanceNormParams,
        _instance_norm_shapes,
        lambda p: _Rows((0, 0, -1), 2, 1),
        "Every channel of every sample with mean 0 and variance 1, times gamma, plus beta (Ulyanov et al., Instance "
        "Normalization, 2016). Takes every floating-point dtype; MXNet takes only float32.",
    ),
):
    register_op(
        _name,
        aliases=_aliases,
        params=_params,
        inputs=("data", "gamma", "beta"),
        outputs=("output", "mean", "std"),
        visible_outputs=lambda p: 3 if getattr(p, "output_mean_var", False) else 1,
        infer_shape=_shapes,
        infer_type=float_type,
        gradient=_gradient(_name),
        flops=7,  # mean, centre, square, sum, divide, scale, shift
        not_derivative=None if _name == "InstanceNorm" else statistics_ignored,
        drawing="normalization",
        doc=_doc,
    )
    register_op(
        f"_backward_{_name}",
        params=_params,
        inputs=("ograd", "data", "gamma", "mean", "std"),
        outputs=("data_grad", "gamma_grad", "beta_grad"),
        infer_shape=_backward_shapes(_shapes),
        infer_type=float_type,
        gradient=_gradient_of_gradient(_name, _rows_of),
        doc=f"The gradients of {_name}: of data, gamma and beta.",
    )
