"""Cases of region proposals. No two scores are alike: MXNet sorts equal ones in an order of its own."""

from dataclasses import dataclass

import numpy as np

from tests.cases import Case, T, Tensor
from tests.cases.vision.bounding_box import ZERO

ONLY_FLOAT32 = "MXNet's knows float32 only"


@dataclass(frozen=True)
class Scores(Tensor):
    """Distinct scores in (0, 1)."""

    def draw(self, rng: np.random.RandomState) -> np.ndarray:
        size = int(np.prod(self.shape))
        return ((rng.permutation(size) + 0.5) / size).reshape(self.shape).astype(np.float32).astype(self.dtype)


@dataclass(frozen=True)
class Images(Tensor):
    """(b, 3): height, width and scale of images that fill most of a 4 × 5 map of stride 8."""

    def draw(self, rng: np.random.RandomState) -> np.ndarray:
        return np.array([[32.0, 40.0, 1.0], [30.0, 33.0, 0.5]])[: self.shape[0]].astype(self.dtype)


SMALL = {"scales": (1.0, 2.0), "ratios": (0.5, 1.0, 2.0), "feature_stride": 8, "rpn_min_size": 2}
FEW = {**SMALL, "rpn_pre_nms_top_n": 30, "rpn_post_nms_top_n": 6}


def proposal(op: str, images: int = 1, moves: float = 0.5, **params: object) -> Case:
    inputs = (Scores((images, 12, 4, 5)), T(images, 24, 4, 5, low=-moves, high=moves), Images((images, 3)))
    return Case(op, inputs, params, wrt=())


CASES = [
    proposal("_contrib_Proposal", **FEW),
    proposal("_contrib_Proposal", **{**FEW, "threshold": 0.2, "rpn_post_nms_top_n": 12, "output_score": True}),
    proposal("_contrib_Proposal", moves=5.0, **FEW, iou_loss=True, output_score=True),
    Case(
        "_contrib_Proposal",
        (Scores((1, 2, 2, 2)), T(1, 4, 2, 2), T(1, 3, low=15, high=16)),
        {"scales": (2.0,), "ratios": (1.0,), "feature_stride": 8, "rpn_min_size": 0, "rpn_post_nms_top_n": 7},
        not_derivative=ZERO,
    ),
    proposal("_contrib_MultiProposal", images=2, **FEW, output_score=True),
    proposal("_contrib_MultiProposal", images=2, moves=5.0, **FEW, threshold=0.3, iou_loss=True),
    Case(
        "_contrib_MultiProposal",
        (Scores((2, 2, 2, 2)), T(2, 4, 2, 2), T(2, 3, low=15, high=16)),
        {"scales": (2.0,), "ratios": (1.0,), "feature_stride": 8, "rpn_min_size": 0, "rpn_post_nms_top_n": 3},
        not_derivative=ZERO,
    ),
    Case(
        "_contrib_MultiProposal",
        (Scores((1, 2, 2, 2), dtype="float64"), T(1, 4, 2, 2, dtype="float64"), Images((1, 3), dtype="float64")),
        {"scales": (2.0,), "ratios": (1.0,), "feature_stride": 8, "rpn_post_nms_top_n": 3, "rpn_pre_nms_top_n": 0},
        wrt=(),
        no_mxnet=ONLY_FLOAT32,
    ),
]
