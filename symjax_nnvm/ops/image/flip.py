"""Images turned left for right or top for bottom: always, or one time in two."""

from __future__ import annotations

from symjax_nnvm.ir.op import Deviation
from symjax_nnvm.ir.register import register_op
from symjax_nnvm.ir.rules.costs import ARRANGES
from symjax_nnvm.ir.rules.linear import self_adjoint
from symjax_nnvm.ops.image.shapes import one_image

UNCHANGED = "the head gradient is handed on as it is, as in MXNet"
"""Why gradients of random augmenters are not derivatives."""

_MIDDLE = "the middle of an odd number of rows or columns stays where it is; MXNet's is what the memory held"

for _name, _what in (("left_right", "left and right"), ("top_bottom", "top and bottom")):
    register_op(
        f"_image_flip_{_name}",
        aliases=(f"_npx__image_flip_{_name}",),
        infer_shape=one_image,
        gradient=self_adjoint,
        **ARRANGES,
        deviation=(
            Deviation(_MIDDLE),
            Deviation("the gradient is flipped; MXNet hands it on as it is", "training"),
        ),
        doc=f"An image (h, w, c) of 1 channel or 3 with {_what} exchanged.",
    )
    register_op(
        f"_image_random_flip_{_name}",
        aliases=(f"_npx__image_random_flip_{_name}",),
        infer_shape=one_image,
        gradient=lambda node, ograds: [ograds[0]],
        **ARRANGES,
        draws="always",
        deviation=_MIDDLE,
        not_derivative=UNCHANGED,
        doc=f"An image (h, w, c) of 1 channel or 3, with {_what} exchanged with probability 1/2. Its gradient is that "
        "of an image that stayed as it was, as in MXNet.",
    )
