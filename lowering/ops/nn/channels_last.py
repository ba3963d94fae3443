"""JAX rules of convolution with channels last, and of its two gradients."""

from __future__ import annotations

from jax import Array, lax

from lowering.ops.nn.convolution import with_bias
from lowering.registry import lowers
from symjax_nnvm.ops.nn import channels_last as ops


def _dims(p):
    rank = len(p.kernel)
    data = (0, rank + 1, *range(1, rank + 1))
    return lax.ConvDimensionNumbers(data, (rank + 1, rank, *range(rank)), data)


@lowers("_channels_last_convolution", needs=("platform",))
def _convolution(
    p: ops.ChannelsLastParams, data: Array, weight: Array, bias: Array | None = None, *, platform: str
) -> Array:
    out = lax.conv_general_dilated(
        data,
        weight,
        [s for _, s, _, _ in p.steps],
        [(pad, pad) for *_, pad in p.steps],
        rhs_dilation=[d for _, _, d, _ in p.steps],
        dimension_numbers=_dims(p),
        feature_group_count=p.num_group,
    )
    return with_bias(p, out, bias)
